//! Keeps failed Pods until their index has a new Pod, where failures count per index.
//!
//! Source: docs/rules/jobs.md, 3.7 and 5.5. Such a Pod records how often its index failed and until when the index
//! waits. A restart of the controller loses neither, because the Pod keeps its finalizer.
//!
//! Must not: keep state of indexes that have no failed Pod.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Exponential, FailureCounts, IndexSet, Slot, Time};

use super::holders::Holders;

/// A failed Pod that is kept for its index.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kept {
    slot: Slot,
    /// The failures of the index, including this Pod.
    failures: FailureCounts,
    finished: Time,
    /// When the index may have a new Pod.
    due: Time,
}

/// The failed Pods that are kept, at most one per index, and the index backoffs that follow from them.
#[derive(Clone, Debug, Default)]
#[doc(alias = "podsWithDelayedDeletionPerIndex")]
pub(super) struct DelayedDeletions {
    by_index: BTreeMap<u32, Kept>,
    /// The indexes in backoff, by the end of their backoff. An entry stays until `expire` removes it.
    due: BTreeSet<(Time, u32)>,
    /// The same indexes.
    waiting: IndexSet,
    /// The indexes that have active Pods.
    active: Holders,
}

impl DelayedDeletions {
    /// Returns true if this failed Pod would be kept, possibly instead of the one kept now. The Pod with more failures
    /// wins, then the later one. Times come second: where a clock was set back, the last to fail may seem the first.
    pub(super) fn would_keep(&self, index: u32, failures: FailureCounts, finished: Time) -> bool {
        self.by_index.get(&index).is_none_or(|rival| {
            (failures.total(), finished) >= (rival.failures.total(), rival.finished)
        })
    }

    /// Keeps a failed Pod for its index, which has none.
    pub(super) fn keep(
        &mut self,
        (index, slot): (u32, Slot),
        failures: FailureCounts,
        finished: Time,
        backoff: Exponential,
    ) {
        let due = finished + backoff.delay(failures.total());
        self.by_index.insert(
            index,
            Kept {
                slot,
                failures,
                finished,
                due,
            },
        );
        self.due.insert((due, index));
        self.waiting.insert(index);
    }

    /// Stops keeping a Pod. Returns its slot.
    pub(super) fn remove(&mut self, index: u32) -> Option<Slot> {
        let pod = self.by_index.remove(&index)?;
        if self.waiting.remove(index) {
            self.due.remove(&(pod.due, index));
        }
        Some(pod.slot)
    }

    /// Returns the lowest index with a kept Pod.
    pub(super) fn first(&self) -> Option<u32> {
        self.by_index.first_key_value().map(|(index, _)| *index)
    }

    /// Returns true if an index has an active Pod.
    pub(super) fn has_active(&self, index: u32) -> bool {
        self.active.contains(index)
    }

    /// Adds an active Pod to its index, or removes it.
    pub(super) fn share_active(&mut self, index: u32, more: bool) {
        if more {
            self.active.take(index);
        } else {
            self.active.give_back(index);
        }
    }

    /// Ends the backoffs that are over.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some((due, index)) = self.due.first().copied()
            && due <= now
        {
            self.due.pop_first();
            self.waiting.remove(index);
        }
    }

    /// Returns the indexes in backoff, as of the last [`DelayedDeletions::expire`].
    pub(super) fn waiting(&self) -> &IndexSet {
        &self.waiting
    }

    /// Returns when the next backoff ends.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Returns how often an index has failed.
    pub(super) fn failures(&self, index: u32) -> FailureCounts {
        let pod = self.by_index.get(&index);
        pod.map(|pod| pod.failures).unwrap_or_default()
    }

    /// Stops keeping all Pods.
    pub(super) fn clear(&mut self) {
        self.by_index.clear();
        self.due.clear();
        self.waiting = IndexSet::default();
    }

    /// Returns true if exactly these Pods are kept and exactly these indexes have active Pods.
    pub(super) fn agrees_with(&self, kept: &[(u32, Slot)], active: &Holders) -> bool {
        let mut ours: Vec<(u32, Slot)> = self.by_index.iter().map(|(i, p)| (*i, p.slot)).collect();
        let mut found = kept.to_vec();
        ours.sort_unstable();
        found.sort_unstable();
        let due: IndexSet = self.due.iter().map(|(_, index)| *index).collect();
        ours == found
            && due == self.waiting
            && due.iter().all(|index| self.by_index.contains_key(&index))
            && *active == self.active
    }
}
