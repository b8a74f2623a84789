//! Tracks the state of each Pod, and the sums over all Pods.
//!
//! A change of a Pod subtracts its old contribution from the sums and adds the new one. No sum is ever computed over
//! all Pods.

use roaring::RoaringBitmap;

use crate::model::{CompactIndex, FailureAction, PodFlags, PodPhase, PodRecord, Slot};

use super::stage::{End, Stage};

/// The podFailurePolicy's decision on a failed Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ruling {
    /// Not judged: the Pod has not failed.
    #[default]
    Open,
    /// No rule matches: the Pod counts.
    NoRule,
    /// A rule with this action matches. The Pod counts, unless it is ignored.
    By(FailureAction),
}

impl Ruling {
    /// The Pod does not count.
    pub(super) const IGNORED: Self = Self::By(FailureAction::Ignore);
}

/// The machine's state of one Pod.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tracked {
    pub(super) stage: Stage,
    pub(super) ruling: Ruling,
    pub(super) facts: Facts,
    /// Its completion index; for a Job without indexes the count in its name.
    pub(super) number: Option<CompactIndex>,
    restarts: u32,
}

/// Bit flags of a tracked Pod: its contribution to the sums, and its queued writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts(u8);

impl Facts {
    pub(super) const ACTIVE: Self = Self(1);
    pub(super) const READY: Self = Self(1 << 1);
    pub(super) const TERMINATING: Self = Self(1 << 2);
    pub(super) const FINALIZER: Self = Self(1 << 3);
    /// The Pod is to be deleted: it is surplus, or the Job is over or suspended.
    pub(super) const TO_DELETE: Self = Self(1 << 4);
    /// Its deletion is queued or in flight.
    pub(super) const DELETION: Self = Self(1 << 5);
    /// The removal of its finalizer is queued or in flight.
    pub(super) const REMOVAL: Self = Self(1 << 6);
    /// The removal of its finalizer is in flight.
    pub(super) const REMOVAL_SENT: Self = Self(1 << 7);

    /// The flags derived from a record; the others are the machine's own.
    const SEEN: u8 = 0b1111;

    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn set(&mut self, other: Self, value: bool) {
        if value {
            self.0 |= other.0;
        } else {
            self.0 &= !other.0;
        }
    }

    /// Returns true if the derived flags match a record.
    pub(super) fn agrees_with(self, pod: &PodRecord) -> bool {
        let mut seen = self;
        seen.see(pod);
        seen == self
    }

    fn see(&mut self, pod: &PodRecord) {
        self.0 &= !Self::SEEN;
        self.set(Self::ACTIVE, pod.is_active());
        self.set(Self::READY, pod.is_ready());
        self.set(Self::TERMINATING, pod.is_terminating());
        self.set(Self::FINALIZER, pod.has(PodFlags::FINALIZER));
    }
}

impl Tracked {
    /// Applies a Pod's record; stage and queued writes stay.
    pub(super) fn see(&mut self, pod: &PodRecord) {
        self.facts.see(pod);
        let counts = matches!(pod.phase, PodPhase::Pending | PodPhase::Running);
        self.restarts = if counts { pod.restarts } else { 0 };
    }

    pub(super) fn has(&self, fact: Facts) -> bool {
        self.facts.has(fact)
    }

    /// Sets the policy's decision, unless the counting of the Pod is already settled. Returns true if the decision has
    /// changed.
    pub(super) fn rule(&mut self, ruling: Ruling) -> bool {
        let is_open = match self.stage {
            Stage::Live | Stage::Delayed | Stage::Ended(_) => true,
            Stage::Stopped => !self.has(Facts::REMOVAL_SENT),
            Stage::Listing(_) | Stage::Listed(_) | Stage::Skipped | Stage::Settled => false,
        };
        is_open && std::mem::replace(&mut self.ruling, ruling) != ruling
    }
}

/// Sums over the Pods of a Job.
#[doc(alias = "syncJobCtx")]
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::decide) struct Tally {
    pub(in crate::decide) active: u32,
    pub(in crate::decide) ready: u32,
    pub(in crate::decide) terminating: u32,
    pub(in crate::decide) with_finalizer: u32,
    /// Active Pods that are to be deleted.
    pub(in crate::decide) to_delete: u32,
    /// Stopped Pods that have ended while their finalizer is removed: they count if the removal fails.
    pub(in crate::decide) undecided: u32,
    /// Restarts in Pods that are Pending or Running.
    pub(in crate::decide) restarts: u64,
    /// Pods in [`Stage::Ended`], by result: success, failure.
    pub(super) ended: [u32; 2],
    /// Pods in [`Stage::Listing`], by result.
    pub(super) listing: [u32; 2],
    /// Pods in [`Stage::Delayed`] that count.
    pub(super) delayed: u32,
    /// Active Pods of an Indexed Job without a valid index that are not yet to be deleted.
    pub(in crate::decide) invalid_index: u32,
    /// The active Pods.
    pub(super) active_slots: RoaringBitmap,
    /// The Pods in [`Stage::Live`] that have the finalizer.
    pub(super) live_slots: RoaringBitmap,
}

impl Tally {
    /// Adds a Pod's contribution (`more`), or subtracts it.
    pub(super) fn share(&mut self, slot: Slot, pod: &Tracked, invalid: bool, more: bool) {
        let add = |sum: &mut u32, counts: bool| {
            if counts && more {
                *sum += 1;
            } else if counts {
                *sum -= 1;
            }
        };
        let active = pod.has(Facts::ACTIVE);
        add(&mut self.active, active);
        add(&mut self.ready, pod.has(Facts::READY));
        add(&mut self.terminating, pod.has(Facts::TERMINATING));
        add(&mut self.with_finalizer, pod.has(Facts::FINALIZER));
        add(&mut self.to_delete, active && pod.has(Facts::TO_DELETE));
        let has_ended = !active && !pod.has(Facts::TERMINATING);
        let may_count = pod.stage == Stage::Stopped && pod.has(Facts::FINALIZER);
        add(&mut self.undecided, may_count && has_ended);
        add(
            &mut self.invalid_index,
            active && invalid && !pod.has(Facts::TO_DELETE),
        );
        match pod.stage {
            Stage::Ended(end) => add(&mut self.ended[end as usize], true),
            Stage::Listing(end) => add(&mut self.listing[end as usize], true),
            Stage::Delayed => add(&mut self.delayed, pod.ruling != Ruling::IGNORED),
            Stage::Live | Stage::Listed(_) | Stage::Stopped | Stage::Skipped | Stage::Settled => {}
        }
        if more {
            self.restarts += u64::from(pod.restarts);
        } else {
            self.restarts -= u64::from(pod.restarts);
        }
        keep(&mut self.active_slots, slot, active && more);
        let live = pod.stage == Stage::Live && pod.has(Facts::FINALIZER);
        keep(&mut self.live_slots, slot, live && more);
    }

    /// Returns the number of Pods with this result that the stored status does not have yet.
    pub(super) fn unlisted(&self, end: End) -> u32 {
        self.ended[end as usize] + self.listing[end as usize]
    }
}

fn keep(slots: &mut RoaringBitmap, slot: Slot, member: bool) {
    if member {
        slots.insert(slot.0);
    } else {
        slots.remove(slot.0);
    }
}
