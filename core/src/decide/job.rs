//! The Job itself, as the server has it.
//!
//! Must not: know of Pods.

use crate::model::{Job, JobKey, JobSpec, JobStatus, Limits, PerIndexLimit, StatusChange};

/// See the module's text.
#[derive(Clone, Debug)]
pub(super) struct KnownJob {
    pub(super) key: JobKey,
    pub(super) spec: JobSpec,
    pub(super) status: JobStatus,
    pub(super) deleting: bool,
    pub(super) gone: bool,
    /// It has become another one than the machine was built on.
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

    /// Takes in a newer version; whether the machine may go on. A status with other gauges or shared fields does not
    /// outdate it: nothing that a machine is built on differs.
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

    /// Whether all that is left is to let the Pods go: the Job has ended or is no more.
    pub(super) fn is_over(&self) -> bool {
        self.gone || self.status.is_finished()
    }
}

/// What the parts of a machine go by and do not own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis<'a> {
    pub(super) job: &'a KnownJob,
    pub(super) spec: &'a JobSpec,
    pub(super) limits: &'a Limits,
    /// Whether all that is left is to let the Pods go.
    pub(super) is_over: bool,
    /// Whether the Job fails: its Pods are deleted with their finalizer on, and count.
    pub(super) fails: bool,
}

impl<'a> Basis<'a> {
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

/// Whether two specs of a Job are alike in what a machine is built on.
///
/// Each field is named, so that nobody adds one to a Job without a thought of where it belongs.
fn has_same_rules(one: &JobSpec, other: &JobSpec) -> bool {
    let JobSpec {
        completions,
        mode,
        pod_replacement,
        pod_failure,
        success,
        per_index,
        // Read anew in each turn.
        parallelism: _,
        backoff_limit: _,
        active_deadline: _,
        suspend: _,
        restart_policy: _,
        own_scheduling_group: _,
        // Read by others than the machine.
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
