//! The failed Pods that stay until their index has a new one, where failures count by index.
//!
//! Source: docs/rules/jobs.md, 3.7 and 5.5. Such a Pod tells how often its index failed and until
//! when it waits; a restart of the controller loses neither, for the Pod keeps its finalizer.
//!
//! Must not: hold anything of indexes that have no failed Pod.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{CompactIndex, FailureCounts, IndexSet, PodRecord, Slot, Time};

use super::{
    JobMachine,
    holders::Holders,
    tracked::{End, Facts, Ruling, Stage, Tracked},
};

/// A failed Pod that is kept for its index.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Retained {
    slot: Slot,
    /// How often the index has failed, with this Pod.
    failures: FailureCounts,
    finished: Time,
    /// When the index may have a new Pod.
    due: Time,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Retention {
    by_index: BTreeMap<u32, Retained>,
    /// The indexes whose wait is not known to be over, by its end.
    due: BTreeSet<(Time, u32)>,
    /// The same indexes.
    waiting: IndexSet,
    /// The indexes that have active Pods.
    active: Holders,
}

impl Retention {
    fn insert(&mut self, index: u32, pod: Retained) {
        self.by_index.insert(index, pod);
        self.due.insert((pod.due, index));
        self.waiting.insert(index);
    }

    fn remove(&mut self, index: u32) -> Option<Retained> {
        let pod = self.by_index.remove(&index)?;
        if self.waiting.remove(index) {
            self.due.remove(&(pod.due, index));
        }
        Some(pod)
    }

    /// Lets indexes go whose wait is over.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some((due, index)) = self.due.first().copied()
            && due <= now
        {
            self.due.pop_first();
            self.waiting.remove(index);
        }
    }

    /// The indexes that must wait, as of the last [`Retention::expire`].
    pub(super) fn waiting(&self) -> &IndexSet {
        &self.waiting
    }

    /// When the next wait is over.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    /// How often an index has failed.
    pub(super) fn failures(&self, index: u32) -> FailureCounts {
        let pod = self.by_index.get(&index);
        pod.map(|pod| pod.failures).unwrap_or_default()
    }

    /// Notes that no Pod is kept any more.
    pub(super) fn clear(&mut self) {
        self.by_index.clear();
        self.due.clear();
        self.waiting = IndexSet::new();
    }

    /// Whether exactly these Pods are kept and exactly these indexes have active Pods.
    pub(super) fn agrees_with(&self, retained: &[(u32, Slot)], active: &Holders) -> bool {
        let mut kept: Vec<(u32, Slot)> = self.by_index.iter().map(|(i, p)| (*i, p.slot)).collect();
        let mut found = retained.to_vec();
        kept.sort_unstable();
        found.sort_unstable();
        let due: IndexSet = self.due.iter().map(|(_, index)| *index).collect();
        kept == found
            && due == self.waiting
            && due.iter().all(|index| self.by_index.contains_key(&index))
            && *active == self.active
    }
}

impl JobMachine {
    /// Takes in that a Pod failed: it fails its index, is kept for it, or counts.
    pub(super) fn fail(&mut self, slot: Slot, tracked: &Tracked, pod: &PodRecord) -> Stage {
        let index = tracked.index.map(CompactIndex::get);
        let Some(index) = index.filter(|_| self.spec.per_index.is_some()) else {
            return self.count_failure(slot, tracked.ruling);
        };
        if self.fails_index(tracked, pod) {
            self.indexes.fail(index);
            self.release_retained(index);
        }
        if self.indexes.is_over(index) || self.retention.active.contains(index) {
            return self.count_failure(slot, tracked.ruling);
        }
        self.retain(slot, index, tracked, pod)
    }

    /// Whether a Pod's failure is one more than its index may have. Pods that this machine stops
    /// because the Job ends do not fail their index.
    fn fails_index(&self, tracked: &Tracked, pod: &PodRecord) -> bool {
        let stopped = !pod.phase.is_terminal() && tracked.has(Facts::CONDEMNED);
        let before = pod.failure.as_ref().map(|facts| facts.counts.counted);
        let limit = self.spec.per_index.map(|limit| limit.backoff_limit);
        match tracked.ruling {
            Ruling::FailsIndex => true,
            Ruling::Ignored => false,
            Ruling::Open | Ruling::NoRule | Ruling::Counts | Ruling::FailsJob => {
                !stopped && Some(before.unwrap_or(0)) >= limit
            }
        }
    }

    /// Keeps a failed Pod for its index, unless one that is kept already tells more.
    fn retain(&mut self, slot: Slot, index: u32, tracked: &Tracked, pod: &PodRecord) -> Stage {
        let before = pod.failure.as_ref().map(|facts| facts.counts);
        let failures = before
            .unwrap_or_default()
            .and_one(tracked.ruling == Ruling::Ignored);
        let finished = pod.finished_at();
        let wait = self.limits.pod_failure_backoff.delay(failures.total());
        let rival = self.retention.by_index.get(&index);
        // Times come second: where a clock was set back, the last to fail may seem to be the first.
        if rival.is_some_and(|rival| {
            (failures.total(), finished) < (rival.failures.total(), rival.finished)
        }) {
            return self.count_failure(slot, tracked.ruling);
        }
        self.release_retained(index);
        self.retention.insert(
            index,
            Retained {
                slot,
                failures,
                finished,
                due: finished + wait,
            },
        );
        Stage::Retained
    }

    /// Queues a failed Pod for the next status write, if it counts.
    pub(super) fn count_failure(&mut self, slot: Slot, ruling: Ruling) -> Stage {
        if ruling == Ruling::Ignored {
            return Stage::Waived;
        }
        self.ended_pods.by_uid.push_back(slot);
        Stage::Ended(End::Failure)
    }

    /// The Pod in this slot is not kept any more, because it is looked at anew or is gone.
    pub(super) fn forget_retained(&mut self, tracked: &mut Tracked) {
        if tracked.stage == Stage::Retained {
            tracked.stage = Stage::Live;
            if let Some(index) = tracked.index {
                self.retention.remove(index.get());
            }
        }
    }

    /// An index needs its failed Pod no more: it may be counted and go.
    pub(super) fn release_retained(&mut self, index: u32) {
        let Some(pod) = self.retention.remove(index) else {
            return;
        };
        let ruling = self.tracked[pod.slot.at()].ruling;
        self.restage(pod.slot, |machine| machine.count_failure(pod.slot, ruling));
        self.status_is_stale = true;
    }

    /// No index needs its failed Pod any more.
    pub(super) fn release_all_retained(&mut self) {
        while let Some((index, _)) = self.retention.by_index.first_key_value() {
            self.release_retained(*index);
        }
    }

    /// Puts an active Pod in or takes it out of those that its index has.
    pub(super) fn share_active(&mut self, tracked: &Tracked, more: bool) {
        if self.spec.per_index.is_none() || !tracked.has(Facts::ACTIVE) {
            return;
        }
        let Some(index) = tracked.index else { return };
        if more {
            self.retention.active.take(index.get());
        } else {
            self.retention.active.give_back(index.get());
        }
    }

    /// A Pod was seen: if it is active, it is what its index's failed Pod was kept for.
    pub(super) fn replace_retained(&mut self, tracked: &Tracked) {
        if let Some(index) = tracked.index.filter(|_| tracked.has(Facts::ACTIVE)) {
            self.release_retained(index.get());
        }
    }
}
