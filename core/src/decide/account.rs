//! Counts each ended Pod exactly once, by way of its finalizer.
//!
//! Source: docs/rules/jobs.md, 3. The order that makes it safe, per Pod: it ends; a status write
//! names it (its UID, or its index in `completedIndexes`); only then is its finalizer removed;
//! only then does its UID move from the list into the counter. Whatever crashes in between, the
//! next machine finds either the finalizer or the name.
//!
//! Must not: decide how many Pods there should be.

use std::collections::{BTreeMap, VecDeque};

use crate::model::{
    CompactIndex, FailureAction, PodFlags, PodPhase, PodRecord, PodReplacement, PodTable, Slot,
    Uid, Uncounted,
};

use super::{
    Effect, JobMachine, Verdict,
    tracked::{End, Facts, Ruling, Stage, Tracked},
};

/// The Pods that the server's status lists as ended and not yet counted.
#[derive(Clone, Debug, Default)]
pub(super) struct UncountedList {
    by_uid: BTreeMap<Uid, Listed>,
    /// How many there are, success and failure, with entries that are no UIDs.
    count: [u32; 2],
    held: usize,
    strange: [u32; 2],
}

#[derive(Clone, Debug)]
struct Listed {
    end: End,
    /// Where the Pod is, while its finalizer is on; without, it can be counted.
    slot: Option<Slot>,
}

impl UncountedList {
    pub(super) fn new(stored: Option<&Uncounted>) -> Self {
        let mut list = Self::default();
        let Some(stored) = stored else { return list };
        for (end, uids, strange) in [
            (End::Success, &stored.succeeded, stored.strange_succeeded),
            (End::Failure, &stored.failed, stored.strange_failed),
        ] {
            list.strange[end as usize] = strange;
            list.count[end as usize] = strange;
            for uid in uids {
                list.add(*uid, end, None);
            }
        }
        list
    }

    /// How many are listed as ended in this way.
    pub(super) fn len(&self, end: End) -> u32 {
        self.count[end as usize]
    }

    /// How many of them still have their finalizer.
    pub(super) fn held_total(&self) -> usize {
        self.held
    }

    fn end_of(&self, uid: Uid) -> Option<End> {
        self.by_uid.get(&uid).map(|listed| listed.end)
    }

    pub(super) fn add(&mut self, uid: Uid, end: End, slot: Option<Slot>) {
        self.held += usize::from(slot.is_some());
        match self.by_uid.insert(uid, Listed { end, slot }) {
            None => self.count[end as usize] += 1,
            Some(before) => self.held -= usize::from(before.slot.is_some()),
        }
    }

    /// Notes that the Pod's finalizer is off.
    fn release(&mut self, uid: Uid) {
        if let Some(listed) = self.by_uid.get_mut(&uid) {
            self.held -= usize::from(listed.slot.take().is_some());
        }
    }

    /// Notes that the Pod that was in this slot is gone. The list is short: it is what one status
    /// may name.
    fn release_slot(&mut self, slot: Slot) {
        for listed in self.by_uid.values_mut() {
            if listed.slot == Some(slot) {
                listed.slot = None;
                self.held -= 1;
            }
        }
    }

    /// Those whose finalizer is off, so that the next status can count them.
    pub(super) fn released(&self) -> impl Iterator<Item = (Uid, End)> + '_ {
        self.by_uid
            .iter()
            .filter(|(_, listed)| listed.slot.is_none())
            .map(|(uid, listed)| (*uid, listed.end))
    }

    /// Those that must stay listed.
    pub(super) fn held(&self, end: End) -> impl Iterator<Item = Uid> + '_ {
        self.by_uid
            .iter()
            .filter(move |(_, listed)| listed.slot.is_some() && listed.end == end)
            .map(|(uid, _)| *uid)
    }

    /// Whether the sums are those of the entries.
    pub(super) fn adds_up(&self) -> bool {
        let held = self.by_uid.values().filter(|listed| listed.slot.is_some());
        let count = |end| {
            let same = self.by_uid.values().filter(move |listed| listed.end == end);
            u32::try_from(same.count())
                .ok()
                .map(|count| count + self.strange[end as usize])
        };
        self.held == held.count()
            && Some(self.count[0]) == count(End::Success)
            && Some(self.count[1]) == count(End::Failure)
    }

    pub(super) fn strange(&self, end: End) -> u32 {
        self.strange[end as usize]
    }

    /// Takes out what a status write that succeeded has counted.
    pub(super) fn counted(&mut self, uids: &[Uid]) {
        for uid in uids {
            if let Some(listed) = self.by_uid.remove(uid) {
                self.count[listed.end as usize] -= 1;
                self.held -= usize::from(listed.slot.is_some());
            }
        }
        for end in [0, 1] {
            self.count[end] -= std::mem::take(&mut self.strange[end]);
        }
    }
}

