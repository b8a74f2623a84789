//! Models a Job for the decision code: the fields that lakh acts on, parsed once.
//!
//! Must not: hold the Pod template (it travels as raw JSON beside the Job) or know of JSON.

use std::{sync::Arc, time::Duration};

use compact_str::CompactString;

use super::{
    JobId, JobKey, PerIndexLimit, PodFailurePolicy, SuccessPolicy, Time, Uid, api_text::api_text,
};

/// A Job: metadata, spec and status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// Its namespace and name.
    pub key: JobKey,
    /// Its UID. A Job recreated under the same name has another one.
    pub uid: Uid,
    /// The resourceVersion that this was read from.
    pub resource_version: u64,
    /// Increases with each change of the spec.
    pub generation: i64,
    /// Its creationTimestamp.
    pub created: Option<Time>,
    /// Set if the Job has a deletionTimestamp.
    pub deleting: bool,
    /// The desired state.
    pub spec: JobSpec,
    /// The observed state and the counters.
    pub status: JobStatus,
}

impl Job {
    /// Returns the identity that an ownerReference to this Job carries.
    pub fn id(&self) -> JobId {
        JobId {
            uid: self.uid,
            key: self.key.clone(),
        }
    }
}

/// The spec of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// The maximum number of active Pods.
    pub parallelism: u32,
    /// The number of successes required. `None` makes the Job a work queue.
    pub completions: Option<u32>,
    /// The completion mode: with or without indexes.
    pub mode: CompletionMode,
    /// The number of failed Pods (or restarts) tolerated.
    pub backoff_limit: u32,
    /// The maximum time that the Job may be active.
    pub active_deadline: Option<Duration>,
    /// The time until a finished Job is deleted. `None` keeps it for ever.
    pub ttl_after_finished: Option<Duration>,
    /// The Job is suspended: no Pod may run.
    pub suspend: bool,
    /// The restart policy of the Pod template.
    pub restart_policy: RestartPolicy,
    /// When a Pod that is going away is replaced.
    pub pod_replacement: PodReplacement,
    /// The policy for failed Pods, by how they failed.
    pub pod_failure: Option<PodFailurePolicy>,
    /// The failures tolerated per index.
    pub per_index: Option<PerIndexLimit>,
    /// The successes that complete the Job early.
    pub success: Option<SuccessPolicy>,
    /// The controller that manages the Job, if the field is set.
    pub managed_by: Option<CompactString>,
    /// The template sets its own scheduling group.
    pub own_scheduling_group: bool,
}

impl Default for JobSpec {
    /// Returns the spec that the API server makes of an empty one.
    fn default() -> Self {
        Self {
            parallelism: 1,
            completions: Some(1),
            mode: CompletionMode::NonIndexed,
            backoff_limit: 6,
            active_deadline: None,
            ttl_after_finished: None,
            suspend: false,
            restart_policy: RestartPolicy::Never,
            pod_replacement: PodReplacement::TerminatingOrFailed,
            pod_failure: None,
            per_index: None,
            success: None,
            managed_by: None,
            own_scheduling_group: false,
        }
    }
}

impl JobSpec {
    /// Returns true if Pods have completion indexes.
    pub fn is_indexed(&self) -> bool {
        self.mode == CompletionMode::Indexed
    }

    /// Returns true if the Pods are a gang: all must run at once, or none can work.
    pub fn is_gang(&self) -> bool {
        let all_at_once = self.completions == Some(self.parallelism);
        self.is_indexed() && self.parallelism > 1 && all_at_once && !self.own_scheduling_group
    }
}

/// The mode in which a Job's completions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionMode {
    /// Any Pod's success counts.
    NonIndexed,
    /// Each index from 0 to completions-1 must succeed once.
    Indexed,
    /// A mode of a newer API that lakh does not know.
    Unrecognized,
}

api_text!(CompletionMode {
    NonIndexed = "NonIndexed",
    Indexed = "Indexed",
    Unrecognized = "Unrecognized",
} else Unrecognized);

/// The kubelet's action when a container ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// The Pod ends with its containers.
    Never,
    /// A container that failed is started again in its Pod.
    OnFailure,
}

/// When a Pod that is going away is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodReplacement {
    /// As soon as it is being deleted.
    TerminatingOrFailed,
    /// Once it has ended.
    Failed,
}

/// The status of a Job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobStatus {
    /// Pods that have neither ended nor are being deleted.
    pub active: u32,
    /// Active Pods with condition Ready.
    pub ready: Option<u32>,
    /// Pods being deleted and not yet ended.
    pub terminating: Option<u32>,
    /// Pods (or indexes) that succeeded.
    pub succeeded: u32,
    /// Pods that failed.
    pub failed: u32,
    /// The indexes that succeeded, as text; empty for none.
    pub completed_indexes: Arc<str>,
    /// The indexes that failed for good, as text; only with a backoff limit per index.
    pub failed_indexes: Option<Arc<str>>,
    /// Pods that ended and are not yet in the counters.
    pub uncounted: Option<Uncounted>,
    /// The conditions, in the order in which they were added.
    pub conditions: Vec<Condition>,
    /// When the controller first acted on the Job, or when the Job was last resumed.
    pub start_time: Option<Time>,
    /// When the Job became Complete.
    pub completion_time: Option<Time>,
}

