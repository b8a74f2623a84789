//! Which ended Pods wait to be named by a status, and which a status write under way names.
//!
//! Must not: know how far each Pod is counted.

use std::collections::VecDeque;

use crate::model::{Slot, Uid};

use super::{failures::Failures, pod::Ruling, stage::End};

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Naming {
    /// Successes of Indexed Jobs: named by their index, in any number.
    pub(super) by_index: Vec<Slot>,
    /// All others: named by their UID, a limited number at a time.
    pub(super) by_uid: VecDeque<Slot>,
    pub(super) under_way: Option<UnderWay>,
}

/// What the success of a status write under way means for Pods.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    /// Pods that it names by their UID for the first time.
    pub(super) named: Vec<Named>,
    /// Pods that it names by their index for the first time.
    pub(super) indexed: Vec<Slot>,
    /// Pods that it moves from the list into the counters.
    pub(super) counted: Vec<Uid>,
    /// How many of those it names are gone by now, by how they ended.
    pub(super) orphans: [u32; 2],
    pub(super) failures: Failures,
}

/// A Pod that a status names by its UID.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) uid: Uid,
    pub(super) end: End,
    pub(super) slot: Slot,
    /// It is gone by now, or has lost its finalizer.
    pub(super) is_orphan: bool,
    pub(super) ruling: Ruling,
}

impl Naming {
    /// The Pod in a slot is gone that the status write under way names by its UID: should the write succeed it
    /// counts, and until then it must not seem to be missing.
    pub(super) fn orphan(&mut self, slot: Slot) {
        let Some(write) = &mut self.under_way else {
            return;
        };
        let mut named = write.named.iter_mut();
        if let Some(pod) = named.find(|pod| pod.slot == slot && !pod.is_orphan) {
            pod.is_orphan = true;
            write.orphans[pod.end as usize] += 1;
        }
    }

    /// A Pod comes to this slot that has ended; how, if the status write under way names it. It was gone, or is
    /// about to seem so: somebody has taken it from the Job, and it has come back.
    pub(super) fn take_over(&mut self, uid: Uid, slot: Slot) -> Option<End> {
        let write = self.under_way.as_mut()?;
        let pod = write.named.iter_mut().find(|pod| pod.uid == uid)?;
        pod.slot = slot;
        if std::mem::take(&mut pod.is_orphan) {
            write.orphans[pod.end as usize] -= 1;
        }
        Some(pod.end)
    }

    /// How many such Pods there are.
    pub(super) fn orphans(&self, end: End) -> u32 {
        let write = self.under_way.as_ref();
        write.map_or(0, |write| write.orphans[end as usize])
    }

    /// How many Pods wait.
    pub(super) fn waiting(&self) -> u32 {
        u32::try_from(self.by_index.len() + self.by_uid.len()).unwrap_or(u32::MAX)
    }
}
