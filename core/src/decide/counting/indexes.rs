//! The completion indexes of an Indexed Job: which are done, failed for good, taken, or free.
//!
//! Kept up to date by change, so that the lowest free index is always at hand. No index is ever
//! both done and failed: what it was first it stays.

use std::sync::Arc;

use crate::model::{IndexSet, JobStatus};

use super::holders::Holders;

/// See the module's text. For a Job without indexes all sets stay empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexes {
    completions: u32,
    /// Succeeded, whether the server knows it or not.
    completed: NamedSet,
    /// Succeeded, as the server has it.
    completed_stored: IndexSet,
    /// Succeeded, as a status write under way has it.
    storing: Option<IndexSet>,
    /// Failed for good, if indexes can.
    failed: Option<NamedSet>,
    /// Held by a Pod or by one being created.
    taken: Holders,
    /// Neither completed nor failed nor taken.
    free: IndexSet,
}

/// A set of indexes and its text, which is made anew only when the set has changed.
#[derive(Clone, Debug, Default)]
struct NamedSet {
    set: IndexSet,
    text: Option<Arc<str>>,
}

/// Indexes by what became of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexOverview {
    /// Those that succeeded.
    pub completed: IndexSet,
    /// Those that failed for good, if an index can.
    pub failed: Option<IndexSet>,
    /// Those whose last Pod failed and that wait for the next one.
    pub in_backoff: IndexSet,
    /// Those that have no Pod, among them those in backoff.
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
    /// The indexes below `completions`, of which a stored status tells how they ended; whether they
    /// can fail for good.
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

    /// Whether an index is one of the Job's.
    pub(super) fn is_valid(&self, index: u32) -> bool {
        index < self.completions
    }

    /// Notes a success of an index that has not failed; whether it is the index's first.
    pub(super) fn complete(&mut self, index: u32) -> bool {
        let first = self.completed.insert(index);
        if first {
            self.free.remove(index);
        }
        first
    }

    /// Notes that an index has failed for good, unless it is done.
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

    /// Whether the index has failed for good.
    pub(super) fn has_failed(&self, index: u32) -> bool {
        let failed = self.failed.as_ref();
        failed.is_some_and(|failed| failed.set.contains(index))
    }

    /// Whether the index needs no Pod any more.
    pub(super) fn is_over(&self, index: u32) -> bool {
        self.is_done(index) || self.has_failed(index)
    }

    /// How many have failed for good.
    pub(super) fn failed_len(&self) -> u32 {
        self.failed.as_ref().map_or(0, |failed| failed.set.len())
    }

    /// Whether the index is done, whether the server knows it or not.
    pub(super) fn is_done(&self, index: u32) -> bool {
        self.completed.set.contains(index)
    }

    /// Whether the server knows that the index is done.
    pub(super) fn is_stored(&self, index: u32) -> bool {
        self.completed_stored.contains(index)
    }

    /// Notes the successes that a status write under way names.
    pub(super) fn begin_store(&mut self) {
        self.storing = Some(self.completed.set.clone());
    }

    /// Notes that the server knows of them.
    pub(super) fn end_store(&mut self, known: bool) {
        if let Some(storing) = self.storing.take().filter(|_| known) {
            self.completed_stored = storing;
        }
    }

    pub(super) fn completed_len(&self) -> u32 {
        self.completed.set.len()
    }

    /// Those that are done.
    pub(super) fn completed(&self) -> &IndexSet {
        &self.completed.set
    }

    /// Notes one more holder of an index.
    pub(super) fn take(&mut self, index: u32) {
        if self.is_valid(index) && self.taken.take(index) {
            self.free.remove(index);
        }
    }

    /// Notes one holder less.
    pub(super) fn give_back(&mut self, index: u32) {
        if self.is_valid(index) && self.taken.give_back(index) && !self.is_over(index) {
            self.free.insert(index);
        }
    }

    /// Whether some index has more than one holder.
    pub(super) fn has_duplicates(&self) -> bool {
        self.taken.has_duplicates()
    }

    /// At most `most` of the lowest `missing` indexes that need a Pod, without those that must
    /// wait. One that waits keeps its place: no other is taken instead.
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

    /// What became of them; these wait for their next Pod.
    pub(super) fn overview(&self, in_backoff: &IndexSet) -> IndexOverview {
        let failed = self.failed.as_ref();
        IndexOverview {
            completed: self.completed.set.clone(),
            failed: failed.map(|failed| failed.set.clone()),
            in_backoff: in_backoff.clone(),
            without_pod: self.free.clone(),
        }
    }

    /// Whether exactly these hold an index (some twice), and the rest is free or over.
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

    /// The completed indexes as the status has them.
    pub(super) fn completed_text(&mut self) -> Arc<str> {
        self.completed.text()
    }

    /// The failed indexes as the status has them.
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