/// Pods that ended and wait for the next status write.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedPods {
    /// Successes of Indexed Jobs: named by their index, in any number.
    pub(super) by_index: Vec<Slot>,
    /// All others: named by their UID, a limited number at a time.
    pub(super) by_uid: VecDeque<Slot>,
}

impl JobMachine {
    /// Takes in what is known of the Pod in a slot: its record, or that it is gone.
    pub(super) fn hear_pod(&mut self, slot: Slot, pod: Option<&PodRecord>) {
        if self.tracked.len() <= slot.at() {
            self.tracked.resize(slot.at() + 1, Tracked::default());
        }
        let mut tracked = self.tracked[slot.at()];
        let was_ignored = self.is_let_go_as_ignored(&tracked);
        self.share(slot, &tracked, false);
        self.forget_retained(&mut tracked);
        match pod {
            Some(pod) => {
                self.resolve_creation(pod);
                tracked.see(pod);
                self.number(&mut tracked, pod);
                let new_ruling = self.rule_on(&mut tracked, pod);
                self.advance(slot, &mut tracked, pod, new_ruling);
            }
            None => {
                match tracked.stage {
                    Stage::Listed(_) => self.uncounted.release_slot(slot),
                    Stage::Listing(end) => self.orphan(end),
                    Stage::Live
                    | Stage::Retained
                    | Stage::Ended(_)
                    | Stage::Shed
                    | Stage::Waived
                    | Stage::Settled => {}
                }
                if let Some(count) = tracked.index.filter(|_| !self.spec.is_indexed()) {
                    self.names.give_back_count(count.get());
                }
                tracked = Tracked::default();
            }
        }
        self.note_name(slot, &tracked, pod);
        self.share(slot, &tracked, true);
        self.tracked[slot.at()] = tracked;
        self.replace_retained(&tracked);
        self.status_is_stale = true;
        if was_ignored && !tracked.has(Facts::FINALIZER) {
            self.effects
                .push_back(Effect::PolicyApplied(FailureAction::Ignore));
        }
    }

    /// Takes in which of the Job's Pods it is.
    fn number(&mut self, tracked: &mut Tracked, pod: &PodRecord) {
        if self.spec.is_indexed() {
            tracked.index = pod.index;
        } else if tracked.index.is_none()
            && let Some(count) = self.names.count_of(pod)
        {
            self.names.take_count(count);
            tracked.index = CompactIndex::new(count);
        }
    }

    /// The next Pod of an index is not to have the name of one that exists.
    fn note_name(&mut self, slot: Slot, tracked: &Tracked, pod: Option<&PodRecord>) {
        self.names.forget_ended(slot);
        if let Some(pod) = pod.filter(|_| self.spec.is_indexed())
            && !self.holds_index(tracked)
            && let Some(index) = tracked.index.map(CompactIndex::get)
            && !self.indexes.is_done(index)
        {
            self.names.ended(slot, index, pod);
        }
    }

    /// Whether a Pod is losing its finalizer because a policy ignores its failure.
    fn is_let_go_as_ignored(&self, tracked: &Tracked) -> bool {
        tracked.ruling == Ruling::Ignored
            && tracked.has(Facts::FINALIZER)
            && matches!(tracked.stage, Stage::Shed | Stage::Waived)
            && !self.is_misfit(tracked)
            && !self.lets_go_of_everything()
    }

