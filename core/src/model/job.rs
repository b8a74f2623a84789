//! A Job as decisions see it: the fields lakh acts on, parsed once.
//!
//! Must not: hold the Pod template (it travels as raw JSON beside the Job) or know of JSON.

use std::{sync::Arc, time::Duration};

use compact_str::CompactString;

use super::{JobId, JobKey, PerIndexLimit, PodFailurePolicy, SuccessPolicy, Time, Uid};

/// A Job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// Its namespace and name.
    pub key: JobKey,
    /// Who it is; a Job that is made again under the same name is another one.
    pub uid: Uid,
    /// The version of the object that this was read from.
    pub resource_version: u64,
    /// Grows with each change of the spec.
    pub generation: i64,
    /// Its creationTimestamp.
    pub created: Option<Time>,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// What is wanted.
    pub spec: JobSpec,
    /// What has been observed and counted.
    pub status: JobStatus,
}

impl Job {
    /// What those write down who mean it.
    pub fn id(&self) -> JobId {
        JobId {
            uid: self.uid,
            key: self.key.clone(),
        }
    }
}

/// What is wanted of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// How many Pods may be active at once.
    pub parallelism: u32,
    /// How many must succeed; `None` makes the Job a work queue.
    pub completions: Option<u32>,
    /// Whether each completion has an index.
    pub mode: CompletionMode,
    /// How many failed Pods (or restarts) are borne.
    pub backoff_limit: u32,
    /// How long the Job may be active.
    pub active_deadline: Option<Duration>,
    /// How long the Job stays once it has finished; none for ever.
    pub ttl_after_finished: Option<Duration>,
    /// Whether no Pod may run for now.
    pub suspend: bool,
    /// What a kubelet does when a container of the template ends.
    pub restart_policy: RestartPolicy,
    /// When a Pod that goes away is replaced.
    pub pod_replacement: PodReplacement,
    /// What is done with failed Pods, by how they failed.
    pub pod_failure: Option<PodFailurePolicy>,
    /// How many failures are borne index by index.
    pub per_index: Option<PerIndexLimit>,
    /// Which successes are enough.
    pub success: Option<SuccessPolicy>,
    /// The controller that manages the Job, if the field is set.
    pub managed_by: Option<CompactString>,
    /// Whether the template says itself with which Pods it is scheduled.
    pub own_scheduling_group: bool,
}

impl Default for JobSpec {
    /// What the API server makes of an empty spec.
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
    /// Whether Pods have completion indexes.
    pub fn is_indexed(&self) -> bool {
        self.mode == CompletionMode::Indexed
    }

    /// Whether the Pods make a gang: all run at once, or none can do its work.
    pub fn is_gang(&self) -> bool {
        let all_at_once = self.completions == Some(self.parallelism);
        self.is_indexed() && self.parallelism > 1 && all_at_once && !self.own_scheduling_group
    }
}

/// Whether each of a Job's completions has an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionMode {
    /// Any Pod's success counts.
    NonIndexed,
    /// Each index from 0 to completions-1 must succeed once.
    Indexed,
    /// A mode of a newer API that lakh does not know.
    Unrecognized,
}

/// What a kubelet does when a container ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// The Pod ends with its containers.
    Never,
    /// A container that failed is started again in its Pod.
    OnFailure,
}

/// When a Pod that goes away is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodReplacement {
    /// As soon as it is being deleted.
    TerminatingOrFailed,
    /// Once it has ended.
    Failed,
}

/// What has been observed of a Job and counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobStatus {
    /// Pods neither ended nor being deleted.
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
    /// When the controller first acted on the Job, or it was last resumed.
    pub start_time: Option<Time>,
    /// When it became Complete.
    pub completion_time: Option<Time>,
}

impl JobStatus {
    /// Whether a controller has taken up the Job: it gets a start time or a condition at once.
    pub fn has_begun(&self) -> bool {
        self.start_time.is_some() || !self.conditions.is_empty()
    }

    /// Compares this status with a later one.
    ///
    /// Each field is named, so that a new one cannot be added without a decision.
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

    /// The conditions that say how the Job ends, whatever their order among others.
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

    /// When the current run began: the last change of `Suspended` to False. None if the Job is suspended or never was.
    pub fn run_start(&self) -> Option<Time> {
        let mut conditions = self.conditions.iter();
        let found = conditions.find(|found| found.is(ConditionKind::Suspended))?;
        found.last_transition.filter(|_| !found.is_true())
    }

    /// The condition of a kind that is True.
    pub fn true_condition(&self, kind: ConditionKind) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| condition.is(kind) && condition.is_true())
    }

    /// Whether the Job is Complete or Failed.
    pub fn is_finished(&self) -> bool {
        self.true_condition(ConditionKind::Complete).is_some()
            || self.true_condition(ConditionKind::Failed).is_some()
    }
}

/// The difference between two statuses of a Job, from the least to the most consequential one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusChange {
    /// In nothing.
    None,
    /// Only in fields that others than Job controllers write: the start time, which Kueue clears on a suspended Job,
    /// `Suspended`, and conditions that do not concern the Job's end.
    Shared,
    /// In `active`, `ready` or `terminating`. Only a Job controller writes them, and each computes them from the Pods.
    Gauges,
    /// In counts or decisions: counters, indexes, `uncountedTerminatedPods`, conditions about the Job's end.
    Counts,
}

impl StatusChange {
    /// Returns whether only a Job controller writes such a change.
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
    /// Entries of `succeeded` that are no UID of any Pod an API server could have made.
    pub strange_succeeded: u32,
    /// Entries of `failed` likewise.
    pub strange_failed: u32,
}

impl Uncounted {
    /// Whether no Pod waits to be counted.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

/// The kinds of condition that lakh reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionKind {
    /// No Pod may run for now.
    Suspended,
    /// The Job will be Complete once its Pods are gone.
    SuccessCriteriaMet,
    /// The Job will be Failed once its Pods are gone.
    FailureTarget,
    /// Ended well.
    Complete,
    /// Ended badly.
    Failed,
}

impl ConditionKind {
    /// The API's word.
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

/// One condition of a Job; kinds that lakh does not know are carried along untouched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The API's word for its kind.
    pub kind: CompactString,
    /// `True`, `False` or `Unknown`.
    pub status: CompactString,
    /// Why, as one word.
    pub reason: CompactString,
    /// Why, for people.
    pub message: String,
    /// When it was last looked at.
    pub last_probe: Option<Time>,
    /// When its status last changed.
    pub last_transition: Option<Time>,
}

impl Condition {
    /// A condition that became True at `now`.
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

    /// Whether it is of this kind.
    pub fn is(&self, kind: ConditionKind) -> bool {
        self.kind == kind.as_str()
    }

    /// Whether its status is True.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}
