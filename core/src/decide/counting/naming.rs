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
    pub(super) ruling: Ruling,
}

impl Naming {
    /// A Pod is gone that the status write under way names: should the write succeed it counts, and
    /// until then it must not seem to be missing.
    pub(super) fn orphan(&mut self, end: End) {
        if let Some(write) = &mut self.under_way {
            write.orphans[end as usize] += 1;
        }
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