    /// Moves a Pod's counting on, as far as what is seen of it allows.
    fn advance(&mut self, slot: Slot, tracked: &mut Tracked, pod: &PodRecord, new_ruling: bool) {
        let guarded = tracked.has(Facts::FINALIZER);
        tracked.stage = match tracked.stage {
            _ if guarded && self.lets_go_of_everything() => Stage::Waived,
            Stage::Live if guarded => self.first_stage(slot, tracked, pod),
            // Its index has failed with it: what it was first it stays.
            same @ Stage::Ended(End::Failure) if guarded && self.index_has_failed(tracked) => same,
            Stage::Ended(End::Failure) if guarded && pod.phase == PodPhase::Succeeded => {
                self.batch.success(pod.finished_at());
                self.succeed(slot, tracked)
            }
            Stage::Ended(End::Failure) if guarded && new_ruling => self.fail(slot, tracked, pod),
            same @ Stage::Ended(_) if guarded => same,
            // Somebody else took the finalizer off before the Pod was named anywhere.
            Stage::Ended(_) => Stage::Settled,
            Stage::Listed(_) if !guarded => {
                self.uncounted.release(pod.uid);
                Stage::Settled
            }
            Stage::Listing(end) if !guarded => {
                self.orphan(end);
                Stage::Settled
            }
            Stage::Shed | Stage::Waived if !guarded => Stage::Settled,
            Stage::Shed if pod.phase.is_terminal() && !tracked.has(Facts::REMOVAL_SENT) => {
                tracked.facts.set(Facts::REMOVAL, false);
                self.first_stage(slot, tracked, pod)
            }
            // It was counted or waived before: never a second time.
            Stage::Settled if guarded => Stage::Waived,
            same => same,
        };
        if !guarded {
            tracked.facts.set(Facts::REMOVAL, false);
            tracked.facts.set(Facts::REMOVAL_SENT, false);
        }
        self.queue_work(slot, tracked);
    }

    /// A Pod is gone that the status write under way names: should the write succeed it counts, and
    /// until then it must not seem to be missing.
    fn orphan(&mut self, end: End) {
        if let Some(writing) = &mut self.writing {
            writing.orphans[end as usize] += 1;
        }
    }

    /// The stage of a Pod with finalizer that is not yet being counted.
    fn first_stage(&mut self, slot: Slot, tracked: &Tracked, pod: &PodRecord) -> Stage {
        if let Some(end) = self.uncounted.end_of(pod.uid) {
            self.uncounted.add(pod.uid, end, Some(slot));
            return Stage::Listed(end);
        }
        match self.ended_how(pod) {
            None => Stage::Live,
            Some(_) if self.is_misfit(tracked) => Stage::Waived,
            Some(End::Success) => {
                self.batch.success(pod.finished_at());
                self.succeed(slot, tracked)
            }
            Some(End::Failure) => {
                self.batch.failure(pod.finished_at());
                self.fail(slot, tracked, pod)
            }
        }
    }

    /// Queues a Pod that succeeded for the next status write. A success of an index that has failed
    /// for good comes too late: the server would refuse to have both.
    fn succeed(&mut self, slot: Slot, tracked: &Tracked) -> Stage {
        let index = tracked.index.map(CompactIndex::get);
        let Some(index) = index.filter(|_| self.spec.is_indexed()) else {
            self.ended_pods.by_uid.push_back(slot);
            return Stage::Ended(End::Success);
        };
        if self.index_has_failed(tracked) {
            return Stage::Waived;
        }
        if self.indexes.complete(index) {
            self.count_success(index);
            self.release_retained(index);
        }
        if self.indexes.is_stored(index) {
            return Stage::Listed(End::Success);
        }
        self.ended_pods.by_index.push(slot);
        Stage::Ended(End::Success)
    }

    /// How a Pod ended, if it has, by the Job's rule for Pods that are being deleted.
    fn ended_how(&self, pod: &PodRecord) -> Option<End> {
        match pod.phase {
            PodPhase::Succeeded => Some(End::Success),
            PodPhase::Failed => Some(End::Failure),
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {
                let replaced_at_once =
                    self.spec.pod_replacement == PodReplacement::TerminatingOrFailed;
                (replaced_at_once && pod.has(PodFlags::DELETING)).then_some(End::Failure)
            }
        }
    }

    /// Once a verdict stands and no Pod is active, the Pods that have not ended are let go: counted
    /// as failed when the Job fails and no policy has them ignored, not counted when it succeeds.
    pub(super) fn settle_live(&mut self, verdict: &Verdict, pods: &PodTable) {
        for slot in self.tally.live_slots.clone() {
            let slot = Slot(slot);
            let fails = !verdict.success && !self.is_misfit(&self.tracked[slot.at()]);
            let pod = pods.get(slot).filter(|_| fails);
            let ruling = pod.map_or(Ruling::Open, |pod| self.ruling_on_stopped(pod));
            let counts = fails && ruling != Ruling::Ignored;
            self.restage_with(slot, |machine, tracked| {
                tracked.ruling = ruling;
                tracked.stage = Stage::Shed;
                if counts {
                    machine.ended_pods.by_uid.push_back(slot);
                    machine.status_is_stale = true;
                    tracked.stage = Stage::Ended(End::Failure);
                }
            });
        }
    }

