//! Stores the records of one Job's Pods in slots and marks the slots that changed.
//!
//! Writers (the informer, responses to our own writes) store facts. The only reader, the Job's actor, takes the marks.
//! Marks coalesce, so there are at most as many marks as slots. The slot of a removed Pod is reused only after the
//! reader has seen the removal. Marks are taken in the order in which they were set. So a Pod that is removed and
//! reappears in another slot is seen as removed first.
//!
//! Must not: decide anything, or know which Job this is.

use std::collections::VecDeque;

use super::{PodRecord, Slot, Slots};

/// The Pods of a Job, by slot, with the set of changed slots.
#[derive(Clone, Debug, Default)]
pub struct PodTable {
    entries: Slots<Entry>,
    free: Vec<Slot>,
    dirty: VecDeque<Slot>,
    len: usize,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    record: Option<PodRecord>,
    dirty: bool,
}

impl PodTable {
    /// Adds a Pod.
    pub fn insert(&mut self, record: PodRecord) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = Slot(u32::try_from(self.entries.count()).expect("fewer than 2^32 Pods"));
            self.entries.cover(slot);
            slot
        });
        self.entries[slot].record = Some(record);
        self.len += 1;
        self.mark(slot);
        slot
    }

    /// Replaces the record in `slot`. Marks the slot only if more than the resourceVersion changed.
    pub fn replace(&mut self, slot: Slot, mut record: PodRecord) {
        let Some(known) = &mut self.entries[slot].record else {
            return;
        };
        std::mem::swap(known, &mut record);
        record.resource_version = known.resource_version;
        if record != *known {
            self.mark(slot);
        }
    }

    /// Changes the record in `slot`, if the Pod still exists.
    pub fn update(&mut self, slot: Slot, change: impl FnOnce(&mut PodRecord)) {
        if let Some(record) = &mut self.entries[slot].record {
            change(record);
            self.mark(slot);
        }
    }

    /// Removes the record in `slot`.
    pub fn remove(&mut self, slot: Slot) {
        if self.entries[slot].record.take().is_some() {
            self.len -= 1;
            self.mark(slot);
        }
    }

    /// The record in `slot`.
    pub fn get(&self, slot: Slot) -> Option<&PodRecord> {
        self.entries.get(slot)?.record.as_ref()
    }

    /// The number of Pods.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no Pod.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if a slot is marked.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Takes the oldest mark. If its slot is empty, the slot may be reused from now on.
    pub fn take_dirty(&mut self) -> Option<(Slot, Option<&PodRecord>)> {
        let slot = self.dirty.pop_front()?;
        let entry = &mut self.entries[slot];
        entry.dirty = false;
        if entry.record.is_none() {
            self.free.push(slot);
        }
        Some((slot, entry.record.as_ref()))
    }

    /// Marks every Pod, for a reader that starts again. Empty slots become free.
    pub fn mark_all(&mut self) {
        self.dirty.clear();
        self.free.clear();
        for (at, entry) in self.entries.iter_mut().enumerate() {
            let slot = Slot(u32::try_from(at).expect("fewer than 2^32 Pods"));
            entry.dirty = entry.record.is_some();
            if entry.dirty {
                self.dirty.push_back(slot);
            } else {
                self.free.push(slot);
            }
        }
    }

    /// All Pods, for tests, dumps and full scans that a user requested.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &PodRecord)> {
        self.entries.iter().enumerate().filter_map(|(at, entry)| {
            let slot = Slot(u32::try_from(at).expect("fewer than 2^32 Pods"));
            entry.record.as_ref().map(|record| (slot, record))
        })
    }

    fn mark(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot];
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push_back(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(version: u64) -> PodRecord {
        PodRecord {
            resource_version: version,
            ..PodRecord::default()
        }
    }

    #[test]
    fn marks_coalesce_and_a_new_version_alone_is_no_change() {
        let mut table = PodTable::default();
        let slot = table.insert(pod(1));
        table.update(slot, |pod| pod.restarts = 1);
        assert_eq!(table.take_dirty().map(|(slot, _)| slot), Some(slot));
        assert!(!table.is_dirty());
        table.replace(
            slot,
            PodRecord {
                restarts: 1,
                ..pod(2)
            },
        );
        assert!(!table.is_dirty());
        assert_eq!(table.get(slot).map(|pod| pod.resource_version), Some(2));
    }

    #[test]
    fn a_slot_is_not_reused_before_its_end_was_seen() {
        let mut table = PodTable::default();
        let first = table.insert(pod(1));
        table.remove(first);
        let second = table.insert(pod(2));
        assert_ne!(first, second);
        let mut taken = Vec::new();
        while let Some((slot, pod)) = table.take_dirty() {
            taken.push((slot, pod.is_some()));
        }
        assert_eq!(taken, [(first, false), (second, true)]);
        assert_eq!(table.insert(pod(3)), first);
        assert_eq!(table.len(), 2);
    }
}
