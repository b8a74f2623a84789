//! Counts the tries of each piece of work of a Job.
//!
//! Responsible for: tries per Job and completion index, within bounds.
//! Must not: count for Pods that do not need it.
//!
//! A kubelet does not learn that a Job has finished, and the next try may come long after the last Pod is gone. So
//! counters outlive their Pods. Above [`MAX_COUNTERS`], all counters of the least recently tried Job are dropped.

use compact_str::CompactString;
use hashbrown::HashMap;

/// Tries so far, by Job UID and completion index.
#[derive(Debug)]
pub(super) struct Attempts {
    jobs: HashMap<CompactString, JobAttempts>,
    counters: usize,
    limit: usize,
    clock: u64,
}

#[derive(Debug, Default)]
struct JobAttempts {
    last_used: u64,
    by_index: HashMap<Option<u32>, u32>,
}

impl Attempts {
    /// Creates counters with this upper limit.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            jobs: HashMap::new(),
            counters: 0,
            limit,
            clock: 0,
        }
    }

    /// Counts a try and returns the number of tries before it.
    pub(super) fn next(&mut self, job: &CompactString, index: Option<u32>) -> u32 {
        self.clock += 1;
        let entry = self.jobs.entry(job.clone()).or_default();
        entry.last_used = self.clock;
        let tries = entry.by_index.entry(index).or_insert_with(|| {
            self.counters += 1;
            0
        });
        let before = *tries;
        *tries = tries.saturating_add(1);
        if self.counters > self.limit {
            self.forget_oldest(job);
        }
        before
    }

    /// Drops the least recently tried Job other than `keep`.
    fn forget_oldest(&mut self, keep: &CompactString) {
        let oldest = self
            .jobs
            .iter()
            .filter(|(job, _)| *job != keep)
            .min_by_key(|(_, attempts)| attempts.last_used)
            .map(|(job, _)| job.clone());
        if let Some(gone) = oldest.and_then(|job| self.jobs.remove(&job)) {
            self.counters -= gone.by_index.len();
        }
    }
}

/// Ten Jobs of the largest supported size; about 20 MB.
pub(super) const MAX_COUNTERS: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_counted_per_job_and_index_and_the_oldest_job_is_forgotten() {
        let (a, b) = (CompactString::new("a"), CompactString::new("b"));
        let mut attempts = Attempts::new(100);
        assert_eq!(attempts.next(&a, None), 0);
        assert_eq!(attempts.next(&a, None), 1);
        assert_eq!(attempts.next(&a, Some(0)), 0);
        for index in 0..100 {
            assert_eq!(attempts.next(&b, Some(index)), 0);
        }
        assert_eq!(attempts.counters, 100);
        assert_eq!(attempts.next(&b, Some(5)), 1);
        assert_eq!(attempts.next(&a, None), 0);
    }
}
