//! Schedules dry runs of a Lease update, by which a standby checks whether it could write the Lease.
//!
//! A standby only reads the Lease while another replica leads. Without dry runs it would discover a missing permission,
//! or a webhook's refusal, only when it has to lead. A dry run needs the same permission as that write. It does not
//! detect a full etcd: the leader's own renewals fail then, and the standby's real write after them.
//!
//! Must not: decide which replica leads, or report failures.

use std::time::Duration;

use lakh_model::{Monotonic, Timeout};

use crate::machine::CallId;

/// The time for which a successful write is trusted.
const INTERVAL: Duration = Duration::from_secs(60);

/// The delay after a write that failed.
const RETRY: Duration = Duration::from_secs(10);

/// The next dry run's due time, and the dry run in flight.
#[derive(Debug, Default)]
pub(super) struct LeaseProbe {
    due: Monotonic,
    under_way: Option<(CallId, Monotonic)>,
}

impl LeaseProbe {
    /// Returns true if a dry run is due.
    pub(super) fn is_due(&self, now: Monotonic) -> bool {
        self.under_way.is_none() && self.due <= now
    }

    /// Records that a dry run was sent.
    pub(super) fn begin(&mut self, id: CallId, now: Monotonic) {
        self.under_way = Some((id, now));
    }

    /// Returns true if this response is the dry run's, and ends the dry run.
    pub(super) fn take_answer(&mut self, id: CallId) -> bool {
        self.under_way.take_if(|(own, _)| *own == id).is_some()
    }

    /// Returns when the dry run in flight was sent.
    pub(super) fn sent(&self) -> Option<Monotonic> {
        self.under_way.map(|(_, sent)| sent)
    }

    /// Returns true if the dry run in flight has timed out after `longest`, and ends it.
    pub(super) fn take_overdue(&mut self, longest: Duration, now: Monotonic) -> bool {
        let overdue = |(_, sent): &mut (CallId, Monotonic)| now.since(*sent) >= longest;
        self.under_way.take_if(overdue).is_some()
    }

    /// Records the outcome of a Lease write, dry run or not.
    pub(super) fn handle_outcome(&mut self, has_succeeded: bool, now: Monotonic) {
        let pause = match has_succeeded {
            true => INTERVAL,
            false => RETRY,
        };
        self.due = now + pause;
    }

    /// Returns when to check again without a response.
    pub(super) fn poll_timeout(&self, longest: Duration) -> Timeout {
        match self.under_way {
            Some((_, sent)) => (sent + longest).into(),
            None => self.due.into(),
        }
    }
}
