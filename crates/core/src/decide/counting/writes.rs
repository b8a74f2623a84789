//! Selects the next deletion or finalizer removal, and handles the results.
//!
//! Must not: decide which Pods to delete or release.

use crate::model::{Limits, Monotonic, Slot};

use super::{
    super::job::JobContext,
    Counting,
    pod::Facts,
    stage::{Input, Shown, Stage},
};

impl Counting {
    /// Handles the result of a deletion.
    pub(in crate::decide) fn deletion_answered(
        &mut self,
        context: &JobContext<'_>,
        slot: Slot,
        accepted: bool,
        now: Monotonic,
    ) {
        self.deletions.done(accepted, now);
        if !accepted && slot.at() < self.pods.count() {
            self.change(context, slot, |tracked| {
                tracked.facts.set(Facts::TO_DELETE, false);
                tracked.facts.set(Facts::DELETION, false);
            });
        }
    }

    /// Handles a successful finalizer removal.
    pub(in crate::decide) fn finalizer_removed(&mut self, now: Monotonic) {
        self.removals.done(true, now);
    }

    /// Handles a failed finalizer removal: `refused`, or the Pod had changed. If the Pod is released uncounted, the
    /// removal stays in flight until the Pod is handled again, after all events of this pass.
    pub(in crate::decide) fn finalizer_not_removed(
        &mut self,
        context: &JobContext<'_>,
        slot: Slot,
        refused: bool,
        now: Monotonic,
    ) {
        self.removals.done(!refused, now);
        if slot.at() >= self.pods.count() {
            return;
        }
        if self.pods[slot].stage == Stage::Stopped {
            self.revisit.push(slot);
            return;
        }
        self.change(context, slot, |tracked| {
            tracked.facts.set(Facts::REMOVAL, false);
            tracked.facts.set(Facts::REMOVAL_SENT, false);
        });
    }

    /// Ends a refused removal according to the Pod's current state. [`Counting::handle_pod`] follows and handles a Pod
    /// that has ended.
    pub(in crate::decide) fn end_refused_write(&mut self, context: &JobContext<'_>, slot: Slot) {
        self.change(context, slot, |tracked| {
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

    /// Returns the next Pod to delete, if a deletion may be sent now.
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

    /// Returns the next Pod to remove the finalizer from, if a removal may be sent now. The flag is true if the Pod was
    /// stopped and is released uncounted.
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

    /// Returns when the backoffs of deletions and removals end.
    pub(in crate::decide) fn writes_open_at(&self, now: Monotonic) -> [Option<Monotonic>; 2] {
        [self.deletions.opens_at(now), self.removals.opens_at(now)]
    }
}
