//! Tries now and then whether a standby could write the Lease, by an update that the server only pretends to do.
//!
//! A standby reads the Lease and never writes it while another replica leads. It would learn that it lacks a right, or
//! that a webhook refuses it, only when it had to lead. A dry run needs no other right than that write. It does not show
//! that etcd is full; the leader's own renewals fail then, and the standby's real write after them.
//!
//! Must not: decide who leads, or report failures.

use std::time::Duration;

use crate::{
    machine::CallId,
    model::{Monotonic, Timeout},
};

/// The outcome of a write is trusted for this time.
const INTERVAL: Duration = Duration::from_secs(60);

/// The delay after a write that failed.
const RETRY: Duration = Duration::from_secs(10);

/// When the next dry run is due, and the one under way.
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

    /// A dry run was sent.
    pub(super) fn begin(&mut self, id: CallId, now: Monotonic) {
        self.under_way = Some((id, now));
    }

    /// Returns true if this answer is the dry run's; it is over then.
    pub(super) fn take_answer(&mut self, id: CallId) -> bool {
        self.under_way.take_if(|(own, _)| *own == id).is_some()
    }

    /// When the dry run under way was sent.
    pub(super) fn sent(&self) -> Option<Monotonic> {
        self.under_way.map(|(_, sent)| sent)
    }

    /// Returns true if the dry run under way had no answer for so long; it is given up then.
    pub(super) fn take_overdue(&mut self, longest: Duration, now: Monotonic) -> bool {
        let overdue = |(_, sent): &mut (CallId, Monotonic)| now.since(*sent) >= longest;
        self.under_way.take_if(overdue).is_some()
    }

    /// A write of the Lease, dry or not, has succeeded or failed.
    pub(super) fn handle_outcome(&mut self, has_succeeded: bool, now: Monotonic) {
        let pause = match has_succeeded {
            true => INTERVAL,
            false => RETRY,
        };
        self.due = now + pause;
    }

    /// When to look again though no answer came.
    pub(super) fn poll_timeout(&self, longest: Duration) -> Timeout {
        match self.under_way {
            Some((_, sent)) => (sent + longest).into(),
            None => self.due.into(),
        }
    }
}