impl JobStatus {
    /// Returns true if a controller has taken up the Job. A controller sets a start time or a condition at once.
    pub fn has_begun(&self) -> bool {
        self.start_time.is_some() || !self.conditions.is_empty()
    }

    /// Compares this status with a later one.
    ///
    /// Destructures all fields, so that a new field needs a decision here.
    pub fn change_to(&self, next: &Self) -> StatusChange {
        let Self {
            active,
            ready,
            terminating,
            succeeded,
            failed,
            completed_indexes,
            failed_indexes,
            uncounted,
            conditions: _,
            start_time: _,
            completion_time,
        } = self;
        let same_counts = *succeeded == next.succeeded
            && *failed == next.failed
            && *completed_indexes == next.completed_indexes
            && *failed_indexes == next.failed_indexes
            && *uncounted == next.uncounted
            && *completion_time == next.completion_time
            && self.ends().eq(next.ends());
        let same_gauges =
            *active == next.active && *ready == next.ready && *terminating == next.terminating;
        if !same_counts {
            StatusChange::Counts
        } else if !same_gauges {
            StatusChange::Gauges
        } else if self != next {
            StatusChange::Shared
        } else {
            StatusChange::None
        }
    }

    /// The conditions about the Job's end, in a fixed order.
    fn ends(&self) -> impl Iterator<Item = &Condition> {
        let ends = [
            ConditionKind::SuccessCriteriaMet,
            ConditionKind::FailureTarget,
            ConditionKind::Complete,
            ConditionKind::Failed,
        ];
        let all = ends.into_iter();
        all.flat_map(|kind| self.conditions.iter().filter(move |found| found.is(kind)))
    }

    /// Start of the current run: the last change of `Suspended` to False. None if the Job is suspended or never was.
    pub fn run_start(&self) -> Option<Time> {
        let mut conditions = self.conditions.iter();
        let found = conditions.find(|found| found.is(ConditionKind::Suspended))?;
        found.last_transition.filter(|_| !found.is_true())
    }

    /// Returns the condition of this kind if it is True.
    pub fn true_condition(&self, kind: ConditionKind) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.is(kind) && condition.is_true())
    }

    /// Returns true if the Job is Complete or Failed.
    pub fn is_finished(&self) -> bool {
        self.true_condition(ConditionKind::Complete).is_some()
            || self.true_condition(ConditionKind::Failed).is_some()
    }
}

/// The difference between two statuses of a Job, from least to most consequential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusChange {
    /// No difference.
    None,
    /// Only fields that clients other than Job controllers write: the start time (Kueue clears it on a suspended Job),
    /// `Suspended`, and conditions that do not concern the Job's end.
    Shared,
    /// `active`, `ready` or `terminating`. Only a Job controller writes them, and each computes them from the Pods.
    Gauges,
    /// Counts or decisions: counters, indexes, `uncountedTerminatedPods`, conditions about the Job's end.
    Counts,
}

impl StatusChange {
    /// Returns true if only a Job controller writes such a change.
    pub fn is_by_job_controller(self) -> bool {
        self >= Self::Gauges
    }
}

/// `status.uncountedTerminatedPods`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// Pods that succeeded.
    pub succeeded: Vec<Uid>,
    /// Pods that failed.
    pub failed: Vec<Uid>,
    /// Entries of `succeeded` that are not a UID that an API server could have generated.
    pub strange_succeeded: u32,
    /// Such entries of `failed`.
    pub strange_failed: u32,
}

impl Uncounted {
    /// Returns true if no Pod waits to be counted.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

/// The condition types that lakh reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionKind {
    /// The Job is suspended: no Pod may run.
    Suspended,
    /// The Job will be Complete once its Pods are gone.
    SuccessCriteriaMet,
    /// The Job will be Failed once its Pods are gone.
    FailureTarget,
    /// The Job succeeded.
    Complete,
    /// The Job failed.
    Failed,
}

impl ConditionKind {
    /// The condition's `type` in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Suspended => "Suspended",
            Self::SuccessCriteriaMet => "SuccessCriteriaMet",
            Self::FailureTarget => "FailureTarget",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
        }
    }
}

/// A condition of a Job. Types that lakh does not know are kept unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The condition's `type`.
    pub kind: CompactString,
    /// `True`, `False` or `Unknown`.
    pub status: CompactString,
    /// A one-word reason.
    pub reason: CompactString,
    /// A human-readable message.
    pub message: String,
    /// `lastProbeTime`.
    pub last_probe: Option<Time>,
    /// When `status` last changed.
    pub last_transition: Option<Time>,
}

impl Condition {
    /// Creates a condition that became True at `now`.
    pub fn new_true(kind: ConditionKind, reason: &str, message: &str, now: Time) -> Self {
        Self {
            kind: CompactString::const_new(kind.as_str()),
            status: CompactString::const_new("True"),
            reason: CompactString::new(reason),
            message: message.to_owned(),
            last_probe: Some(now),
            last_transition: Some(now),
        }
    }

    /// Returns true if the condition has this type.
    pub fn is(&self, kind: ConditionKind) -> bool {
        self.kind == kind.as_str()
    }

    /// Returns true if its status is True.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}
