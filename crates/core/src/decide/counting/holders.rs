//! Counts the holders of indexes, of which some may have several.

use hashbrown::HashMap;

use crate::model::IndexSet;

/// A counted set of indexes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Holders {
    held: IndexSet,
    /// The number of holders of an index beyond the first.
    again: HashMap<u32, u32>,
}

impl Holders {
    /// Adds a holder of an index. Returns true for its first.
    pub(super) fn take(&mut self, index: u32) -> bool {
        let first = self.held.insert(index);
        if !first {
            *self.again.entry(index).or_default() += 1;
        }
        first
    }

    /// Removes a holder of an index. Returns true for its last.
    pub(super) fn give_back(&mut self, index: u32) -> bool {
        let Some(more) = self.again.get_mut(&index) else {
            return self.held.remove(index);
        };
        *more -= 1;
        if *more == 0 {
            self.again.remove(&index);
        }
        false
    }

    pub(super) fn contains(&self, index: u32) -> bool {
        self.held.contains(index)
    }

    /// Returns true if any index has more than one holder.
    pub(super) fn has_duplicates(&self) -> bool {
        !self.again.is_empty()
    }

    /// Returns the indexes with holders.
    pub(super) fn held(&self) -> &IndexSet {
        &self.held
    }
}

impl FromIterator<u32> for Holders {
    fn from_iter<T: IntoIterator<Item = u32>>(indexes: T) -> Self {
        let mut holders = Self::default();
        for index in indexes {
            holders.take(index);
        }
        holders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_held_until_its_last_holder_goes() {
        let mut holders = Holders::default();
        assert!(holders.take(3));
        assert!(!holders.take(3));
        assert!(holders.has_duplicates());
        assert!(!holders.give_back(3));
        assert!(!holders.has_duplicates() && holders.contains(3));
        assert!(holders.give_back(3));
        assert!(!holders.contains(3));
        assert!(!holders.give_back(3), "nobody held it");
    }
}
