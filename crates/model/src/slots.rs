//! Stores values by slot in blocks. Growth to 100,000 Pods copies no entry of a full block, and less than one block is
//! unused.
//!
//! Must not: know the content of a slot.

use std::ops::{Index, IndexMut};

use super::Slot;

/// Slots per block: about 90 KiB of Pod records. A Job of 100,000 Pods has at most about one percent unused.
const BLOCK: usize = 1024;

/// A growing array in blocks of [`BLOCK`] slots. All blocks but the last are full, so a full block is never
/// reallocated.
#[derive(Clone, Debug, Default)]
pub struct Slots<T> {
    /// All but the last are full.
    blocks: Vec<Vec<T>>,
    len: usize,
}

impl<T: Default> Slots<T> {
    /// The number of slots.
    pub fn count(&self) -> usize {
        self.len
    }

    /// Adds slots with default values until `slot` exists.
    pub fn cover(&mut self, slot: Slot) {
        while self.len <= slot.at() {
            if self.len.is_multiple_of(BLOCK) {
                self.blocks.push(Vec::new());
            }
            let block = self.blocks.last_mut().expect("there is one now");
            block.push(T::default());
            self.len += 1;
        }
    }

    /// The content of a slot, if the slot exists.
    pub fn get(&self, slot: Slot) -> Option<&T> {
        self.blocks.get(slot.at() / BLOCK)?.get(slot.at() % BLOCK)
    }

    /// All values, in order of slots.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten()
    }

    /// All values, mutable, in order of slots.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
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
    fn slots_keep_their_values_while_others_are_added() {
        let mut slots = Slots::default();
        for number in 0..3 * BLOCK {
            let slot = Slot(u32::try_from(number).expect("a small number"));
            assert_eq!((slots.get(slot), slots.count()), (None, number));
            slots.cover(slot);
            slots[slot] = number;
        }
        slots.cover(Slot(0));
        assert!(slots.iter().copied().eq(0..3 * BLOCK));
        assert_eq!(slots.iter_mut().count(), slots.count());
    }
}
