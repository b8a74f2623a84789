//! What others ask of the Pods: how many there are of each kind, which indexes are free, who may go.
//!
//! Must not: move a Pod's counting on.

use crate::model::{CompactIndex, Exponential, FailureCounts, Slot, SuccessPolicy, Time};

use super::{
    super::{effect::CreationId, job::Basis},
    Counting, Tally,
    indexes::IndexOverview,
    pod::Facts,
    stage::End,
};

impl Counting {
    /// The sums over the Pods.
    pub(in crate::decide) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Failed Pods, counted by the server or not yet.
    pub(in crate::decide) fn failed(&self, basis: &Basis<'_>) -> u32 {
        basis.job.status.failed + self.not_in_counter(End::Failure) + self.tally.delayed
    }

    /// Succeeded Pods, or for an Indexed Job indexes, counted by the server or not yet.
    pub(in crate::decide) fn succeeded(&self, basis: &Basis<'_>) -> u32 {
        if basis.spec.is_indexed() {
            return self.indexes.completed_len();
        }
        basis.job.status.succeeded + self.not_in_counter(End::Success)
    }

    /// Pods that ended in this way and are not in the server's counters.
    fn not_in_counter(&self, end: End) -> u32 {
        self.uncounted.len(end) + self.tally.unlisted(end) + self.naming.orphans(end)
    }

    /// How many indexes are completed, and how many have failed for good.
    pub(in crate::decide) fn indexes_over(&self) -> (u32, u32) {
        (self.indexes.completed_len(), self.indexes.failed_len())
    }

    /// What became of the indexes.
    pub(in crate::decide) fn index_overview(&self) -> IndexOverview {
        self.indexes.overview(self.delayed.waiting())
    }

    /// How many indexes wait for their next Pod.
    pub(in crate::decide) fn indexes_in_backoff(&self) -> u32 {
        self.delayed.waiting().len()
    }

    /// The place of the first rule of the successPolicy that is met.
    pub(in crate::decide) fn success_rule(&self, policy: &SuccessPolicy) -> Option<usize> {
        self.successes.met(policy, self.indexes.completed_len())
    }

    /// Whether nothing is left to count and no Pod is left that could be.
    pub(in crate::decide) fn is_settled(&self) -> bool {
        self.tally.active == 0
            && self.tally.terminating == 0
            && self.tally.with_finalizer == 0
            && self.uncounted.held_total() == 0
            && self.tally.unlisted(End::Success) + self.tally.unlisted(End::Failure) == 0
    }

    /// How many ended Pods wait to be named by a status.
    pub(in crate::decide) fn waiting_to_be_named(&self) -> u32 {
        self.naming.waiting()
    }

    /// Whether more Pods wait to be named by their UID than one status may name, or the `last` ones of a
    /// Job that ends, and it can name some more.
    pub(in crate::decide) fn has_backlog(&self, most: u32, last: bool) -> bool {
        let enough = if last { 1 } else { most as usize };
        let half = most as usize / 2;
        self.naming.by_uid.len() >= enough && self.uncounted.held_total() <= half
    }

    /// Until when no Pod may be made because Pods failed, if that is not over.
    pub(in crate::decide) fn failure_backoff(
        &self,
        backoff: Exponential,
        now: Time,
    ) -> Option<Time> {
        self.failures.in_a_row.until(backoff, now)
    }

    /// Lets indexes go whose wait is over.
    pub(in crate::decide) fn end_index_waits(&mut self, now: Time) {
        self.delayed.expire(now);
    }

    /// When the next index's wait is over.
    pub(in crate::decide) fn next_index_due(&self) -> Option<Time> {
        self.delayed.next_due()
    }

    /// At most `most` of the `missing` indexes that need a Pod.
    pub(in crate::decide) fn choose_indexes(&self, missing: u32, most: u32) -> Vec<u32> {
        self.indexes.choose(missing, most, self.delayed.waiting())
    }

    /// Whether the Job has an index.
    pub(in crate::decide) fn has_index(&self, index: u32) -> bool {
        self.indexes.is_valid(index)
    }

    /// How often an index has failed.
    pub(in crate::decide) fn index_failures(&self, index: u32) -> FailureCounts {
        self.delayed.failures(index)
    }

    /// A Pod is to be made: gives its name, and keeps others from its place.
    pub(in crate::decide) fn take_place(&mut self, index: Option<u32>) -> CreationId {
        if let Some(index) = index {
            self.indexes.take(index);
        }
        self.names.choose(index)
    }

    /// A Pod may have been made under this name.
    pub(in crate::decide) fn keep_place(&mut self, id: CreationId) {
        if let Some(index) = id.index {
            self.indexes.take(index);
        }
        self.names.take(id);
    }

    /// A creation is over; its place is free unless a Pod holds it.
    pub(in crate::decide) fn give_up_place(&mut self, id: CreationId) {
        self.names.give_back(id);
        if let Some(index) = id.index {
            self.indexes.give_back(index);
        }
    }

    /// Somebody else has a name.
    pub(in crate::decide) fn avoid_name(&mut self, id: CreationId) {
        self.names.avoid(id);
    }

    /// Whether some Pods are wrong at their place: without a valid index, or two of one.
    pub(in crate::decide) fn has_misplaced(&self, basis: &Basis<'_>) -> bool {
        let is_twice = basis.spec.is_indexed() && self.indexes.has_duplicates();
        self.tally.invalid_index > 0 || is_twice
    }

    /// The active Pods that are not to go already.
    pub(in crate::decide) fn staying(&self) -> Vec<Slot> {
        let slots = self.tally.active_slots.iter().map(Slot);
        let staying = slots.filter(|slot| !self.pods[*slot].has(Facts::TO_DELETE));
        staying.collect()
    }

    /// Whether a Pod's index is done already.
    pub(in crate::decide) fn is_needless(&self, basis: &Basis<'_>, slot: Slot) -> bool {
        let index = self.pods[slot].number.map(CompactIndex::get);
        basis.spec.is_indexed() && index.is_some_and(|index| self.indexes.is_done(index))
    }
}
