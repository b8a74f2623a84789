//! Which names new Pods get.
//!
//! A name follows from the Job's UID, the Pod's index and a count, and the count from what every controller
//! sees on the server: of an index it is one more than the highest of its Pods that exist, of a Job without
//! indexes the lowest that no Pod has. So a controller that starts anew, and two that are at work at once,
//! ask for the same Pod under the same name, and the API server makes it once. A name comes back only after
//! its Pod is gone.
//!
//! Must not: choose by what only this process knows.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::model::{
    IndexSet, PodRecord, PodSuffix, Slot, Uid,
    names::{SUFFIXES, Series},
};

use super::{super::effect::CreationId, holders::Holders};

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct PodNames {
    job: Uid,
    /// Of Pods without index.
    series: Series,
    /// Counts of Pods without index that exist or are being made, and of names that are somebody else's.
    used: Holders,
    /// Counts below `next` that are not used.
    free: IndexSet,
    /// From here on nobody has looked which are used.
    next: u32,
    /// Indexes and counts of Pods that exist and do not hold their index any more.
    ended: BTreeSet<(u32, u32, Slot)>,
    /// The same, by slot.
    ended_in: HashMap<Slot, (u32, u32)>,
    /// By index the lowest count whose name is not known to be somebody else's.
    not_taken: HashMap<u32, u32>,
}

impl PodNames {
    pub(super) fn new(job: Uid) -> Self {
        Self {
            job,
            series: Series::new(job, None),
            ..Self::default()
        }
    }

    /// Chooses the name of a new Pod. It is in use until [`PodNames::give_back`].
    pub(super) fn choose(&mut self, index: Option<u32>) -> CreationId {
        let suffix = if let Some(index) = index {
            PodSuffix::nth(Series::new(self.job, Some(index)), self.next_of(index))
        } else {
            let count = self.lowest();
            self.take_count(count);
            PodSuffix::nth(self.series, count)
        };
        CreationId { index, suffix }
    }

    fn next_of(&self, index: u32) -> u32 {
        if self.ended.is_empty() && self.not_taken.is_empty() {
            return 0;
        }
        let of_index = (index, 0, Slot(0))..=(index, u32::MAX, Slot(u32::MAX));
        let last = self.ended.range(of_index).next_back();
        let after_last = last.map_or(0, |(_, count, _)| count + 1);
        let not_taken = self.not_taken.get(&index).copied().unwrap_or(0);
        let mut count = after_last.max(not_taken) % SUFFIXES;
        // It is, unless somebody has chosen the last name of all for a Pod.
        while self.has_ended(index, count) {
            count += 1;
        }
        count
    }

    fn has_ended(&self, index: u32, count: u32) -> bool {
        let with_name = (index, count, Slot(0))..=(index, count, Slot(u32::MAX));
        self.ended.range(with_name).next().is_some()
    }

    fn lowest(&mut self) -> u32 {
        if let Some(count) = self.free.min() {
            return count;
        }
        while self.used.contains(self.next) {
            self.next += 1;
        }
        self.next
    }

    /// The count in the name of a Pod without index, if it has one of ours.
    pub(super) fn count_of(&self, pod: &PodRecord) -> Option<u32> {
        let suffix = PodSuffix::of_name(pod.name.tail())?;
        Some(suffix.count(self.series))
    }

    /// One more uses a name. Those of Pods with an index are free when their index is.
    pub(super) fn take(&mut self, id: CreationId) {
        if id.index.is_none() {
            self.take_count(id.suffix.count(self.series));
        }
    }

    /// One less uses a name.
    pub(super) fn give_back(&mut self, id: CreationId) {
        if id.index.is_none() {
            self.give_back_count(id.suffix.count(self.series));
        }
    }

    /// One more uses the name with this count.
    pub(super) fn take_count(&mut self, count: u32) {
        self.used.take(count);
        if count < self.next {
            self.free.remove(count);
        }
    }

    /// One less uses the name with this count.
    pub(super) fn give_back_count(&mut self, count: u32) {
        if self.used.give_back(count) && count < self.next {
            self.free.insert(count);
        }
    }

