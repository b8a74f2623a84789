//! Values by slot, in blocks: nothing is copied while a Job's Pods come to be a hundred thousand, and less than a block
//! lies idle at their end.
//!
//! Must not: know what is in a slot.

use std::ops::{Index, IndexMut};

use super::Slot;

/// Slots of a block, 64 KiB of Pod records: of a Job of 100,000 Pods less than a hundredth lies idle.
const BLOCK: usize = 1024;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots<T> {
    /// All but the last are full.
    blocks: Vec<Vec<T>>,
    len: usize,
}

impl<T: Default> Slots<T> {
    /// How many slots there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes slots up to this one, if there are fewer.
    pub(crate) fn cover(&mut self, slot: Slot) {
        while self.len <= slot.at() {
            if self.len.is_multiple_of(BLOCK) {
                self.blocks.push(Vec::new());
            }
            let block = self.blocks.last_mut().expect("there is one now");
            block.push(T::default());
            self.len += 1;
        }
    }

    /// What is in a slot, if there is such a one.
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.blocks.get(slot.at() / BLOCK)?.get(slot.at() % BLOCK)
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten()
    }

    /// All, in order, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.blocks.iter_mut().flatten()
    }
}

impl<T> Index<Slot> for Slots<T> {
    type Output = T;

    fn index(&self, slot: Slot) -> &T {
        &self.blocks[slot.at() / BLOCK][slot.at() % BLOCK]
    }
}

impl<T> IndexMut<Slot> for Slots<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.blocks[slot.at() / BLOCK][slot.at() % BLOCK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_what_they_have_while_more_come() {
        let mut slots = Slots::default();
        for number in 0..3 * BLOCK {
            let slot = Slot(u32::try_from(number).expect("a small number"));
            assert_eq!((slots.get(slot), slots.len()), (None, number));
            slots.cover(slot);
            slots[slot] = number;
        }
        slots.cover(Slot(0));
        assert!(slots.iter().copied().eq(0..3 * BLOCK));
        assert_eq!(slots.iter_mut().count(), slots.len());
    }
}
