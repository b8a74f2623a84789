//! Answers queries of the other parts: Pods by kind, free indexes, and Pods to delete.
//!
//! Must not: advance the counting of a Pod.

use crate::model::{CompactIndex, Exponential, FailureCounts, Slot, SuccessPolicy, Time};

use super::{
    super::{effect::CreationId, job::JobContext},
    Counting, Tally,
    indexes::IndexOverview,
    pod::Facts,
    stage::End,
};

impl Counting {
    /// Returns the sums over the Pods.
    pub(in crate::decide) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the number of failed Pods, whether in the stored counter or not.
    pub(in crate::decide) fn failed(&self, context: &JobContext<'_>) -> u32 {
        context.job.status.failed + self.not_in_counter(End::Failure) + self.tally.delayed
    }

    /// Returns the number of succeeded Pods, or indexes for an Indexed Job, whether in the stored counter or not.
    pub(in crate::decide) fn succeeded(&self, context: &JobContext<'_>) -> u32 {
        if context.spec.is_indexed() {
            return self.indexes.completed_len();
        }
        context.job.status.succeeded + self.not_in_counter(End::Success)
    }

    /// Returns the number of Pods with this result that are not in the stored counters.
    fn not_in_counter(&self, end: End) -> u32 {
        self.uncounted.len(end) + self.tally.unlisted(end) + self.naming.orphans(end)
    }

    /// Returns the number of completed indexes, and of those that have failed for good.
    pub(in crate::decide) fn indexes_over(&self) -> (u32, u32) {
        (self.indexes.completed_len(), self.indexes.failed_len())
    }

    /// Returns the indexes by state.
    pub(in crate::decide) fn index_overview(&self) -> IndexOverview {
        self.indexes.overview(self.delayed.waiting())
    }

    /// Returns the number of indexes in backoff.
    pub(in crate::decide) fn indexes_in_backoff(&self) -> u32 {
        self.delayed.waiting().len()
    }

    /// Returns the position of the first successPolicy rule that is met.
    pub(in crate::decide) fn success_rule(&self, policy: &SuccessPolicy) -> Option<usize> {
        self.successes.met(policy, self.indexes.completed_len())
    }

    /// Returns true if nothing is left to count and no Pod exists that could be counted.
    pub(in crate::decide) fn is_settled(&self) -> bool {
        self.tally.active == 0
            && self.tally.terminating == 0
            && self.tally.with_finalizer == 0
            && self.uncounted.held_total() == 0
            && self.tally.unlisted(End::Success) + self.tally.unlisted(End::Failure) == 0
    }

    /// Returns the number of ended Pods that no status write carries yet.
    pub(in crate::decide) fn waiting_to_be_named(&self) -> u32 {
        self.naming.waiting()
    }

    /// Returns true if a full status write of UIDs is queued and the list of uncounted Pods is at most half full. With
    /// `last`, for the last Pods of a Job that ends, one queued Pod is enough.
    pub(in crate::decide) fn has_backlog(&self, most: u32, last: bool) -> bool {
        let enough = if last { 1 } else { most as usize };
        let half = most as usize / 2;
        self.naming.by_uid.len() >= enough && self.uncounted.held_total() <= half
    }

    /// Returns until when failed Pods block new ones, if that time is not over.
    pub(in crate::decide) fn failure_backoff(
        &self,
        backoff: Exponential,
        now: Time,
    ) -> Option<Time> {
        self.failures.in_a_row.until(backoff, now)
    }

    /// Ends the index backoffs that are over.
    pub(in crate::decide) fn end_index_waits(&mut self, now: Time) {
        self.delayed.expire(now);
    }

    /// Returns when the next index backoff ends.
    pub(in crate::decide) fn next_index_due(&self) -> Option<Time> {
        self.delayed.next_due()
    }

    /// Chooses at most `most` of the `missing` indexes that need a Pod.
    pub(in crate::decide) fn choose_indexes(&self, missing: u32, most: u32) -> Vec<u32> {
        self.indexes.choose(missing, most, self.delayed.waiting())
    }

    /// Returns true if the Job has this index.
    pub(in crate::decide) fn has_index(&self, index: u32) -> bool {
        self.indexes.is_valid(index)
    }

    /// Returns how often an index has failed.
    pub(in crate::decide) fn index_failures(&self, index: u32) -> FailureCounts {
        self.delayed.failures(index)
    }

    /// Reserves the name and index of a new Pod. Returns its identity.
    pub(in crate::decide) fn take_place(&mut self, index: Option<u32>) -> CreationId {
        if let Some(index) = index {
            self.indexes.take(index);
        }
        self.names.choose(index)
    }

    /// Reserves the name and index of a Pod that may have been created.
    pub(in crate::decide) fn keep_place(&mut self, id: CreationId) {
        if let Some(index) = id.index {
            self.indexes.take(index);
        }
        self.names.take(id);
    }

    /// Ends the reservation for a creation. Its index is free unless a Pod holds it.
    pub(in crate::decide) fn give_up_place(&mut self, id: CreationId) {
        self.names.give_back(id);
        if let Some(index) = id.index {
            self.indexes.give_back(index);
        }
    }

    /// Avoids a name that another object has.
    pub(in crate::decide) fn avoid_name(&mut self, id: CreationId) {
        self.names.avoid(id);
    }

    /// Returns true if any active Pod is misplaced: without a valid index, or one of two with the same index.
    pub(in crate::decide) fn has_misplaced(&self, context: &JobContext<'_>) -> bool {
        let is_twice = context.spec.is_indexed() && self.indexes.has_duplicates();
        self.tally.invalid_index > 0 || is_twice
    }

    /// Returns the active Pods that are not to be deleted.
    pub(in crate::decide) fn staying(&self) -> Vec<Slot> {
        let slots = self.tally.active_slots.iter().map(Slot);
        let staying = slots.filter(|slot| !self.pods[*slot].has(Facts::TO_DELETE));
        staying.collect()
    }

    /// Returns true if another Pod has already completed a Pod's index.
    pub(in crate::decide) fn is_needless(&self, context: &JobContext<'_>, slot: Slot) -> bool {
        let index = self.pods[slot].number.map(CompactIndex::get);
        context.spec.is_indexed() && index.is_some_and(|index| self.indexes.is_done(index))
    }
}
