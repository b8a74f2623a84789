//! Holds the Job as stored on the API server.
//!
//! Must not: know of Pods.

use crate::model::{Job, JobKey, JobSpec, JobStatus, Limits, PerIndexLimit, StatusChange};

/// The stored Job that a machine works on. Once `outdated` is set the fields do not change any more, and the machine
/// must be replaced.
#[derive(Clone, Debug)]
pub(super) struct KnownJob {
    pub(super) key: JobKey,
    pub(super) spec: JobSpec,
    pub(super) status: JobStatus,
    pub(super) deleting: bool,
    pub(super) gone: bool,
    /// The spec or the counts changed in a way that a running machine cannot apply.
    outdated: bool,
}

impl KnownJob {
    pub(super) fn new(job: &Job) -> Self {
        Self {
            key: job.key.clone(),
            spec: job.spec.clone(),
            status: job.status.clone(),
            deleting: job.deleting,
            gone: false,
            outdated: false,
        }
    }

    /// Applies a newer version. Returns true if the machine may go on. Changed gauges or shared fields of the status do
    /// not outdate it: no machine state derives from them.
    pub(super) fn take_in(&mut self, job: &Job) -> bool {
        let recounts = self.status.change_to(&job.status) == StatusChange::Counts;
        self.outdated |= !has_same_rules(&self.spec, &job.spec) || recounts;
        if self.outdated {
            return false;
        }
        self.spec = job.spec.clone();
        self.status = job.status.clone();
        self.deleting = job.deleting;
        true
    }

    pub(super) fn is_outdated(&self) -> bool {
        self.outdated && !self.gone
    }

    /// Returns true if the machine only has to release Pods: the Job has ended or is gone.
    pub(super) fn is_over(&self) -> bool {
        self.gone || self.status.is_finished()
    }
}

/// Read-only context for the parts of a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobContext<'a> {
    pub(super) job: &'a KnownJob,
    pub(super) spec: &'a JobSpec,
    pub(super) limits: &'a Limits,
    /// The machine only has to release Pods.
    pub(super) is_over: bool,
    /// The Job fails: its Pods are deleted with their finalizer on, and count.
    pub(super) fails: bool,
}

impl<'a> JobContext<'a> {
    pub(super) fn new(job: &'a KnownJob, limits: &'a Limits, fails: bool) -> Self {
        Self {
            spec: &job.spec,
            is_over: job.is_over(),
            job,
            limits,
            fails,
        }
    }
}

/// Returns true if two specs agree in all fields that machine state derives from.
///
/// Each field is listed, so a new field of a Job needs a decision here.
fn has_same_rules(one: &JobSpec, other: &JobSpec) -> bool {
    let JobSpec {
        completions,
        mode,
        pod_replacement,
        pod_failure,
        success,
        per_index,
        // Read anew in each pass.
        parallelism: _,
        backoff_limit: _,
        active_deadline: _,
        suspend: _,
        restart_policy: _,
        own_scheduling_group: _,
        // Not used by the machine.
        ttl_after_finished: _,
        managed_by: _,
    } = one;
    let by_index = |limit: &Option<PerIndexLimit>| limit.map(|limit| limit.backoff_limit);
    *completions == other.completions
        && *mode == other.mode
        && *pod_replacement == other.pod_replacement
        && *pod_failure == other.pod_failure
        && *success == other.success
        && by_index(per_index) == by_index(&other.per_index)
}
