//! Counts each ended Pod exactly once, by way of its finalizer.
//!
//! Source: docs/rules/jobs.md, 3. The safe order for each Pod: it ends; a status write records it (its UID, or its
//! index in `completedIndexes`); only then is its finalizer removed; only then does its UID move from the list into the
//! counter. After a crash at any point, the next machine finds either the finalizer or the record.
//!
//! Read first: `stage`, the table of a Pod's stages; then [`Counting::handle_pod`].
//!
//! Must not: decide how many Pods there should be, or when a status is written.

mod check;
mod delayed_deletion;
mod failures;
mod holders;
mod indexes;
mod look;
mod naming;
mod pod;
mod pod_failure_policy;
mod pod_names;
mod pod_writes;
mod stage;
mod status;
mod success_policy;
mod sums;
#[cfg(test)]
mod tests;
mod uncounted;
mod writes;

use roaring::RoaringBitmap;

use crate::model::{
    CompactIndex, FailureAction, Job, JobStatus, Limits, PodPhase, PodRecord, PodTable, Slot, Slots,
};

use super::job::JobContext;

use self::{
    delayed_deletion::DelayedDeletions,
    failures::PodFailures,
    indexes::Indexes,
    look::{ended_how, fails_index, holds_index, index_of, policy_on},
    naming::Naming,
    pod::{Facts, Ruling, Tracked},
    pod_names::PodNames,
    pod_writes::PodWrites,
    success_policy::Successes,
    uncounted::UncountedList,
};

pub(super) use self::pod::Tally;
pub use self::{
    indexes::IndexOverview,
    stage::{End, Input, Shown, Stage},
};

/// The known Pods of a Job, and the progress of counting each.
#[derive(Clone, Debug, Default)]
#[doc(alias = "trackJobStatusAndRemoveFinalizers")]
pub(super) struct Counting {
    pods: Slots<Tracked>,
    /// Pods to handle again before the next decision.
    revisit: Vec<Slot>,
    tally: Tally,
    indexes: Indexes,
    successes: Successes,
    delayed: DelayedDeletions,
    uncounted: UncountedList,
    naming: Naming,
    failures: PodFailures,
    removals: PodWrites,
    deletions: PodWrites,
    names: PodNames,
    /// Pods that the previous machine was releasing uncounted, until this one has seen them.
    stopped_before: RoaringBitmap,
    /// The stored status has become stale.
    changed: bool,
}

/// The results of a Pod event.
#[derive(Debug, Default)]
pub(super) struct PodEventResult {
    /// The failure message, if the podFailurePolicy fails the Job for this Pod.
    pub(super) fails_job: Option<String>,
    /// The action of the policy rule that has finally decided on this Pod.
    pub(super) applied: Option<FailureAction>,
}

impl Counting {
    pub(super) fn new(job: &Job, limits: &Limits) -> Self {
        let spec = &job.spec;
        let completions = spec.completions.filter(|_| spec.is_indexed()).unwrap_or(0);
        let indexes = Indexes::new(completions, &job.status, spec.per_index.is_some());
        Self {
            successes: Successes::new(spec.success.as_ref(), indexes.completed()),
            indexes,
            uncounted: UncountedList::new(job.status.uncounted.as_ref()),
            removals: PodWrites::new(limits),
            deletions: PodWrites::new(limits),
            names: PodNames::new(job.uid, job.status.run_start()),
            ..Self::default()
        }
    }

    /// Applies the run of the stored status: names of new Pods depend on it.
    pub(super) fn begin_run(&mut self, stored: &JobStatus) {
        self.names.begin_run(stored.run_start());
    }

    /// Inherits the state that is not stored: consecutive failures, backoffs after refused writes, and the Pods that
    /// are released uncounted.
    pub(super) fn succeed_to(&mut self, before: &Self) {
        self.failures = before.failures.as_stored();
        self.removals.succeed_to(&before.removals);
        self.deletions.succeed_to(&before.deletions);
        let slots = 0..u32::try_from(before.pods.count()).unwrap_or(u32::MAX);
        let is_stopped = |slot: &u32| before.pods[Slot(*slot)].stage == Stage::Stopped;
        self.stopped_before = slots.filter(is_stopped).collect();
    }

