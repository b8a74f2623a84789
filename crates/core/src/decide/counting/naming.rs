//! Queues ended Pods to be recorded in the status, and tracks those in the status write in flight.
//!
//! Must not: know how far each Pod is counted.

use std::collections::VecDeque;

use crate::model::{Slot, Uid};

use super::{failures::Failures, pod::Ruling, stage::End};

/// The ended Pods that no stored status has yet: those that wait for a write, and those in the write in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Naming {
    /// Successes of Indexed Jobs: recorded by index, in any number.
    pub(super) by_index: Vec<Slot>,
    /// All other Pods: recorded by UID, a limited number per write.
    pub(super) by_uid: VecDeque<Slot>,
    pub(super) under_way: Option<UnderWay>,
}

/// The Pods that the status write in flight affects if it succeeds.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    /// Pods that it records by UID for the first time.
    pub(super) named: Vec<Named>,
    /// Pods that it records by index for the first time.
    pub(super) indexed: Vec<Slot>,
    /// Pods that it moves from the list into the counters.
    pub(super) counted: Vec<Uid>,
    /// The number of recorded Pods that are gone by now, by result.
    pub(super) orphans: [u32; 2],
    pub(super) failures: Failures,
}

/// A Pod that a status records by its UID.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) uid: Uid,
    pub(super) end: End,
    pub(super) slot: Slot,
    /// The Pod is gone by now, or has lost its finalizer.
    pub(super) is_orphan: bool,
    pub(super) ruling: Ruling,
}

impl Naming {
    /// Marks a Pod in the status write in flight as gone. It counts if the write succeeds, and must not seem to be
    /// missing until then.
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

    /// Returns the result of an ended Pod that the status write in flight records, and sets its new slot. The Pod was
    /// gone or is about to be: another client took it from the Job, and it has come back.
    pub(super) fn take_over(&mut self, uid: Uid, slot: Slot) -> Option<End> {
        let write = self.under_way.as_mut()?;
        let pod = write.named.iter_mut().find(|pod| pod.uid == uid)?;
        pod.slot = slot;
        if std::mem::take(&mut pod.is_orphan) {
            write.orphans[pod.end as usize] -= 1;
        }
        Some(pod.end)
    }

    /// Returns the number of recorded Pods that are gone, by result.
    pub(super) fn orphans(&self, end: End) -> u32 {
        let write = self.under_way.as_ref();
        write.map_or(0, |write| write.orphans[end as usize])
    }

    /// Returns the number of waiting Pods.
    pub(super) fn waiting(&self) -> u32 {
        u32::try_from(self.by_index.len() + self.by_uid.len()).unwrap_or(u32::MAX)
    }
}
