//! Tracks the completion indexes of an Indexed Job: completed, failed for good, taken, or free.
//!
//! All sets are updated incrementally, so the lowest free index is always available. No index is ever both completed
//! and failed: an index keeps its first result.

use std::sync::Arc;

use crate::model::{IndexSet, JobStatus};

use super::holders::Holders;

/// The state of every completion index. For a Job without indexes all sets stay empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexes {
    completions: u32,
    /// Succeeded, stored or not.
    completed: NamedSet,
    /// Succeeded, in the stored status.
    completed_stored: IndexSet,
    /// Succeeded, in the status write in flight.
    storing: Option<IndexSet>,
    /// Failed for good; `None` if indexes cannot fail.
    failed: Option<NamedSet>,
    /// Held by an existing Pod or by a creation.
    taken: Holders,
    /// Neither completed nor failed nor taken.
    free: IndexSet,
}

/// A set of indexes with its cached text form, rebuilt after a change.
#[derive(Clone, Debug, Default)]
struct NamedSet {
    set: IndexSet,
    text: Option<Arc<str>>,
}

/// The indexes of a Job by their state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexOverview {
    /// Those that succeeded.
    pub completed: IndexSet,
    /// Those that failed for good; `None` if indexes cannot fail.
    pub failed: Option<IndexSet>,
    /// Those that wait for their next Pod after a failure.
    pub in_backoff: IndexSet,
    /// Unfinished ones without a Pod, including those in backoff.
    pub without_pod: IndexSet,
}

impl NamedSet {
    fn new(set: IndexSet) -> Self {
        Self { set, text: None }
    }

    fn insert(&mut self, index: u32) -> bool {
        let new = self.set.insert(index);
        if new {
            self.text = None;
        }
        new
    }

    fn text(&mut self) -> Arc<str> {
        let set = &self.set;
        let text = self.text.get_or_insert_with(|| set.to_string().into());
        Arc::clone(text)
    }
}

impl Indexes {
    /// Creates the indexes below `completions`, with the results in a stored status. `can_fail` enables failure for
    /// good.
    pub(super) fn new(completions: u32, stored: &JobStatus, can_fail: bool) -> Self {
        let completed = IndexSet::parse(&stored.completed_indexes, completions);
        let failed_text = stored.failed_indexes.as_deref().filter(|_| can_fail);
        let mut failed = IndexSet::parse(failed_text.unwrap_or_default(), completions);
        failed.subtract(&completed);
        let mut free = IndexSet::below(completions);
        free.subtract(&completed);
        free.subtract(&failed);
        Self {
            completions,
            completed_stored: completed.clone(),
            completed: NamedSet::new(completed),
            failed: can_fail.then(|| NamedSet::new(failed)),
            free,
            ..Self::default()
        }
    }

    /// Returns true if the Job has this index.
    pub(super) fn is_valid(&self, index: u32) -> bool {
        index < self.completions
    }

    /// Records a success of an index that has not failed. Returns true for the first success of the index.
    pub(super) fn complete(&mut self, index: u32) -> bool {
        let first = self.completed.insert(index);
        if first {
            self.free.remove(index);
        }
        first
    }

    /// Records that an index has failed for good, unless it is completed.
    pub(super) fn fail(&mut self, index: u32) {
        if let Some(failed) = self
            .failed
            .as_mut()
            .filter(|_| !self.completed.set.contains(index))
        {
            failed.insert(index);
            self.free.remove(index);
        }
    }

    /// Returns true if the index has failed for good.
    pub(super) fn has_failed(&self, index: u32) -> bool {
        let failed = self.failed.as_ref();
        failed.is_some_and(|failed| failed.set.contains(index))
    }

    /// Returns true if the index needs no Pod any more.
    pub(super) fn is_over(&self, index: u32) -> bool {
        self.is_done(index) || self.has_failed(index)
    }

    /// Returns the number of indexes that have failed for good.
    pub(super) fn failed_len(&self) -> u32 {
        self.failed.as_ref().map_or(0, |failed| failed.set.len())
    }

    /// Returns true if the index is completed, stored or not.
    pub(super) fn is_done(&self, index: u32) -> bool {
        self.completed.set.contains(index)
    }

    /// Returns true if the stored status has the index as completed.
    pub(super) fn is_stored(&self, index: u32) -> bool {
        self.completed_stored.contains(index)
    }

    /// Records the successes that the status write in flight carries.
    pub(super) fn begin_store(&mut self) {
        self.storing = Some(self.completed.set.clone());
    }

    /// Ends the status write in flight. Its successes are stored if `known`.
    pub(super) fn end_store(&mut self, known: bool) {
        if let Some(storing) = self.storing.take().filter(|_| known) {
            self.completed_stored = storing;
        }
    }

    pub(super) fn completed_len(&self) -> u32 {
        self.completed.set.len()
    }

    /// Returns the completed indexes.
    pub(super) fn completed(&self) -> &IndexSet {
        &self.completed.set
    }

    /// Adds a holder of an index.
    pub(super) fn take(&mut self, index: u32) {
        if self.is_valid(index) && self.taken.take(index) {
            self.free.remove(index);
        }
    }

