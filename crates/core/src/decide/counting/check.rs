//! Compares the incrementally updated state with one computed from all Pods; for tests.

use crate::model::{CompactIndex, PodTable, Slot};

use super::{
    super::{effect::CreationId, job::JobContext},
    Counting, Tally,
    holders::Holders,
    look::{holds_index, index_of},
    pod::Facts,
    stage::Stage,
    success_policy::Successes,
};

impl Counting {
    /// Panics if a sum, a set or a list differs from one computed anew from the Pods and the creations in flight.
    pub(in crate::decide) fn check<'a>(
        &self,
        context: &JobContext<'_>,
        pods: &PodTable,
        creations: impl Iterator<Item = &'a CreationId>,
    ) {
        let mut tally = Tally::default();
        let mut holders: Vec<u32> = creations.filter_map(|id| id.index).collect();
        let mut kept: Vec<(u32, Slot)> = Vec::new();
        let mut active = Holders::default();
        for (at, tracked) in self.pods.iter().enumerate() {
            let slot = Slot(u32::try_from(at).expect("fewer than 2^32 Pods"));
            let is_invalid = self.has_invalid_index(context, tracked);
            tally.share(slot, tracked, is_invalid, true);
            let index = index_of(context, tracked);
            holders.extend(index.filter(|_| holds_index(context, tracked)));
            if let Some(index) = index {
                if tracked.stage == Stage::Delayed {
                    kept.push((index, slot));
                }
                if context.spec.per_index.is_some() && tracked.has(Facts::ACTIVE) {
                    active.take(index);
                }
            }
            match pods.get(slot) {
                Some(pod) => {
                    assert!(
                        tracked.facts.agrees_with(pod),
                        "{slot:?}: {tracked:?}, {pod:?}"
                    );
                    let count = tracked.number.map(CompactIndex::get);
                    let counts = context.spec.is_indexed() || count == self.names.count_of(pod);
                    assert!(counts, "{slot:?}: {count:?}, {pod:?}");
                }
                None => assert_eq!(tracked.stage, Stage::Live, "{slot:?}: a Pod that is gone"),
            }
            let listing = matches!(tracked.stage, Stage::Listing(_));
            assert!(
                !listing || self.naming.under_way.is_some(),
                "{slot:?}: named in no write"
            );
        }
        assert_eq!(self.tally, tally, "a sum has drifted");
        assert!(self.uncounted.adds_up(), "{:?}", self.uncounted);
        assert!(self.indexes.agree_with(&holders), "{:?}", self.indexes);
        assert!(
            self.delayed.agrees_with(&kept, &active),
            "{:?}, {kept:?}",
            self.delayed
        );
        for (index, slot) in kept {
            let needless = active.contains(index) || self.indexes.is_over(index);
            assert!(!needless, "{slot:?} is kept for {index}");
        }
        let successes = Successes::new(context.spec.success.as_ref(), self.indexes.completed());
        assert_eq!(self.successes, successes, "a success was lost");
    }
}
