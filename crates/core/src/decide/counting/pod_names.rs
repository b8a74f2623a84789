//! Chooses the names of new Pods.
//!
//! A name follows from the Job's UID, the Pod's index, the Job's run and a count. All of them are stored on the API
//! server before the Pod is created. So two controllers at once, or one that restarts, request the same Pod under the
//! same name, and the API server creates it once. A run begins when the Job is resumed; its counts begin far from those
//! of other runs. For an index the count is one above the highest of its existing Pods in the run. For a Job without
//! indexes it is the run's lowest count that no Pod has. docs/design/pod-names.md.
//!
//! Must not: choose by state that only this process has.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::model::{
    IndexSet, PodRecord, PodSuffix, Slot, Time, Uid,
    names::{self, SUFFIXES, Series},
};

use super::{super::effect::CreationId, holders::Holders};

/// The number of counts of an index in a run. The ranges of two runs overlap by chance once in 1,750 times; names then
/// continue after those of the other run.
const RUN_OF_INDEX: u32 = 1 << 12;

/// The names in use by a Job's Pods, and the next ones.
#[derive(Clone, Debug, Default)]
pub(super) struct PodNames {
    job: Uid,
    /// The series of Pods without index.
    series: Series,
    /// The first count of the run.
    start: u32,
    /// Counts of Pods without index that exist or are being created, and of names that belong to other objects.
    used: Holders,
    /// Unused counts below `next`, in steps from `start`.
    free: IndexSet,
    /// The number of steps from `start` that were examined.
    next: u32,
    /// Index and count of existing Pods that do not hold their index any more.
    ended: BTreeSet<(u32, u32, Slot)>,
    /// The same, by slot.
    ended_in: HashMap<Slot, (u32, u32)>,
    /// By index, the last count with a name that belongs to another object.
    taken: HashMap<u32, u32>,
}

impl PodNames {
    /// Creates the names of a Job without Pods, in the run that began at this time.
    pub(super) fn new(job: Uid, run: Option<Time>) -> Self {
        let mut names = Self {
            job,
            series: Series::new(job, None),
            ..Self::default()
        };
        names.begin_run(run);
        names
    }

