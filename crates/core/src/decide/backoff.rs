//! Backoff: holds back one kind of write after it was refused.

use std::time::Duration;

use crate::model::{Exponential, Monotonic};

/// Blocks one kind of write for a while after a failure, longer after each consecutive failure.
#[derive(Clone, Debug, Default)]
pub(super) struct Backoff {
    backoff: Exponential,
    failures: u32,
    /// A chance event happened that counts as a failure if it repeats before a success.
    warned: bool,
    closed_until: Option<Monotonic>,
}

impl Backoff {
    pub(super) fn new(backoff: Exponential) -> Self {
        Self {
            backoff,
            ..Self::default()
        }
    }

    /// Records a failure. Failures during the backoff belong to the same batch and do not extend it.
    pub(super) fn fail(&mut self, now: Monotonic) {
        self.close(now, |usual| usual);
    }

    /// Records a failure that is worth a retry after at most `wait`, but not at once.
    pub(super) fn fail_until(&mut self, wait: Duration, now: Monotonic) {
        let wait = wait.max(self.backoff.base);
        self.close(now, |usual| usual.min(wait));
    }

    fn close(&mut self, now: Monotonic, wait: impl FnOnce(Duration) -> Duration) {
        if self.is_closed(now) {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        self.closed_until = Some(now + wait(self.backoff.delay(self.failures)));
    }

    /// Records an event that may happen by chance, but hardly twice in a row. Returns true if it has become a failure.
    pub(super) fn fail_if_again(&mut self, now: Monotonic) -> bool {
        let again = std::mem::replace(&mut self.warned, true);
        if again {
            self.fail(now);
        }
        again
    }

    /// Records a success. It resets the count of failures unless it belongs to the batch that failed.
    pub(super) fn succeed(&mut self, now: Monotonic) {
        if !self.is_closed(now) {
            self.failures = 0;
            self.warned = false;
            self.closed_until = None;
        }
    }

    /// Ends the backoff, because the cause of the failure may be gone.
    pub(super) fn open(&mut self) {
        self.closed_until = None;
    }

    /// True if the last write was a failure.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    pub(super) fn is_closed(&self, now: Monotonic) -> bool {
        self.opens_at(now).is_some()
    }

    /// Returns when the backoff ends, if it is active.
    pub(super) fn opens_at(&self, now: Monotonic) -> Option<Monotonic> {
        self.closed_until.filter(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn failures_of_one_batch_count_once_and_a_row_of_batches_doubles() {
        let backoff = Exponential {
            base: Duration::from_secs(1),
            max: Duration::from_secs(60),
        };
        let mut gate = Backoff::new(backoff);
        gate.fail(Monotonic::from_secs(0));
        gate.fail(Monotonic::from_secs(0));
        gate.succeed(Monotonic::from_secs(0));
        assert_eq!(
            gate.opens_at(Monotonic::from_secs(0)),
            Some(Monotonic::from_secs(1))
        );
        gate.fail(Monotonic::from_secs(1));
        assert_eq!(
            gate.opens_at(Monotonic::from_secs(1)),
            Some(Monotonic::from_secs(3))
        );
        gate.succeed(Monotonic::from_secs(3));
        gate.fail(Monotonic::from_secs(3));
        assert_eq!(
            gate.opens_at(Monotonic::from_secs(3)),
            Some(Monotonic::from_secs(4))
        );
        gate.succeed(Monotonic::from_secs(4));
        for now in [4, 5, 7, 11, 16] {
            gate.fail_until(Duration::from_secs(5), Monotonic::from_secs(now));
        }
        assert_eq!(
            gate.opens_at(Monotonic::from_secs(16)),
            Some(Monotonic::from_secs(21))
        );
        gate.fail_until(Duration::ZERO, Monotonic::from_secs(21));
        assert!(
            gate.is_closed(Monotonic::from_secs(21)),
            "tried again at once"
        );
        assert!(!gate.is_closed(Monotonic::from_secs(22)));
    }

    #[test]
    fn a_single_failure_does_not_count() {
        let mut gate = Backoff::new(Exponential {
            base: Duration::from_secs(1),
            max: Duration::from_secs(60),
        });
        let now = Monotonic::from_secs(0);
        assert!(!gate.fail_if_again(now));
        assert!(!gate.is_closed(now));
        gate.succeed(now);
        assert!(!gate.fail_if_again(now));
        assert!(gate.fail_if_again(now));
        assert!(gate.is_closed(now));
    }
}