    /// Handles the current record of the Pod in a slot, or `None` if the Pod is gone.
    pub(super) fn handle_pod(
        &mut self,
        context: &JobContext<'_>,
        slot: Slot,
        pod: Option<&PodRecord>,
    ) -> PodEventResult {
        self.pods.cover(slot);
        let mut result = PodEventResult::default();
        let mut tracked = self.pods[slot];
        let is_new = tracked.stage == Stage::Live && !tracked.has(Facts::FINALIZER);
        let was_ignored = self.is_freed_as_ignored(context, &tracked);
        self.share(context, slot, &tracked, false);
        if let Some(index) = tracked.number.filter(|_| tracked.stage == Stage::Delayed) {
            self.delayed.remove(index.get());
        }
        if let Some(pod) = pod {
            tracked.see(pod);
            self.give_number(context, &mut tracked, pod);
            let new_ruling = pod.phase == PodPhase::Failed && {
                let (ruling, fails_job) = policy_on(context, pod);
                result.fails_job = fails_job;
                tracked.rule(ruling)
            };
            let may_be_listed = is_new && tracked.has(Facts::FINALIZER) && !pod.is_active();
            let listed = (may_be_listed && !context.is_over)
                .then(|| self.naming.take_over(pod.uid, slot))
                .flatten();
            let input = match listed {
                Some(end) => Input::BeingListed(end),
                None => self.input(context, slot, &mut tracked, pod, new_ruling),
            };
            tracked.stage = tracked.stage.after(input);
            if !tracked.has(Facts::FINALIZER) {
                tracked.facts.set(Facts::REMOVAL, false);
                tracked.facts.set(Facts::REMOVAL_SENT, false);
            }
            self.queue_work(context, slot, &mut tracked);
        } else {
            match tracked.stage {
                Stage::Listed(_) => self.uncounted.release_slot(slot),
                Stage::Listing(_) => self.naming.orphan(slot),
                Stage::Live
                | Stage::Delayed
                | Stage::Ended(_)
                | Stage::Stopped
                | Stage::Skipped
                | Stage::Settled => {}
            }
            if let Some(count) = tracked.number.filter(|_| !context.spec.is_indexed()) {
                self.names.give_back_count(count.get());
            }
            let stage = tracked.stage.after(Input::Gone);
            tracked = Tracked::default();
            tracked.stage = stage;
        }
        self.note_name(context, slot, &tracked, pod);
        self.share(context, slot, &tracked, true);
        self.pods[slot] = tracked;
        if let Some(index) = index_of(context, &tracked).filter(|_| tracked.has(Facts::ACTIVE)) {
            // The index's failed Pod was kept until this Pod came.
            self.release_delayed(context, index);
        }
        self.changed = true;
        let is_ignored = was_ignored && !tracked.has(Facts::FINALIZER);
        result.applied = is_ignored.then_some(FailureAction::Ignore);
        result
    }

    /// Returns true if a Pod is losing its finalizer because a policy ignores its failure.
    fn is_freed_as_ignored(&self, context: &JobContext<'_>, tracked: &Tracked) -> bool {
        tracked.ruling == Ruling::IGNORED
            && tracked.has(Facts::FINALIZER)
            && matches!(tracked.stage, Stage::Stopped | Stage::Skipped)
            && !self.has_invalid_index(context, tracked)
            && !context.is_over
    }

    /// Sets the Pod's completion index or the count in its name.
    fn give_number(&mut self, context: &JobContext<'_>, tracked: &mut Tracked, pod: &PodRecord) {
        if context.spec.is_indexed() {
            tracked.number = pod.index;
        } else if tracked.number.is_none()
            && let Some(count) = self.names.count_of(pod)
        {
            self.names.take_count(count);
            tracked.number = CompactIndex::new(count);
        }
    }

