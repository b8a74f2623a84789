//! Indexes one namespace: the selectors of active Jobs, and the Pods without an owner.
//!
//! Must not: know of claims.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use compact_str::CompactString;

use crate::model::{
    DecodedPod, Job, JobId, Labelled, Labels, PodFlags, PodRecord, Selector, Uid, wears_uid,
};

use super::Claimed;

#[derive(Debug, Default)]
pub(super) struct Namespace {
    jobs: BTreeMap<JobId, Arc<Selector>>,
    /// Jobs with a selector that is not just the label with their UID.
    choosy: BTreeSet<JobId>,
    pub(super) ownerless: BTreeMap<Uid, Ownerless>,
}

#[derive(Debug)]
pub(super) struct Ownerless {
    pub(super) name: CompactString,
    pub(super) labels: Labels,
    pub(super) version: u64,
    /// It has ended and lacks our finalizer.
    pub(super) is_over: bool,
}

impl Namespace {
    pub(super) fn has_job(&self, job: &JobId) -> bool {
        self.jobs.contains_key(job)
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = &JobId> {
        self.jobs.keys()
    }

    pub(super) fn add_job(&mut self, job: &Job, selector: &Arc<Selector>) {
        self.jobs.insert(job.id(), Arc::clone(selector));
        if !selector.means_wearers_of(job.uid) {
            self.choosy.insert(job.id());
        }
    }

    pub(super) fn remove_job(&mut self, job: &JobId) {
        self.jobs.remove(job);
        self.choosy.remove(job);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.ownerless.is_empty()
    }

    /// The Pods without an owner that the Job's selector matches and that it must adopt, each with its resourceVersion.
    pub(super) fn ownerless_meant_by(&self, job: Uid, selector: &Selector) -> Vec<(Claimed, u64)> {
        let meant = self.ownerless.iter();
        let meant = meant.filter(|(_, pod)| {
            selector.matches(&pod.labels) && !is_counted(job, &pod.labels, pod.is_over)
        });
        meant
            .map(|(uid, pod)| (Claimed::new(*uid, &pod.name), pod.version))
            .collect()
    }

    /// The Jobs that must adopt a Pod by their selectors.
    pub(super) fn jobs_that_mean(&self, pod: &DecodedPod<'_>) -> BTreeSet<JobId> {
        let is_over = is_over(&pod.record);
        let meaning = self.jobs.iter();
        let meaning = meaning.filter(|(job, selector)| {
            selector.matches(&pod.labels) && !is_counted(job.uid, &pod.labels, is_over)
        });
        meaning.map(|(job, _)| job.clone()).collect()
    }

    /// Returns true if the Job that owns a Pod no longer selects it.
    pub(super) fn strays(&self, pod: &DecodedPod<'_>, job: &JobId) -> bool {
        // The common case: it avoids a lookup of the Job, which may be one of thousands.
        if wears_uid(&pod.labels, job.uid) && !self.choosy.contains(job) {
            return false;
        }
        // No Job selects a Pod without labels.
        self.jobs
            .get(job)
            .is_some_and(|selector| pod.labels.is_empty() || !selector.matches(&pod.labels))
    }
}

/// Returns true if a Pod has ended and lacks our finalizer.
pub(super) fn is_over(pod: &PodRecord) -> bool {
    pod.phase.is_terminal() && !pod.has(PodFlags::FINALIZER)
}

/// Returns true if the Pod was created by this Job and has been counted, or released uncounted. An adoption would add
/// the finalizer again, and the Job would count the Pod again.
fn is_counted(job: Uid, labels: &impl Labelled, is_over: bool) -> bool {
    is_over && wears_uid(labels, job)
}
