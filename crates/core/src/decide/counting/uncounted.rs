//! Mirrors `uncountedTerminatedPods` of the stored status: ended Pods that are not counted yet.
//!
//! Source: docs/rules/jobs.md, 3.4. A status write adds a UID to the list. A later write moves it into the counter,
//! once the Pod's finalizer is off.
//!
//! Must not: know how the end of a Pod is detected.

use std::collections::BTreeMap;

use crate::model::{Slot, Uid, Uncounted};

use super::stage::End;

/// The Pods in `uncountedTerminatedPods` of the stored status, each with its slot while its finalizer is on.
#[derive(Clone, Debug, Default)]
#[doc(alias = "uncountedTerminatedPods")]
pub(super) struct UncountedList {
    by_uid: BTreeMap<Uid, Listed>,
    /// The number of entries, success and failure, including entries that are no UIDs.
    count: [u32; 2],
    held: usize,
    strange: [u32; 2],
}

#[derive(Clone, Debug)]
struct Listed {
    end: End,
    /// The Pod's slot while its finalizer is on. Without a slot the Pod can be counted.
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

    /// Returns the number of entries with this result.
    pub(super) fn len(&self, end: End) -> u32 {
        self.count[end as usize]
    }

    /// Returns the number of Pods on the list that still have their finalizer.
    pub(super) fn held_total(&self) -> usize {
        self.held
    }

    pub(super) fn end_of(&self, uid: Uid) -> Option<End> {
        self.by_uid.get(&uid).map(|listed| listed.end)
    }

    pub(super) fn add(&mut self, uid: Uid, end: End, slot: Option<Slot>) {
        self.held += usize::from(slot.is_some());
        match self.by_uid.insert(uid, Listed { end, slot }) {
            None => self.count[end as usize] += 1,
            Some(before) => self.held -= usize::from(before.slot.is_some()),
        }
    }

    /// Records that the Pod's finalizer is off.
    pub(super) fn release(&mut self, uid: Uid) {
        if let Some(listed) = self.by_uid.get_mut(&uid) {
            self.held -= usize::from(listed.slot.take().is_some());
        }
    }

    /// Records that the Pod in this slot is gone. A scan is cheap: the list holds at most as many UIDs as one status.
    pub(super) fn release_slot(&mut self, slot: Slot) {
        for listed in self.by_uid.values_mut() {
            if listed.slot == Some(slot) {
                listed.slot = None;
                self.held -= 1;
            }
        }
    }

    /// Returns the entries whose finalizer is off: the next status can count them.
    pub(super) fn released(&self) -> impl Iterator<Item = (Uid, End)> + '_ {
        self.by_uid
            .iter()
            .filter(|(_, listed)| listed.slot.is_none())
            .map(|(uid, listed)| (*uid, listed.end))
    }

    /// Returns the entries that must stay listed.
    pub(super) fn held(&self, end: End) -> impl Iterator<Item = Uid> + '_ {
        self.by_uid
            .iter()
            .filter(move |(_, listed)| listed.slot.is_some() && listed.end == end)
            .map(|(uid, _)| *uid)
    }

    /// Returns true if the sums match the entries.
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

    /// Removes the entries that a successful status write has counted.
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