    /// Names new Pods after the run that began at this time; `None` for a Job that was never suspended.
    pub(super) fn begin_run(&mut self, run: Option<Time>) {
        let start = run.map_or(0, |since| names::first_count(self.job, since));
        if start != self.start {
            (self.start, self.free, self.next) = (start, IndexSet::default(), 0);
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
        if self.ended.is_empty() && self.taken.is_empty() {
            return self.start;
        }
        let last_in = |from: u32, end: u32| {
            let counts = (index, from, Slot(0))..(index, end, Slot(0));
            let last = self.ended.range(counts).next_back();
            last.map(|(_, count, _)| *count)
        };
        // The range of the run may wrap around the last count.
        let end = self.start + RUN_OF_INDEX;
        let last = match end.checked_sub(SUFFIXES) {
            Some(end) => last_in(0, end).or_else(|| last_in(self.start, SUFFIXES)),
            None => last_in(self.start, end),
        };
        let taken = self.taken.get(&index).copied();
        let steps = |count: u32| steps_between(self.start, count);
        let taken = taken.filter(|count| steps(*count) < RUN_OF_INDEX);
        let last = last
            .into_iter()
            .chain(taken)
            .max_by_key(|count| steps(*count));
        let mut count = last.map_or(self.start, after);
        while self.has_ended(index, count) {
            count = after(count);
        }
        count
    }

    fn has_ended(&self, index: u32, count: u32) -> bool {
        let with_name = (index, count, Slot(0))..=(index, count, Slot(u32::MAX));
        self.ended.range(with_name).next().is_some()
    }

    fn lowest(&mut self) -> u32 {
        let at = |steps: u32| (self.start + steps) % SUFFIXES;
        if let Some(steps) = self.free.min() {
            return at(steps);
        }
        while self.used.contains(at(self.next)) {
            self.next += 1;
        }
        at(self.next)
    }

    /// Returns the count in the name of a Pod without index, if the name has our form.
    pub(super) fn count_of(&self, pod: &PodRecord) -> Option<u32> {
        let suffix = PodSuffix::of_name(pod.name.tail())?;
        Some(suffix.count(self.series))
    }

    /// Adds a user of a name. Names of Pods with an index are free when their index is.
    pub(super) fn take(&mut self, id: CreationId) {
        if id.index.is_none() {
            self.take_count(id.suffix.count(self.series));
        }
    }

    /// Removes a user of a name.
    pub(super) fn give_back(&mut self, id: CreationId) {
        if id.index.is_none() {
            self.give_back_count(id.suffix.count(self.series));
        }
    }

    /// Adds a user of the name with this count.
    pub(super) fn take_count(&mut self, count: u32) {
        self.used.take(count);
        let steps = steps_between(self.start, count);
        if steps < self.next {
            self.free.remove(steps);
        }
    }

    /// Removes a user of the name with this count.
    pub(super) fn give_back_count(&mut self, count: u32) {
        let steps = steps_between(self.start, count);
        if self.used.give_back(count) && steps < self.next {
            self.free.insert(steps);
        }
    }

    /// Avoids a name that another object has.
    pub(super) fn avoid(&mut self, id: CreationId) {
        let Some(index) = id.index else {
            return self.take(id);
        };
        let count = id.suffix.count(Series::new(self.job, id.index));
        self.taken.insert(index, count);
    }

    /// Records that the Pod in a slot exists, but does not hold its index any more.
    pub(super) fn ended(&mut self, slot: Slot, index: u32, pod: &PodRecord) {
        if let Some(suffix) = PodSuffix::of_name(pod.name.tail()) {
            let count = suffix.count(Series::new(self.job, Some(index)));
            self.ended.insert((index, count, slot));
            self.ended_in.insert(slot, (index, count));
        }
    }

    /// Forgets the Pod in a slot, which is gone or is examined anew.
    pub(super) fn forget_ended(&mut self, slot: Slot) {
        if self.ended_in.is_empty() {
            return;
        }
        if let Some((index, count)) = self.ended_in.remove(&slot) {
            self.ended.remove(&(index, count, slot));
        }
    }
}

/// Returns the next count. The last count wraps to the first.
fn after(count: u32) -> u32 {
    (count + 1) % SUFFIXES
}

/// Returns the number of steps from one count to another.
fn steps_between(from: u32, to: u32) -> u32 {
    (to + SUFFIXES - from) % SUFFIXES
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
        let mut names = PodNames::new(JOB, None);
        assert_eq!(names.choose(Some(3)), indexed(3, 0));
        // Its Pod is not known to exist: the same name is requested again.
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
    fn a_run_that_lies_across_the_last_name_of_all_goes_on_with_the_first() {
        let mut names = PodNames::new(JOB, None);
        names.start = SUFFIXES - 2;
        assert_eq!(names.choose(Some(3)), indexed(3, SUFFIXES - 2));
        names.ended(Slot(0), 3, &pod(indexed(3, SUFFIXES - 1)));
        assert_eq!(names.choose(Some(3)), indexed(3, 0));
        names.ended(Slot(1), 3, &pod(indexed(3, 0)));
        assert_eq!(names.choose(Some(3)), indexed(3, 1));
        names.avoid(indexed(3, 1));
        assert_eq!(names.choose(Some(3)), indexed(3, 2));
        let all: Vec<_> = (0..4).map(|_| names.choose(None)).collect();
        let expected = [SUFFIXES - 2, SUFFIXES - 1, 0, 1].map(plain);
        assert_eq!(all, expected);
    }

    #[test]
    fn without_index_the_lowest_that_is_free_is_chosen() {
        let mut names = PodNames::new(JOB, None);
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
        // A Pod and its creation both use the name for a while.
        names.take_count(2);
        names.give_back(plain(2));
        assert_eq!(names.choose(None), plain(5));
        names.avoid(plain(5));
        names.give_back(plain(5));
        assert_eq!(names.choose(None), plain(6));
    }

    #[test]
    fn a_new_run_forgets_the_free_names_of_the_previous_one() {
        let mut names = PodNames::new(JOB, None);
        let first = names.choose(None);
        names.choose(None);
        names.begin_run(Some(Time::from_secs(1_000_000)));
        names.give_back(first);
        let start = names.start;
        assert_eq!(names.choose(None), plain(start));
        names.give_back(plain(start));
        assert_eq!(names.choose(None), plain(start));
    }

    #[test]
    fn runs_have_names_of_their_own() {
        let runs = [None, Some(1_000_000), Some(1_000_001), Some(1_000_060)];
        let mut all = BTreeSet::new();
        for run in runs {
            let mut names = PodNames::new(JOB, None);
            names.begin_run(run.map(Time::from_secs));
            for _ in 0..100 {
                all.insert(names.choose(None));
            }
            all.extend((0..100).map(|index| names.choose(Some(index))));
        }
        assert_eq!(all.len(), runs.len() * 200);
    }
}