    /// Somebody else has a name: it is not chosen again.
    pub(super) fn avoid(&mut self, id: CreationId) {
        let Some(index) = id.index else {
            return self.take(id);
        };
        let next = id.suffix.count(Series::new(self.job, id.index)) + 1;
        let not_taken = self.not_taken.entry(index).or_default();
        *not_taken = next.max(*not_taken);
    }

    /// The Pod in a slot exists, but does not hold its index any more.
    pub(super) fn ended(&mut self, slot: Slot, index: u32, pod: &PodRecord) {
        if let Some(suffix) = PodSuffix::of_name(pod.name.tail()) {
            let count = suffix.count(Series::new(self.job, Some(index)));
            self.ended.insert((index, count, slot));
            self.ended_in.insert(slot, (index, count));
        }
    }

    /// The Pod in a slot is looked at anew, or is gone.
    pub(super) fn forget_ended(&mut self, slot: Slot) {
        if self.ended_in.is_empty() {
            return;
        }
        if let Some((index, count)) = self.ended_in.remove(&slot) {
            self.ended.remove(&(index, count, slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PodName, names};

    const JOB: Uid = Uid::from_u128(7);

    fn pod(id: CreationId) -> PodRecord {
        let name = names::pod_name("j-", id.suffix);
        PodRecord {
            name: PodName::new("j", &name),
            ..PodRecord::default()
        }
    }

    fn indexed(index: u32, count: u32) -> CreationId {
        CreationId {
            index: Some(index),
            suffix: PodSuffix::nth(Series::new(JOB, Some(index)), count),
        }
    }

    fn plain(count: u32) -> CreationId {
        CreationId {
            index: None,
            suffix: PodSuffix::nth(Series::new(JOB, None), count),
        }
    }

    #[test]
    fn an_index_goes_on_after_the_last_of_its_pods_that_exist() {
        let mut names = PodNames::new(JOB);
        assert_eq!(names.choose(Some(3)), indexed(3, 0));
        // Nobody knows of it: it is asked for again.
        assert_eq!(names.choose(Some(3)), indexed(3, 0));
        names.ended(Slot(5), 3, &pod(indexed(3, 0)));
        names.ended(Slot(1), 3, &pod(indexed(3, 1)));
        assert_eq!(names.choose(Some(3)), indexed(3, 2));
        assert_eq!(names.choose(Some(4)), indexed(4, 0));
        names.forget_ended(Slot(5));
        assert_eq!(names.choose(Some(3)), indexed(3, 2));
        names.forget_ended(Slot(1));
        assert_eq!(names.choose(Some(3)), indexed(3, 0));
        names.avoid(indexed(3, 0));
        assert_eq!(names.choose(Some(3)), indexed(3, 1));
    }

    #[test]
    fn after_the_last_name_of_all_comes_the_first_that_is_free() {
        let mut names = PodNames::new(JOB);
        for (slot, count) in [(0, 0), (1, 1), (2, 3), (3, SUFFIXES - 1)] {
            names.ended(Slot(slot), 3, &pod(indexed(3, count)));
        }
        assert_eq!(names.choose(Some(3)), indexed(3, 2));
    }

    #[test]
    fn without_index_the_lowest_that_is_free_is_chosen() {
        let mut names = PodNames::new(JOB);
        for count in [0, 1, 3, 9_000_000] {
            names.take_count(count);
        }
        assert_eq!(names.count_of(&pod(plain(3))), Some(3));
        assert_eq!(names.choose(None), plain(2));
        assert_eq!(names.choose(None), plain(4));
        names.give_back(plain(2));
        names.give_back_count(0);
        assert_eq!(names.choose(None), plain(0));
        assert_eq!(names.choose(None), plain(2));
        // A Pod and its creation have it both for a while.
        names.take_count(2);
        names.give_back(plain(2));
        assert_eq!(names.choose(None), plain(5));
        names.avoid(plain(5));
        names.give_back(plain(5));
        assert_eq!(names.choose(None), plain(6));
    }
}
