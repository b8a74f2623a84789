//! Computes the backoff between failed Pods and new ones.
//!
//! Source: docs/rules/jobs.md, 5.1 to 5.4. The counters live in memory only. A successor inherits them as of the last
//! successful status write.

use std::time::Duration;

use crate::model::{Exponential, Time};

/// Consecutive failures, and the time of the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    count: u32,
    last: Time,
}

/// The Pods that ended in one batch, in any order.
#[derive(Clone, Debug, Default)]
struct EndedBatch {
    last_success: Option<Time>,
    failures: Vec<Time>,
}

impl Failures {
    /// Adds a batch. A success resets the count. Only failures after the batch's last success start a new one; a
    /// failure in the same second does not.
    fn fold(&mut self, batch: &mut EndedBatch) {
        let success = batch.last_success.take();
        if success.is_some() {
            *self = Self::default();
        }
        for at in batch.failures.drain(..) {
            if success.is_none_or(|success| at > success) {
                self.count = self.count.saturating_add(1);
                self.last = self.last.max(at);
            }
        }
    }

    /// Returns until when new Pods are blocked, if that time is not over.
    pub(super) fn until(&self, backoff: Exponential, now: Time) -> Option<Time> {
        if self.count == 0 {
            return None;
        }
        let until = self.last + backoff.delay(self.count);
        (until > now && until.since(now) > Duration::ZERO).then_some(until)
    }
}

/// Consecutive failures as currently known, and as of the last successful status write.
#[derive(Clone, Debug, Default)]
pub(super) struct PodFailures {
    batch: EndedBatch,
    pub(super) in_a_row: Failures,
    pub(super) stored: Failures,
}

impl PodFailures {
    /// Records a succeeded Pod.
    pub(super) fn success(&mut self, at: Time) {
        self.batch.last_success = self.batch.last_success.max(Some(at));
    }

    /// Records a failed Pod.
    pub(super) fn failure(&mut self, at: Time) {
        self.batch.failures.push(at);
    }

    /// Ends the batch.
    pub(super) fn fold(&mut self) {
        self.in_a_row.fold(&mut self.batch);
    }

    /// Returns the state that a new machine inherits.
    pub(super) fn as_stored(&self) -> Self {
        Self {
            in_a_row: self.stored,
            stored: self.stored,
            batch: EndedBatch::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Exponential = Exponential {
        base: Duration::from_secs(10),
        max: Duration::from_secs(600),
    };

    fn row(count: u32, last: Time) -> Failures {
        Failures { count, last }
    }

    fn folded(start: Failures, successes: &[i64], failures: &[i64]) -> Failures {
        let mut pods = PodFailures {
            in_a_row: start,
            ..PodFailures::default()
        };
        for at in successes {
            pods.success(Time::from_secs(*at));
        }
        for at in failures {
            pods.failure(Time::from_secs(*at));
        }
        pods.fold();
        pods.in_a_row
    }

    #[test]
    fn a_success_ends_the_row_but_for_later_failures() {
        let two = row(2, Time::from_secs(5));
        assert_eq!(folded(two, &[], &[]), two);
        assert_eq!(folded(two, &[], &[7, 6]), row(4, Time::from_secs(7)));
        assert_eq!(folded(two, &[8], &[]), Failures::default());
        assert_eq!(folded(two, &[8, 6], &[7, 8, 9]), row(1, Time::from_secs(9)));
    }

    #[test]
    fn a_successor_counts_a_failure_once_that_no_stored_status_has() {
        let two = row(2, Time::from_secs(5));
        let mut pods = PodFailures {
            in_a_row: two,
            stored: two,
            ..PodFailures::default()
        };
        pods.failure(Time::from_secs(7));
        pods.fold();
        // It handles the same Pod anew.
        let mut next = pods.as_stored();
        next.failure(Time::from_secs(7));
        next.fold();
        assert_eq!(next.in_a_row, row(3, Time::from_secs(7)));
    }

    #[test]
    fn the_wait_is_measured_from_the_last_failure() {
        let one = row(1, Time::from_secs(100));
        assert_eq!(
            one.until(BACKOFF, Time::from_secs(109)),
            Some(Time::from_secs(110))
        );
        assert_eq!(one.until(BACKOFF, Time::from_secs(110)), None);
        assert_eq!(Failures::default().until(BACKOFF, Time::from_secs(0)), None);
    }
}
