//! Limits the rate of syncs, so that each handles several events.
//!
//! A sync has a fixed cost of some microseconds. A thousand Jobs with an event every few milliseconds each would be
//! synced for every change of a Pod. A Job that waits for its next sync handles all events that came meanwhile. A few
//! Jobs never reach the limit and never wait. The caller does not count syncs that can only have one event.
//!
//! Must not: know the objects that are synced.

use crate::model::Monotonic;

use super::coalescing::LONGEST;

/// Counts syncs per coalescing delay. Check [`SyncRate::due_at`] before a sync, and call [`SyncRate::spend`] after it.
#[derive(Debug, Default)]
pub struct SyncRate {
    since: Monotonic,
    spent: u32,
}

impl SyncRate {
    /// The number of syncs that may follow each other. Further events are gathered for the rest of the longest
    /// coalescing delay. Measured with a thousand Jobs of a hundred Pods, docs/flow.md.
    pub const AT_ONCE: u32 = 50;

    /// Returns when the next sync may start, if not now.
    pub fn due_at(&self, now: Monotonic) -> Option<Monotonic> {
        let due = self.since + LONGEST;
        (self.spent >= Self::AT_ONCE && due > now).then_some(due)
    }

    /// Counts a sync.
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