    /// Keeps the next Pod of an index from the name of an existing one.
    fn note_name(
        &mut self,
        context: &JobContext<'_>,
        slot: Slot,
        tracked: &Tracked,
        pod: Option<&PodRecord>,
    ) {
        self.names.forget_ended(slot);
        if let Some(pod) = pod
            && let Some(index) = index_of(context, tracked)
            && !holds_index(context, tracked)
            && !self.indexes.is_done(index)
        {
            self.names.ended(slot, index, pod);
        }
    }

    /// Translates a Pod's record into an input for its stage.
    fn input(
        &mut self,
        context: &JobContext<'_>,
        slot: Slot,
        tracked: &mut Tracked,
        pod: &PodRecord,
        new_ruling: bool,
    ) -> Input {
        if !tracked.has(Facts::FINALIZER) {
            match tracked.stage {
                Stage::Listed(_) => self.uncounted.release(pod.uid),
                Stage::Listing(_) => self.naming.orphan(slot),
                _ => {}
            }
            return Input::Freed;
        }
        if context.is_over {
            return Input::JobOver;
        }
        match tracked.stage {
            Stage::Live | Stage::Delayed => self.first_look(context, slot, tracked, pod),
            // Its index has failed with it, and an index keeps its first result.
            Stage::Ended(End::Failure) if self.index_has_failed(context, tracked) => Input::Seen,
            Stage::Ended(End::Failure) if pod.phase == PodPhase::Succeeded => {
                self.failures.success(pod.finished_at());
                self.succeed(context, slot, tracked)
            }
            Stage::Ended(End::Failure) if new_ruling => self.fail(context, slot, tracked, pod),
            Stage::Stopped if pod.phase.is_terminal() && !tracked.has(Facts::REMOVAL_SENT) => {
                tracked.facts.set(Facts::REMOVAL, false);
                self.first_look(context, slot, tracked, pod)
            }
            _ => Input::Seen,
        }
    }

    /// Evaluates a Pod that has the finalizer and is not being counted yet.
    fn first_look(
        &mut self,
        context: &JobContext<'_>,
        slot: Slot,
        tracked: &Tracked,
        pod: &PodRecord,
    ) -> Input {
        if let Some(end) = self.uncounted.end_of(pod.uid) {
            self.uncounted.add(pod.uid, end, Some(slot));
            return Input::WasListed(end);
        }
        let was_stopped = self.stopped_before.contains(slot.0);
        match ended_how(context, pod) {
            _ if was_stopped && pod.is_terminating() => Input::Stopped,
            None => Input::Seen,
            Some(_) if self.has_invalid_index(context, tracked) => Input::Ignored,
            Some(End::Success) => {
                self.failures.success(pod.finished_at());
                self.succeed(context, slot, tracked)
            }
            Some(End::Failure) => {
                self.failures.failure(pod.finished_at());
                self.fail(context, slot, tracked, pod)
            }
        }
    }

    /// Queues a succeeded Pod for the next status write. A success of an index that has failed for good comes too late:
    /// the API server rejects a status with both.
    fn succeed(&mut self, context: &JobContext<'_>, slot: Slot, tracked: &Tracked) -> Input {
        let Some(index) = index_of(context, tracked) else {
            self.naming.by_uid.push_back(slot);
            return Input::Succeeded;
        };
        if self.indexes.has_failed(index) {
            return Input::Ignored;
        }
        if self.indexes.complete(index) {
            if let Some(policy) = &context.spec.success {
                self.successes.add(policy, index);
            }
            self.release_delayed(context, index);
        }
        if self.indexes.is_stored(index) {
            return Input::IndexStored;
        }
        self.naming.by_index.push(slot);
        Input::Succeeded
    }

