//! Compares what the machine keeps by change with what a look at all Pods gives; for tests.

use crate::model::{CompactIndex, PodTable, Slot};

use super::{
    JobMachine,
    holders::Holders,
    steer::CreationState,
    success_policy::Successes,
    tracked::{Facts, Stage, Tally},
};

impl JobMachine {
    /// Panics if a sum, a set or a list is not what it would be if it were made anew from the
    /// Pods. To be called when the machine has heard of every Pod; costs a look at all of them.
    #[doc(hidden)]
    pub fn debug_check(&self, pods: &PodTable) {
        let mut tally = Tally::default();
        let mut holders: Vec<u32> = self
            .creations
            .values()
            .filter_map(|one| one.index)
            .collect();
        let mut retained: Vec<(u32, Slot)> = Vec::new();
        let mut active = Holders::default();
        for (at, tracked) in self.tracked.iter().enumerate() {
            let slot = Slot(u32::try_from(at).expect("fewer than 2^32 Pods"));
            tally.share(slot, tracked, self.is_misfit(tracked), true);
            let held = tracked.index.filter(|_| self.holds_index(tracked));
            holders.extend(held.map(|index| index.get()));
            if let Some(index) = tracked.index.map(CompactIndex::get) {
                if tracked.stage == Stage::Retained {
                    retained.push((index, slot));
                }
                if self.spec.per_index.is_some() && tracked.has(Facts::ACTIVE) {
                    active.take(index);
                }
            }
            match pods.get(slot) {
                Some(pod) => {
                    assert!(
                        tracked.facts.agrees_with(pod),
                        "{slot:?}: {tracked:?}, {pod:?}"
                    );
                }
                None => assert_eq!(tracked.stage, Stage::Live, "{slot:?}: a Pod that is gone"),
            }
            let listing = matches!(tracked.stage, Stage::Listing(_));
            assert!(
                !listing || self.writing.is_some(),
                "{slot:?}: named in no write"
            );
        }
        assert_eq!(self.tally, tally, "a sum has drifted");
        assert!(self.uncounted.adds_up(), "{:?}", self.uncounted);
        assert!(self.indexes.agree_with(&holders), "{:?}", self.indexes);
        assert!(
            self.retention.agrees_with(&retained, &active),
            "{:?}, {retained:?}",
            self.retention
        );
        for (index, slot) in retained {
            let needless = active.contains(index) || self.indexes.is_over(index);
            assert!(!needless, "{slot:?} is kept for {index}");
        }
        let successes = Successes::new(self.spec.success.as_ref(), self.indexes.completed());
        assert_eq!(self.successes, successes, "a success was lost");
        for (state, kept) in [
            (CreationState::Doubtful, self.doubtful),
            (CreationState::Void, self.void),
        ] {
            let found = self.creations.values().filter(|one| one.state == state);
            assert_eq!(found.count(), kept as usize, "{state:?} creations");
        }
    }
}
