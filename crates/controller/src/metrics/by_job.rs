//! Exports gauges of single Jobs that ask for them by annotation. Each Job adds several series, so their number is
//! limited.
//!
//! Must not: decide whether a Job asks.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use lakh_model::JobKey;

use super::register;

/// Maximum number of Jobs with gauges: seven series each, less than the rest of the controller's.
pub(crate) const JOBS_MAX: usize = 100;

/// Maximum number of these Jobs per namespace, so that one tenant cannot take every place.
pub(crate) const JOBS_OF_A_NAMESPACE_MAX: usize = 20;

/// Values of the label `state` for Pods.
const PODS: [&str; 4] = ["active", "ready", "succeeded", "failed"];

/// Values of the label `state` for indexes.
const INDEXES: [&str; 3] = ["completed", "failed", "backoff"];

type JobSeries = [(&'static str, Cow<'static, str>); 3];

/// The numbers of one Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobNumbers {
    /// In the order of [`PODS`].
    pub(crate) pods: [u32; PODS.len()],
    /// In the order of [`INDEXES`]; none if the Job is not Indexed.
    pub(crate) indexes: Option<[u32; INDEXES.len()]>,
}

/// The gauge families of single Jobs, and the Jobs that have series in them. A Job gets its series by
/// [`join`](Self::join).
#[derive(Debug)]
pub(crate) struct JobFamilies {
    pods: Family<JobSeries, Gauge>,
    indexes: Family<JobSeries, Gauge>,
    /// Number of objects with each Job's name: a deleted Job may have Pods left when its successor exists.
    told: Mutex<BTreeMap<JobKey, usize>>,
}

impl JobFamilies {
    /// Registers and returns the families.
    pub(super) fn registered(registry: &mut Registry) -> Arc<Self> {
        let pods = "Pods of each Job with the annotation lakh.dev/job-metrics";
        let indexes = "Indexes of each Job with the annotation lakh.dev/job-metrics";
        Arc::new(Self {
            pods: register(registry, "job_pods", pods, Family::default()),
            indexes: register(registry, "job_indexes", indexes, Family::default()),
            told: Mutex::default(),
        })
    }

    /// Returns the gauges for one more Job, unless a limit is reached.
    pub(crate) fn join(self: &Arc<Self>, key: &JobKey) -> Option<JobGauges> {
        let mut told = self.told.lock();
        let of_namespace = told.keys().filter(|other| other.namespace == key.namespace);
        let is_full = told.len() >= JOBS_MAX || of_namespace.count() >= JOBS_OF_A_NAMESPACE_MAX;
        if is_full && !told.contains_key(key) {
            return None;
        }
        *told.entry(key.clone()).or_default() += 1;
        Some(JobGauges {
            families: Arc::clone(self),
            key: key.clone(),
            last: None,
        })
    }
}

/// The gauges of one Job. Its series are removed on drop.
#[derive(Debug)]
pub(crate) struct JobGauges {
    families: Arc<JobFamilies>,
    key: JobKey,
    last: Option<JobNumbers>,
}

impl JobGauges {
    /// Sets the current numbers.
    pub(crate) fn set(&mut self, numbers: JobNumbers) {
        if self.last == Some(numbers) {
            return;
        }
        for (state, count) in PODS.into_iter().zip(numbers.pods) {
            let gauge = self.families.pods.get_or_create(&self.series(state));
            gauge.set(count.into());
        }
        let indexes = numbers.indexes.into_iter().flatten();
        for (state, count) in INDEXES.into_iter().zip(indexes) {
            let gauge = self.families.indexes.get_or_create(&self.series(state));
            gauge.set(count.into());
        }
        self.last = Some(numbers);
    }

    fn series(&self, state: &'static str) -> JobSeries {
        let JobKey { namespace, name } = &self.key;
        [
            ("job_namespace", namespace.to_string().into()),
            ("job_name", name.to_string().into()),
            ("state", state.into()),
        ]
    }
}

impl Drop for JobGauges {
    fn drop(&mut self) {
        let mut told = self.families.told.lock();
        let Some(count) = told.get_mut(&self.key) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        told.remove(&self.key);
        for state in PODS {
            self.families.pods.remove(&self.series(state));
        }
        for state in INDEXES {
            self.families.indexes.remove(&self.series(state));
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn key(namespace: &str, number: usize) -> JobKey {
        JobKey {
            namespace: namespace.into(),
            name: format!("j-{number}").into(),
        }
    }

    fn numbers(active: u32) -> JobNumbers {
        JobNumbers {
            pods: [active, 1, 2, 3],
            indexes: Some([2, 1, 0]),
        }
    }

    #[test]
    fn the_series_of_a_job_are_there_as_long_as_the_last_that_has_its_name() {
        let mut registry = Registry::default();
        let families = JobFamilies::registered(&mut registry);
        let told = || {
            let mut text = String::new();
            encode(&mut text, &registry).expect("a string");
            let samples = text.lines().filter(|line| !line.starts_with('#'));
            samples.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut gone = families.join(&key("a", 1)).expect("there is room");
        gone.set(numbers(7));
        let sample = "job_pods{job_namespace=\"a\",job_name=\"j-1\",state=\"active\"} 7";
        assert!(told().iter().any(|line| line == sample), "{:?}", told());
        assert_eq!(told().len(), 7);
        let mut next = families.join(&key("a", 1)).expect("it is the same name");
        drop(gone);
        assert_eq!(told().len(), 7);
        next.set(numbers(9));
        assert!(told().iter().any(|line| line.ends_with("\"active\"} 9")));
        drop(next);
        assert_eq!(told(), Vec::<String>::new());
    }

    #[test]
    fn there_are_few_jobs_and_few_of_each_namespace() {
        let families = JobFamilies::registered(&mut Registry::default());
        let mut all = Vec::new();
        for namespace in ["a", "b", "c", "d", "e", "f"] {
            let jobs = (0..1000).filter_map(|number| families.join(&key(namespace, number)));
            let jobs: Vec<JobGauges> = jobs.collect();
            all.push(jobs);
        }
        let counts: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!(counts, [20, 20, 20, 20, 20, 0]);
        all.remove(0);
        assert!(families.join(&key("f", 1)).is_some(), "there is room again");
    }
}
