//! Gives the next deletion or removal of a finalizer, and takes in how such writes end.
//!
//! Must not: decide which Pods go.

use crate::model::{Limits, Monotonic, Slot};

use super::{
    super::job::Basis,
    Counting,
    pod::Facts,
    stage::{Input, Shown, Stage},
};

impl Counting {
    /// Takes in how a deletion ended.
    pub(in crate::decide) fn deletion_answered(
        &mut self,
        basis: &Basis<'_>,
        slot: Slot,
        accepted: bool,
        now: Monotonic,
    ) {
        self.deletions.done(accepted, now);
        if !accepted && slot.at() < self.pods.len() {
            self.change(basis, slot, |tracked| {
                tracked.facts.set(Facts::TO_DELETE, false);
                tracked.facts.set(Facts::DELETION, false);
            });
        }
    }

    /// A finalizer is off.
    pub(in crate::decide) fn finalizer_removed(&mut self, now: Monotonic) {
        self.removals.done(true, now);
    }

    /// A finalizer is still on; whether that was `refused`, or the Pod has changed. The removal of one that
    /// goes uncounted counts as under way until the Pod is looked at again, after all events of the turn.
    pub(in crate::decide) fn finalizer_not_removed(
        &mut self,
        basis: &Basis<'_>,
        slot: Slot,
        refused: bool,
        now: Monotonic,
    ) {
        self.removals.done(!refused, now);
        if slot.at() >= self.pods.len() {
            return;
        }
        if self.pods[slot].stage == Stage::Stopped {
            self.revisit.push(slot);
            return;
        }
        self.change(basis, slot, |tracked| {
            tracked.facts.set(Facts::REMOVAL, false);
            tracked.facts.set(Facts::REMOVAL_SENT, false);
        });
    }

    /// Ends a refused write by the Pod's current state. [`Counting::handle_pod`] follows and handles one that has
    /// ended.
    pub(in crate::decide) fn end_refused_write(&mut self, basis: &Basis<'_>, slot: Slot) {
        self.change(basis, slot, |tracked| {
            tracked.facts.set(Facts::REMOVAL, false);
            tracked.facts.set(Facts::REMOVAL_SENT, false);
            let shown = match (tracked.has(Facts::ACTIVE), tracked.has(Facts::TERMINATING)) {
                (true, _) => Shown::Active,
                (_, true) => Shown::Terminating,
                _ => return,
            };
            let before = tracked.stage;
            tracked.stage = before.after(Input::RemovalRefused(shown));
            if before == Stage::Stopped && tracked.stage == Stage::Live {
                tracked.facts.set(Facts::TO_DELETE, false);
                tracked.facts.set(Facts::DELETION, false);
            }
        });
    }

    /// The next Pod that is to be deleted, if one may be now.
    pub(in crate::decide) fn next_deletion(
        &mut self,
        limits: &Limits,
        now: Monotonic,
    ) -> Option<Slot> {
        loop {
            let slot = self.deletions.next(limits.max_pod_writes, now)?;
            if self.pods[slot].has(Facts::DELETION) {
                self.deletions.sent();
                return Some(slot);
            }
        }
    }

    /// The next Pod whose finalizer is to go, if one may now, and whether it goes uncounted because it was
    /// stopped.
    pub(in crate::decide) fn next_removal(
        &mut self,
        limits: &Limits,
        now: Monotonic,
    ) -> Option<(Slot, bool)> {
        loop {
            let slot = self.removals.next(limits.max_pod_writes, now)?;
            let tracked = &mut self.pods[slot];
            if tracked.has(Facts::REMOVAL) && !tracked.has(Facts::REMOVAL_SENT) {
                tracked.facts.set(Facts::REMOVAL_SENT, true);
                self.removals.sent();
                return Some((slot, tracked.stage == Stage::Stopped));
            }
        }
    }

    /// When deletions and removals that were refused may go on.
    pub(in crate::decide) fn writes_open_at(&self, now: Monotonic) -> [Option<Monotonic>; 2] {
        [self.deletions.opens_at(now), self.removals.opens_at(now)]
    }
}