    /// Removes a holder of an index.
    pub(super) fn give_back(&mut self, index: u32) {
        if self.is_valid(index) && self.taken.give_back(index) && !self.is_over(index) {
            self.free.insert(index);
        }
    }

    /// Returns true if any index has more than one holder.
    pub(super) fn has_duplicates(&self) -> bool {
        self.taken.has_duplicates()
    }

    /// Chooses at most `most` of the lowest `missing` indexes that need a Pod, without those in `waiting`. A waiting
    /// index keeps its rank: no higher index takes its place.
    pub(super) fn choose(&self, missing: u32, most: u32, waiting: &IndexSet) -> Vec<u32> {
        let most = most.min(missing) as usize;
        if waiting.is_empty() {
            return self.free.iter().take(most).collect();
        }
        let mut ready = self.free.clone();
        ready.subtract(waiting);
        ready
            .iter()
            .take(most)
            .take_while(|index| self.free.rank(*index) <= missing)
            .collect()
    }

    /// Returns the indexes by state, with these in backoff.
    pub(super) fn overview(&self, in_backoff: &IndexSet) -> IndexOverview {
        let failed = self.failed.as_ref();
        IndexOverview {
            completed: self.completed.set.clone(),
            failed: failed.map(|failed| failed.set.clone()),
            in_backoff: in_backoff.clone(),
            without_pod: self.free.clone(),
        }
    }

    /// Returns true if exactly `holders` hold an index (with repetitions), and the rest is free or over.
    pub(super) fn agree_with(&self, holders: &[u32]) -> bool {
        let valid = holders.iter().copied();
        let taken: Holders = valid.filter(|index| self.is_valid(*index)).collect();
        let mut free = IndexSet::below(self.completions);
        free.subtract(&self.completed.set);
        free.subtract(taken.held());
        if let Some(failed) = &self.failed {
            free.subtract(&failed.set);
        }
        let apart = self.failed.as_ref();
        let apart = apart.is_none_or(|failed| failed.set.is_disjoint(&self.completed.set));
        taken == self.taken && free == self.free && apart
    }

    /// Returns the text for `completedIndexes`.
    pub(super) fn completed_text(&mut self) -> Arc<str> {
        self.completed.text()
    }

    /// Returns the text for `failedIndexes`.
    pub(super) fn failed_text(&mut self) -> Option<Arc<str>> {
        self.failed.as_mut().map(NamedSet::text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexes(completions: u32, completed: &str, failed: Option<&str>) -> Indexes {
        let stored = JobStatus {
            completed_indexes: completed.into(),
            failed_indexes: failed.map(Into::into),
            ..JobStatus::default()
        };
        Indexes::new(completions, &stored, failed.is_some())
    }

    fn lowest_free(indexes: &Indexes) -> Option<u32> {
        let lowest = indexes.choose(1, 1, &IndexSet::default());
        lowest.first().copied()
    }

    #[test]
    fn an_index_is_free_until_it_is_taken_or_done() {
        let mut indexes = indexes(3, "1,7", None);
        assert_eq!(lowest_free(&indexes), Some(0));
        indexes.take(0);
        indexes.take(0);
        assert!(indexes.has_duplicates());
        assert_eq!(lowest_free(&indexes), Some(2));
        indexes.give_back(0);
        assert!(!indexes.has_duplicates());
        assert_eq!(lowest_free(&indexes), Some(2));
        indexes.give_back(0);
        assert_eq!(lowest_free(&indexes), Some(0));
        assert!(indexes.complete(0));
        assert!(!indexes.complete(0));
        indexes.take(2);
        assert_eq!(lowest_free(&indexes), None);
        indexes.take(9);
        indexes.give_back(9);
        assert_eq!(&*indexes.completed_text(), "0,1");
        assert_eq!(indexes.failed_text(), None);
    }

    #[test]
    fn an_index_that_is_over_does_not_become_free_when_its_pod_goes() {
        let mut indexes = indexes(2, "", Some(""));
        for index in [0, 1] {
            indexes.take(index);
        }
        indexes.complete(0);
        indexes.fail(1);
        for index in [0, 1] {
            indexes.give_back(index);
        }
        assert_eq!(lowest_free(&indexes), None);
    }

    #[test]
    fn an_index_is_never_both_done_and_failed() {
        let mut indexes = indexes(4, "1", Some("1,2,9"));
        indexes.fail(1);
        assert_eq!(indexes.failed_text().as_deref(), Some("2"));
        indexes.fail(3);
        assert_eq!(indexes.failed_text().as_deref(), Some("2,3"));
        assert_eq!((indexes.failed_len(), indexes.completed_len()), (2, 1));
        assert_eq!(lowest_free(&indexes), Some(0));
    }

    #[test]
    fn an_index_that_waits_keeps_its_place() {
        let indexes = indexes(6, "0", None);
        let waiting = IndexSet::parse("1,2", 6);
        assert_eq!(indexes.choose(3, 9, &IndexSet::default()), [1, 2, 3]);
        assert_eq!(indexes.choose(3, 9, &waiting), [3]);
        assert!(indexes.choose(2, 9, &waiting).is_empty());
        assert_eq!(indexes.choose(9, 9, &waiting), [3, 4, 5]);
        assert_eq!(indexes.choose(9, 2, &waiting), [3, 4]);
    }
}