    /// Handles a failed Pod: it fails its index, is kept for it, or counts.
    fn fail(
        &mut self,
        context: &JobContext<'_>,
        slot: Slot,
        tracked: &Tracked,
        pod: &PodRecord,
    ) -> Input {
        let index = index_of(context, tracked);
        let Some(index) = index.filter(|_| context.spec.per_index.is_some()) else {
            return self.count_failure(slot, tracked.ruling);
        };
        if fails_index(context, tracked, pod) {
            self.indexes.fail(index);
            self.release_delayed(context, index);
        }
        let before = pod.failure.as_ref().map(|facts| facts.counts);
        let failures = before
            .unwrap_or_default()
            .and_one(tracked.ruling == Ruling::IGNORED);
        let finished = pod.finished_at();
        let needs_none = self.indexes.is_over(index) || self.delayed.has_active(index);
        if needs_none || !self.delayed.would_keep(index, failures, finished) {
            return self.count_failure(slot, tracked.ruling);
        }
        self.release_delayed(context, index);
        let backoff = context.limits.pod_failure_backoff;
        self.delayed
            .keep((index, slot), failures, finished, backoff);
        Input::Kept
    }

    /// Queues a failed Pod for the next status write, if it counts.
    fn count_failure(&mut self, slot: Slot, ruling: Ruling) -> Input {
        if ruling == Ruling::IGNORED {
            return Input::Ignored;
        }
        self.naming.by_uid.push_back(slot);
        Input::Failed
    }

    /// Stops keeping the failed Pod of an index: it may be counted and deleted.
    fn release_delayed(&mut self, context: &JobContext<'_>, index: u32) {
        let Some(slot) = self.delayed.remove(index) else {
            return;
        };
        let input = self.count_failure(slot, self.pods[slot].ruling);
        self.happens(context, slot, input);
        self.changed = true;
    }

    /// Stops keeping failed Pods for all indexes.
    pub(super) fn release_all_delayed(&mut self, context: &JobContext<'_>) {
        while let Some(index) = self.delayed.first() {
            self.release_delayed(context, index);
        }
    }

