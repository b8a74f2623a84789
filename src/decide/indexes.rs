//! The completion indexes of an Indexed Job: which are done, taken, or free.
//!
//! Kept up to date by change, so that the lowest free index is always at hand.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::model::IndexSet;

/// See the module's text. For a Job without indexes all sets stay empty.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    completions: u32,
    /// Succeeded, whether the server knows it or not.
    completed: IndexSet,
    /// Succeeded, as the server has it.
    completed_stored: IndexSet,
    /// Succeeded, as a status write under way has it.
    storing: Option<IndexSet>,
    /// Held by a Pod or by one being created.
    taken: IndexSet,
    /// How many hold an index beyond the first that does.
    taken_again: HashMap<u32, u32>,
    /// Neither completed nor taken.
    free: IndexSet,
    text: Arc<str>,
    text_is_stale: bool,
}

impl Indexes {
    /// The indexes below `completions`, of which the text of a stored status names those done.
    pub(super) fn new(completions: u32, stored: &str) -> Self {
        let completed = IndexSet::parse(stored, completions);
        let mut free = IndexSet::below(completions);
        free.subtract(&completed);
        Self {
            completions,
            completed_stored: completed.clone(),
            completed,
            free,
            text_is_stale: true,
            ..Self::default()
        }
    }

    /// Whether an index is one of the Job's.
    pub(super) fn is_valid(&self, index: u32) -> bool {
        index < self.completions
    }

    /// Notes a success; whether it is the index's first.
    pub(super) fn complete(&mut self, index: u32) -> bool {
        let first = self.completed.insert(index);
        if first {
            self.free.remove(index);
            self.text_is_stale = true;
        }
        first
    }

    /// Whether the index is done, whether the server knows it or not.
    pub(super) fn is_done(&self, index: u32) -> bool {
        self.completed.contains(index)
    }

    /// Whether the server knows that the index is done.
    pub(super) fn is_stored(&self, index: u32) -> bool {
        self.completed_stored.contains(index)
    }

    /// Notes the successes that a status write under way names.
    pub(super) fn begin_store(&mut self) {
        self.storing = Some(self.completed.clone());
    }

    /// Notes that the server knows of them.
    pub(super) fn end_store(&mut self, known: bool) {
        if let Some(storing) = self.storing.take().filter(|_| known) {
            self.completed_stored = storing;
        }
    }

    pub(super) fn completed_len(&self) -> u32 {
        self.completed.len()
    }

    /// Notes one more holder of an index.
    pub(super) fn take(&mut self, index: u32) {
        if !self.is_valid(index) {
            return;
        }
        if self.taken.insert(index) {
            self.free.remove(index);
        } else {
            *self.taken_again.entry(index).or_default() += 1;
        }
    }

    /// Notes one holder less.
    pub(super) fn give_back(&mut self, index: u32) {
        if !self.is_valid(index) {
            return;
        }
        if let Some(more) = self.taken_again.get_mut(&index) {
            *more -= 1;
            if *more == 0 {
                self.taken_again.remove(&index);
            }
            return;
        }
        if self.taken.remove(index) && !self.completed.contains(index) {
            self.free.insert(index);
        }
    }

    /// Whether some index has more than one holder.
    pub(super) fn has_duplicates(&self) -> bool {
        !self.taken_again.is_empty()
    }

    /// The lowest index that needs a Pod.
    pub(super) fn lowest_free(&self) -> Option<u32> {
        self.free.min()
    }

    /// Whether exactly these hold an index (some twice), and the rest is free or done.
    pub(super) fn agree_with(&self, mut holders: Vec<u32>) -> bool {
        holders.retain(|index| self.is_valid(*index));
        let taken: IndexSet = holders.iter().copied().collect();
        let again: u32 = self.taken_again.values().sum();
        let mut free = IndexSet::below(self.completions);
        free.subtract(&self.completed);
        free.subtract(&taken);
        let twice = holders.len().checked_sub(taken.len() as usize);
        taken == self.taken && twice == Some(again as usize) && free == self.free
    }

    /// The completed indexes as the status has them; made anew only when they changed.
    pub(super) fn text(&mut self) -> Arc<str> {
        if self.text_is_stale {
            self.text = self.completed.to_string().into();
            self.text_is_stale = false;
        }
        Arc::clone(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_free_until_it_is_taken_or_done() {
        let mut indexes = Indexes::new(3, "1,7");
        assert_eq!(indexes.lowest_free(), Some(0));
        indexes.take(0);
        indexes.take(0);
        assert!(indexes.has_duplicates());
        assert_eq!(indexes.lowest_free(), Some(2));
        indexes.give_back(0);
        assert!(!indexes.has_duplicates());
        assert_eq!(indexes.lowest_free(), Some(2));
        indexes.give_back(0);
        assert_eq!(indexes.lowest_free(), Some(0));
        assert!(indexes.complete(0));
        assert!(!indexes.complete(0));
        indexes.take(2);
        assert_eq!(indexes.lowest_free(), None);
        indexes.take(9);
        indexes.give_back(9);
        assert_eq!(&*indexes.text(), "0,1");
    }

    #[test]
    fn a_done_index_does_not_become_free_when_its_pod_goes() {
        let mut indexes = Indexes::new(1, "");
        indexes.take(0);
        indexes.complete(0);
        indexes.give_back(0);
        assert_eq!(indexes.lowest_free(), None);
    }
}
