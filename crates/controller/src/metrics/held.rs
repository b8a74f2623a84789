//! Counts the Jobs, Pods and indexes that the controller holds, by state, as gauges.
//!
//! Each Job adds its contribution at the end of its turn, and removes it when it is forgotten. So the gauges show the
//! state as of the last turns, and events of Pods cost nothing.
//!
//! Must not: decide the state of a Job.

use std::sync::Arc;

use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use lakh_model::{IndexSet, Job};

use super::{Label, by_job::JobNumbers, register};

/// The states of Jobs, indexed by [`JobState`].
const JOB_STATES: [&str; 6] = [
    "at_work",
    "suspended",
    "finished",
    "gone",
    "other_manager",
    "not_seen",
];

/// The counted states of Pods.
const POD_STATES: [&str; 5] = ["known", "active", "ready", "terminating", "finalizer"];

/// The counted states of indexes.
const INDEX_STATES: [&str; 3] = ["completed", "failed", "backoff"];

/// State of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobState {
    AtWork,
    Suspended,
    Finished,
    Gone,
    OtherManager,
    NotSeen,
}

/// Contribution of one Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) job: JobState,
    /// In the order of [`POD_STATES`].
    pub(crate) pods: [u32; POD_STATES.len()],
    /// In the order of [`INDEX_STATES`].
    pub(crate) indexes: [u32; INDEX_STATES.len()],
}

impl Held {
    /// Returns the numbers for the Job's own gauges.
    pub(crate) fn of_one(&self, job: &Job) -> JobNumbers {
        let [_, active, ready, ..] = self.pods;
        let (status, spec) = (&job.status, &job.spec);
        let of_status = |text: &str| {
            let completions = spec.completions.unwrap_or(0);
            IndexSet::parse(text, completions).len()
        };
        // Once the Job has ended, its index counts are no longer kept.
        let indexes = match self.job {
            JobState::Finished => [
                of_status(&status.completed_indexes),
                of_status(status.failed_indexes.as_deref().unwrap_or_default()),
                0,
            ],
            _ => self.indexes,
        };
        JobNumbers {
            pods: [active, ready, status.succeeded, status.failed],
            indexes: spec.is_indexed().then_some(indexes),
        }
    }
}

/// The gauges of all states.
#[derive(Debug)]
pub(crate) struct HeldGauges {
    jobs: [Gauge; JOB_STATES.len()],
    pods: [Gauge; POD_STATES.len()],
    indexes: [Gauge; INDEX_STATES.len()],
}

impl HeldGauges {
    /// Registers and returns the gauges.
    pub(super) fn registered(registry: &mut Registry) -> Arc<Self> {
        Arc::new(Self {
            jobs: by_state(registry, "jobs", "Jobs in the cache, by state", JOB_STATES),
            pods: by_state(
                registry,
                "pods",
                "Pods of Jobs in the cache, by state",
                POD_STATES,
            ),
            indexes: by_state(
                registry,
                "indexes",
                "Indexes of active Jobs, by state",
                INDEX_STATES,
            ),
        })
    }

    fn add(&self, held: &Held, sign: i64) {
        self.jobs[held.job as usize].inc_by(sign);
        let counts = self.pods.iter().zip(held.pods);
        for (gauge, count) in counts.chain(self.indexes.iter().zip(held.indexes)) {
            if count > 0 {
                gauge.inc_by(sign * i64::from(count));
            }
        }
    }
}

fn by_state<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    states: [&'static str; N],
) -> [Gauge; N] {
    let family: Family<Label, Gauge> = register(registry, name, help, Family::default());
    states.map(|state| family.get_or_create(&[("state", state)]).clone())
}

/// The current contribution of one Job. It is removed on drop.
#[derive(Debug, Default)]
pub(crate) struct Share(Option<(Arc<HeldGauges>, Held)>);

impl Share {
    /// Replaces the contribution.
    pub(crate) fn set(&mut self, gauges: &Arc<HeldGauges>, held: Held) {
        match &mut self.0 {
            Some((_, before)) if *before == held => {}
            Some((_, before)) => {
                gauges.add(before, -1);
                gauges.add(&held, 1);
                *before = held;
            }
            None => {
                gauges.add(&held, 1);
                self.0 = Some((Arc::clone(gauges), held));
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some((gauges, held)) = &self.0 {
            gauges.add(held, -1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_contribution_is_the_last_value_and_is_removed_on_drop() {
        let gauges = HeldGauges::registered(&mut Registry::default());
        let told = || {
            let jobs = gauges.jobs.iter().map(Gauge::get);
            let all = jobs.chain(gauges.pods.iter().map(Gauge::get));
            all.chain(gauges.indexes.iter().map(Gauge::get))
                .collect::<Vec<_>>()
        };
        let held = |job, pods, indexes| Held { job, pods, indexes };
        let (mut one, mut two) = (Share::default(), Share::default());
        one.set(&gauges, held(JobState::AtWork, [5, 4, 3, 2, 5], [1, 0, 0]));
        two.set(&gauges, held(JobState::Finished, [1; 5], [0, 0, 0]));
        assert_eq!(told(), [1, 0, 1, 0, 0, 0, 6, 5, 4, 3, 6, 1, 0, 0]);
        one.set(
            &gauges,
            held(JobState::Suspended, [2, 0, 0, 2, 2], [3, 1, 1]),
        );
        assert_eq!(told(), [0, 1, 1, 0, 0, 0, 3, 1, 1, 3, 3, 3, 1, 1]);
        drop((one, two));
        assert_eq!(told(), [0; 14]);
    }
}