    /// Takes the Pods of refused writes. Handle each again after [`Counting::end_refused_write`].
    pub(super) fn take_revisits(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.revisit)
    }

    /// Ends a batch: all events of this pass have been handled.
    pub(super) fn end_batch(&mut self) {
        self.failures.fold();
        self.stopped_before.clear();
    }

    /// Returns true if the stored status has become stale since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Releases every Pod that has its finalizer, uncounted.
    pub(super) fn let_go_of_all(&mut self, context: &JobContext<'_>) {
        self.delayed.clear();
        let slots = 0..u32::try_from(self.pods.count()).unwrap_or(u32::MAX);
        for slot in slots.map(Slot) {
            if self.pods[slot].has(Facts::FINALIZER) {
                self.happens(context, slot, Input::JobOver);
            }
        }
    }

    /// Releases the Pods that have not ended, once a verdict stands and no Pod is active. They count as failed if the
    /// Job fails and no policy ignores them. They do not count if it succeeds.
    pub(super) fn settle_live(&mut self, context: &JobContext<'_>, pods: &PodTable) {
        for slot in self.tally.live_slots.clone() {
            let slot = Slot(slot);
            let fails = context.fails && !self.has_invalid_index(context, &self.pods[slot]);
            let pod = pods.get(slot).filter(|_| fails);
            let ruling = pod.map_or(Ruling::Open, |pod| policy_on(context, pod).0);
            let counts = fails && ruling != Ruling::IGNORED;
            if counts {
                self.naming.by_uid.push_back(slot);
                self.changed = true;
            }
            self.change(context, slot, |tracked| {
                tracked.ruling = ruling;
                tracked.stage = tracked.stage.after(match counts {
                    true => Input::Failed,
                    false => Input::Stopped,
                });
            });
        }
    }

    /// Releases the Pods that have not ended, uncounted.
    pub(super) fn stop_live(&mut self, context: &JobContext<'_>) {
        for slot in self.tally.live_slots.clone() {
            self.happens(context, Slot(slot), Input::Stopped);
        }
    }

    /// Deletes every active Pod. If the Job does not fail, they must not count as failed, so they lose their finalizer
    /// first.
    #[doc(alias = "deleteActivePods")]
    pub(super) fn delete_active(&mut self, context: &JobContext<'_>) {
        for slot in self.tally.active_slots.clone() {
            self.delete(context, Slot(slot), context.fails);
        }
    }

    /// Deletes a Pod. Its finalizer is removed first, so it is never counted.
    pub(super) fn delete_uncounted(&mut self, context: &JobContext<'_>, slot: Slot) {
        self.delete(context, slot, false);
    }

    fn delete(&mut self, context: &JobContext<'_>, slot: Slot, counts: bool) {
        if !self.pods[slot].has(Facts::TO_DELETE) {
            self.change(context, slot, |tracked| {
                tracked.facts.set(Facts::TO_DELETE, true);
            });
        }
        if !counts && self.pods[slot].stage == Stage::Live {
            self.happens(context, slot, Input::Stopped);
        }
    }

    /// Applies an input to a Pod's stage.
    fn happens(&mut self, context: &JobContext<'_>, slot: Slot, input: Input) {
        self.change(context, slot, |tracked| {
            tracked.stage = tracked.stage.after(input);
        });
    }

    /// Changes a tracked Pod, updates the sums and queues the writes that follow.
    fn change(&mut self, context: &JobContext<'_>, slot: Slot, change: impl FnOnce(&mut Tracked)) {
        let mut tracked = self.pods[slot];
        self.share(context, slot, &tracked, false);
        change(&mut tracked);
        self.queue_work(context, slot, &mut tracked);
        self.share(context, slot, &tracked, true);
        self.pods[slot] = tracked;
    }

    /// Adds a Pod to the sums and to the holders of its index, or removes it.
    #[inline(always)]
    fn share(&mut self, context: &JobContext<'_>, slot: Slot, tracked: &Tracked, more: bool) {
        let is_invalid = self.has_invalid_index(context, tracked);
        self.tally.share(slot, tracked, is_invalid, more);
        let Some(index) = index_of(context, tracked) else {
            return;
        };
        if context.spec.per_index.is_some() && tracked.has(Facts::ACTIVE) {
            self.delayed.share_active(index, more);
        }
        if !holds_index(context, tracked) {
            return;
        }
        if more {
            self.indexes.take(index);
        } else {
            self.indexes.give_back(index);
        }
    }

    /// Returns true if a Pod of an Indexed Job has no valid index.
    #[inline]
    fn has_invalid_index(&self, context: &JobContext<'_>, tracked: &Tracked) -> bool {
        context.spec.is_indexed()
            && tracked
                .number
                .is_none_or(|index| !self.indexes.is_valid(index.get()))
    }

    /// Returns true if a Pod's index has failed for good.
    fn index_has_failed(&self, context: &JobContext<'_>, tracked: &Tracked) -> bool {
        let index = index_of(context, tracked);
        index.is_some_and(|index| self.indexes.has_failed(index))
    }

    /// Queues the removal of a finalizer that may be removed. Queues the deletion of an unwanted Pod if its finalizer
    /// is off or it counts.
    #[inline]
    fn queue_work(&mut self, context: &JobContext<'_>, slot: Slot, tracked: &mut Tracked) {
        let has_finalizer = tracked.has(Facts::FINALIZER);
        if tracked.stage.may_be_freed() && has_finalizer && !tracked.has(Facts::REMOVAL) {
            tracked.facts.set(Facts::REMOVAL, true);
            self.removals.queue(slot);
        }
        if !tracked.has(Facts::ACTIVE) {
            tracked.facts.set(Facts::TO_DELETE, false);
            tracked.facts.set(Facts::DELETION, false);
        }
        let is_due = tracked.has(Facts::TO_DELETE) && !tracked.has(Facts::DELETION);
        if is_due && (!has_finalizer || context.fails) {
            tracked.facts.set(Facts::DELETION, true);
            self.deletions.queue(slot);
        }
    }
}