    /// The Pods that have not ended are let go without being counted.
    pub(super) fn waive_live(&mut self) {
        for slot in self.tally.live_slots.clone() {
            self.restage(Slot(slot), |_| Stage::Shed);
        }
    }

    /// A finalizer is still on. A Pod that was to go uncounted is looked at again: it may have ended,
    /// or be wanted by now.
    pub(super) fn finalizer_not_removed(&mut self, slot: Slot) {
        if slot.at() >= self.tracked.len() {
            return;
        }
        if self.tracked[slot.at()].stage == Stage::Shed {
            self.revisit.push(slot);
        }
        self.restage_with(slot, |_, tracked| {
            tracked.facts.set(Facts::REMOVAL, false);
            tracked.facts.set(Facts::REMOVAL_SENT, false);
            if tracked.stage == Stage::Shed {
                tracked.stage = Stage::Live;
                tracked.facts.set(Facts::CONDEMNED, false);
                tracked.facts.set(Facts::DELETION, false);
            }
        });
    }

    /// Gives a Pod another stage, keeping the sums true and queueing what follows.
    pub(super) fn restage(&mut self, slot: Slot, stage: impl FnOnce(&mut Self) -> Stage) {
        self.restage_with(slot, |machine, tracked| tracked.stage = stage(machine));
    }

    /// Changes what is remembered of a Pod, keeping the sums true and queueing what follows.
    pub(super) fn restage_with(
        &mut self,
        slot: Slot,
        change: impl FnOnce(&mut Self, &mut Tracked),
    ) {
        let mut tracked = self.tracked[slot.at()];
        self.share(slot, &tracked, false);
        change(self, &mut tracked);
        self.queue_work(slot, &mut tracked);
        self.share(slot, &tracked, true);
        self.tracked[slot.at()] = tracked;
    }

    /// Puts a Pod in or takes it out of the sums and of its index.
    fn share(&mut self, slot: Slot, tracked: &Tracked, more: bool) {
        self.tally
            .share(slot, tracked, self.is_misfit(tracked), more);
        self.share_active(tracked, more);
        let Some(index) = tracked.index.filter(|_| self.holds_index(tracked)) else {
            return;
        };
        if more {
            self.indexes.take(index.get());
        } else {
            self.indexes.give_back(index.get());
        }
    }

    /// Whether a Pod keeps others from its index.
    pub(super) fn holds_index(&self, tracked: &Tracked) -> bool {
        tracked.has(Facts::ACTIVE)
            || (self.spec.pod_replacement == PodReplacement::Failed
                && tracked.has(Facts::TERMINATING))
    }

    /// Whether a Pod of an Indexed Job has no index that the Job has.
    pub(super) fn is_misfit(&self, tracked: &Tracked) -> bool {
        self.spec.is_indexed()
            && tracked
                .index
                .is_none_or(|index| !self.indexes.is_valid(index.get()))
    }

    /// Whether a Pod's index has failed for good.
    fn index_has_failed(&self, tracked: &Tracked) -> bool {
        let index = tracked.index.map(CompactIndex::get);
        index.is_some_and(|index| self.indexes.has_failed(index))
    }

    /// Queues the removal of a finalizer that may go, and the deletion of a condemned Pod whose
    /// finalizer is off.
    pub(super) fn queue_work(&mut self, slot: Slot, tracked: &mut Tracked) {
        let may_go = matches!(
            tracked.stage,
            Stage::Listed(_) | Stage::Shed | Stage::Waived
        );
        if may_go && tracked.has(Facts::FINALIZER) && !tracked.has(Facts::REMOVAL) {
            tracked.facts.set(Facts::REMOVAL, true);
            self.removals.queue(slot);
        }
        if !tracked.has(Facts::ACTIVE) {
            tracked.facts.set(Facts::CONDEMNED, false);
            tracked.facts.set(Facts::DELETION, false);
        }
        let doomed = tracked.has(Facts::CONDEMNED) && !tracked.has(Facts::DELETION);
        if doomed && (!tracked.has(Facts::FINALIZER) || self.ends_badly()) {
            tracked.facts.set(Facts::DELETION, true);
            self.deletions.queue(slot);
        }
    }
}
