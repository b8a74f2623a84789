//! Computes the backoff after failed Pods: of the Job, or of single indexes.
//!
//! The rule of the built-in controller and of lakh is 10 s after a failure, doubled for each further one, at most 10
//! minutes. A controller may have other settings, which a client cannot see. Source: docs/rules/jobs.md, 5.1 to 5.5.
//!
//! Must not: read a clock.

use std::collections::BTreeMap;

use lakh_model::{IndexSet, Limits, Time};

use super::{census::PodCensus, job::JobDetails};

/// Backoffs that are not over yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Time until which the Job creates no Pod, and its number of consecutive failures.
    pub(crate) job: Option<(Time, u32)>,
    /// Time until which each index gets no Pod.
    pub(crate) indexes: BTreeMap<u32, Time>,
}

impl Waits {
    pub(crate) fn of(job: &JobDetails, census: &PodCensus, now: Time) -> Self {
        let mut waits = Self::seeming(job, census, now);
        // A Job that had all its Pods when they were read, and has fewer by now, may have had successes in between.
        if job.status().succeeded > 0 && !census.has_successes {
            waits.job = None;
        }
        waits
    }

    /// Does the same on the assumption that no Pod outside the census ended a run of failures.
    pub(super) fn seeming(job: &JobDetails, census: &PodCensus, now: Time) -> Self {
        let spec = &job.job.spec;
        if job.end().is_some() || job.verdict().is_some() || spec.suspend || job.job.deleting {
            return Self::default();
        }
        let backoff = Limits::default().pod_failure_backoff;
        if spec.per_index.is_some() {
            let (done, lost) = (job.completed_indexes(), job.failed_indexes());
            let is_open = |index: u32| {
                let live = census.live_indexes.contains(index);
                !live && !done.contains(index) && !lost.contains(index)
            };
            let last = census.failed.by_index().into_iter();
            let open = last.filter(|(index, _)| is_open(*index));
            let waits = open.map(|(index, (pod, tries))| (index, pod.at + backoff.delay(tries)));
            return Self {
                job: None,
                indexes: waits.filter(|(_, until)| *until > now).collect(),
            };
        }
        // All wanted Pods exist, so it creates none anyway.
        if job.status().active >= job.wanted_at_once() {
            return Self::default();
        }
        let success = census.last_success;
        let row = census.failed.iter().map(|pod| pod.at);
        let row = row.filter(|at| success.is_none_or(|success| *at > success));
        let count = u32::try_from(row.clone().count()).unwrap_or(u32::MAX);
        let until = row.max().map(|last| last + backoff.delay(count));
        Self {
            job: until
                .filter(|until| *until > now)
                .map(|until| (until, count)),
            indexes: BTreeMap::new(),
        }
    }

    /// Returns the indexes in backoff.
    pub(crate) fn waiting(&self) -> IndexSet {
        self.indexes.keys().copied().collect()
    }

    /// Returns the earliest and the latest end of an index's backoff.
    pub(crate) fn ends(&self) -> Option<(Time, Time)> {
        let ends = self.indexes.values().copied();
        ends.clone().min().zip(ends.max())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::seen::SeenJob, *};

    #[test]
    fn a_job_waits_only_if_no_success_came_in_between() {
        let mut sight = SeenJob::read(
            r#"{job: {spec: {completions: 9, parallelism: 2}, status: {active: 1, succeeded: 1}},
                pods: [{status: {phase: Failed, containerStatuses: [{name: main, state: {terminated:
                    {exitCode: 1, finishedAt: "2026-11-26T02:59:55Z"}}}]}}]}"#,
        );
        let waits = |sight: &super::super::JobSight| {
            Waits::of(&sight.job, &sight.pods, sight.now)
                .job
                .map(|(_, count)| count)
        };
        assert_eq!(waits(&sight), Some(1));
        // The Job had two Pods when these were read, so succeeded Pods were not.
        sight.pods.has_successes = false;
        assert_eq!(waits(&sight), None);
    }
}
