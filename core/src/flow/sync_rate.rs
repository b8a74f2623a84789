//! How many syncs there are in a time, so that each hears of several things.
//!
//! A sync costs some microseconds whatever it brings. A thousand Jobs of which each has news every few
//! milliseconds would be synced for each Pod that does anything; one that waits for its next sync takes in all
//! that came meanwhile. A few Jobs never get near the limit and never wait, and syncs that could hear of one thing
//! only are not told to it.
//!
//! Must not: know what is synced.

use crate::model::Monotonic;

use super::coalescing::LONGEST;

/// See the module's text.
#[derive(Debug, Default)]
pub struct SyncRate {
    since: Monotonic,
    spent: u32,
}

impl SyncRate {
    /// So many syncs follow each other; then what comes is taken in for the rest of the longest coalescing
    /// delay. Measured with a thousand Jobs of a hundred Pods, docs/flow.md.
    pub const AT_ONCE: u32 = 50;

    /// When the next sync may be, if not now.
    pub fn due_at(&self, now: Monotonic) -> Option<Monotonic> {
        let due = self.since + LONGEST;
        (self.spent >= Self::AT_ONCE && due > now).then_some(due)
    }

    /// There was a sync.
    pub fn spend(&mut self, now: Monotonic) {
        if now.since(self.since) >= LONGEST {
            *self = Self {
                since: now,
                spent: 0,
            };
        }
        self.spent += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_syncs_are_free_and_more_wait_for_others() {
        let mut rate = SyncRate::default();
        let start = Monotonic::from_millis(1000);
        for _ in 0..SyncRate::AT_ONCE {
            assert_eq!(rate.due_at(start), None);
            rate.spend(start);
        }
        let due = start + LONGEST;
        assert_eq!(rate.due_at(start), Some(due));
        assert_eq!(rate.due_at(due), None);
        rate.spend(due);
        assert_eq!(rate.due_at(due), None);
    }
}
