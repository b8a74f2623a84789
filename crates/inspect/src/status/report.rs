//! Builds the state of a Job as one object: the output of `-o json`, and the source of the text. Field names and values
//! of `state` are stable.
//!
//! Must not: make a request, or read a clock.

use serde::Serialize;

use lakh_model::{Condition, ConditionKind, IndexSet, Time};

use crate::{
    ask::Unseen,
    failures::{FailedPod, FailureCause, FailureGroup},
    one_job::{JobDetails, JobPace, JobSight, Waits},
    words::moment,
};

use super::recorded::{Recorded, RecordedReport};

/// The report of `lakh status`.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusReport {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// The time of the snapshot, by the server's clock.
    pub(super) at: String,
    pub(super) state: JobStanding,
    pub(super) completions: Option<u32>,
    pub(super) parallelism: u32,
    pub(super) indexed: bool,
    pub(super) succeeded: u32,
    /// Failed Pods, as the Job counts them.
    pub(super) failed: u32,
    /// Failed Pods that exist, counted or not; none where Pods could not be read.
    pub(super) failed_pods: Option<u32>,
    pub(super) active: u32,
    pub(super) ready: Option<u32>,
    /// None where Pods could not be read.
    pub(crate) pending: Option<u32>,
    pub(super) terminating: Option<u32>,
    /// Container restarts in Pods that exist.
    pub(super) restarts: u32,
    /// Indexes that have failed for good; none where an index does not fail alone.
    pub(super) failed_indexes: Option<Indexes>,
    /// Failed indexes without a Pod that shows the cause.
    pub(super) failed_indexes_without_pods: Option<Indexes>,
    pub(super) started: Option<String>,
    /// The run time in seconds.
    pub(super) seconds: Option<u64>,
    /// Successes per second.
    pub(super) rate: Option<f64>,
    /// The time left at this rate, in seconds.
    pub(super) seconds_left: Option<u64>,
    pub(super) conditions: Vec<ConditionReport>,
    /// The causes of failures, the most frequent first.
    pub(crate) causes: Vec<CauseReport>,
    /// The last failure of each index; without indexes, each failed Pod that exists.
    pub(super) failures: Vec<FailureReport>,
    /// Backoffs after failures.
    pub(crate) waits: Option<WaitsReport>,
    /// A controller's record of indexes that have no failed Pod left, if it was queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recorded: Option<RecordedReport>,
    pub(super) unseen: Vec<Unseen>,
}

/// The state of a Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobStanding {
    /// No controller has started it.
    #[default]
    New,
    Running,
    Suspended,
    /// Its end is decided, and Pods have not ended.
    Ending,
    Deleting,
    Complete,
    Failed,
}

/// A set of indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Indexes {
    pub(super) count: u32,
    /// As in a Job's status: `0-2,5`.
    pub(super) list: String,
}

/// A condition, as stored and in plain words.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ConditionReport {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) since: Option<String>,
    pub(super) words: String,
    /// It announces the Job's end.
    #[serde(skip)]
    pub(super) is_verdict: bool,
}

/// Pods that failed with the same cause.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CauseReport {
    pub(super) cause: String,
    pub(super) exit_code: Option<i32>,
    pub(super) reason: Option<String>,
    pub(super) container: Option<String>,
    pub(super) pods: u32,
    pub(super) indexes: Option<Indexes>,
    pub(super) last: FailureReport,
}

/// A failure.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FailureReport {
    pub(super) index: Option<u32>,
    pub(super) pod: String,
    /// The state of the index.
    pub(super) state: Option<IndexState>,
    /// The known failures of the index.
    pub(super) tries: u32,
    pub(super) cause: String,
    pub(super) exit_code: Option<i32>,
    pub(super) reason: Option<String>,
    pub(super) node: String,
    pub(super) at: String,
    pub(super) message: Option<String>,
    /// The end of the index's backoff.
    pub(super) until: Option<String>,
}

/// The state of an index that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum IndexState {
    /// For good.
    Failed,
    Succeeded,
    /// In backoff.
    Waiting,
    /// It has another Pod, or gets one.
    Retried,
    /// The Job ended before.
    Unfinished,
}

/// Backoffs after failures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitsReport {
    /// None if the whole Job is in backoff.
    pub(super) indexes: Option<Indexes>,
    /// When the first of them is tried again.
    pub(super) next: String,
    /// When the last of them is tried again.
    pub(super) last: String,
    #[serde(skip)]
    pub(super) words: String,
}

impl StatusReport {
    /// Builds the report.
    pub(super) fn of(sight: &JobSight, pace: JobPace) -> Self {
        let waits = Waits::of(&sight.job, &sight.pods, sight.now);
        let teller = FailureTeller::of(sight, &waits);
        Self {
            failures: teller.failures(sight.job.job.spec.is_indexed()),
            ..Self::by(&teller, pace)
        }
    }

    /// Adds a controller's record.
    pub(super) fn add(&mut self, recorded: Recorded) {
        match recorded {
            Ok(recorded) => self.recorded = Some(recorded),
            Err(unseen) => self.unseen.push(unseen),
        }
    }

    /// Builds the report without the individual failures, because there may be as many as indexes.
    pub(crate) fn of_causes(sight: &JobSight, pace: JobPace) -> Self {
        let waits = Waits::of(&sight.job, &sight.pods, sight.now);
        Self::by(&FailureTeller::of(sight, &waits), pace)
    }

    fn by(teller: &FailureTeller<'_>, pace: JobPace) -> Self {
        let (sight, job) = (teller.sight, &teller.sight.job);
        let is_unseen = !sight.pods_unseen.is_empty();
        let groups = sight.pods.failed.by_cause().into_iter();
        let per_index = job.job.spec.per_index.is_some();
        let mut report = Self {
            failed_pods: (!is_unseen)
                .then(|| u32::try_from(sight.pods.failed.count()).unwrap_or(u32::MAX)),
            pending: (!is_unseen).then_some(sight.pods.pending),
            restarts: sight.pods.restarts,
            failed_indexes_without_pods: (per_index && !is_unseen).then(|| teller.without_pods()),
            causes: groups.map(|group| teller.cause(&group)).collect(),
            waits: WaitsReport::of(teller.waits, sight.now),
            unseen: sight.unseen(),
            ..Self::default()
        };
        report.see_job(job, pace, sight.now);
        report
    }

    /// Updates the fields that come from the Job itself.
    pub(crate) fn see_job(&mut self, job: &JobDetails, pace: JobPace, now: Time) {
        let (spec, status) = (&job.job.spec, job.status());
        let end = job.end().and_then(|end| end.last_transition);
        let started = status.start_time;
        self.namespace = job.job.key.namespace.to_string();
        self.name = job.job.key.name.to_string();
        self.uid = job.job.uid.to_string();
        self.at = now.to_rfc3339();
        self.state = JobStanding::of(job);
        self.completions = spec.completions;
        self.parallelism = spec.parallelism;
        self.indexed = spec.is_indexed();
        self.succeeded = status.succeeded;
        self.failed = status.failed;
        self.active = status.active;
        self.ready = status.ready;
        self.terminating = status.terminating;
        self.failed_indexes = spec
            .per_index
            .is_some()
            .then(|| Indexes::of(&job.failed_indexes()));
        self.started = started.map(Time::to_rfc3339);
        self.seconds = started.map(|start| end.unwrap_or(now).since(start).as_secs());
        self.rate = pace.rate.map(|rate| (rate * 1000.0).round() / 1000.0);
        self.seconds_left = pace.left.map(|left| left.as_secs());
        let conditions = status.conditions.iter();
        self.conditions = conditions.map(|it| ConditionReport::of(it, now)).collect();
    }
}

impl JobStanding {
    /// Returns the state of a Job.
    pub(crate) fn of(job: &JobDetails) -> Self {
        match job.end() {
            Some(end) if end.is(ConditionKind::Complete) => Self::Complete,
            Some(_) => Self::Failed,
            None if job.job.deleting => Self::Deleting,
            None if job.verdict().is_some() => Self::Ending,
            None if job.job.spec.suspend => Self::Suspended,
            None if job.has_begun() => Self::Running,
            None => Self::New,
        }
    }

    /// Returns true if the Job has ended.
    pub(crate) fn is_over(self) -> bool {
        [Self::Complete, Self::Failed].contains(&self)
    }
}

impl Indexes {
    pub(super) fn of(set: &IndexSet) -> Self {
        Self {
            count: set.len(),
            list: set.to_string(),
        }
    }
}

impl ConditionReport {
    fn of(condition: &Condition, now: Time) -> Self {
        Self {
            kind: condition.kind.to_string(),
            status: condition.status.to_string(),
            reason: condition.reason.to_string(),
            message: condition.message.clone(),
            since: condition.last_transition.map(Time::to_rfc3339),
            words: plain(condition, now),
            is_verdict: VERDICTS.iter().any(|kind| condition.is(*kind)),
        }
    }
}

/// The conditions that announce the end of a Job.
const VERDICTS: [ConditionKind; 2] = [
    ConditionKind::SuccessCriteriaMet,
    ConditionKind::FailureTarget,
];

/// Describes a condition in plain words.
fn plain(condition: &Condition, now: Time) -> String {
    let since = condition.last_transition;
    let since = since.map_or_else(String::new, |at| format!(" since {}", moment(at, now)));
    let why = match (condition.reason.as_str(), condition.message.as_str()) {
        ("", "") => String::new(),
        (reason, "") => format!(": {reason}"),
        (reason, message) => format!(": {message} ({reason})"),
    };
    let kinds = [
        (ConditionKind::Complete, "Complete"),
        (ConditionKind::Failed, "Failed"),
        (ConditionKind::Suspended, "suspended"),
        (
            ConditionKind::SuccessCriteriaMet,
            "Complete once its last Pod has terminated,",
        ),
        (
            ConditionKind::FailureTarget,
            "Failed once its last Pod has terminated,",
        ),
    ];
    let known = kinds.into_iter().find(|(kind, _)| condition.is(*kind));
    match known {
        Some((ConditionKind::Suspended, _)) if !condition.is_true() => {
            format!("no longer suspended{since}")
        }
        Some((_, words)) if condition.is_true() => format!("{words}{since}{why}"),
        _ => format!("{} is {}{since}{why}", condition.kind, condition.status),
    }
}

impl WaitsReport {
    fn of(waits: &Waits, now: Time) -> Option<Self> {
        if let Some((until, count)) = waits.job {
            let until_words = moment(until, now);
            return Some(Self {
                indexes: None,
                next: until.to_rfc3339(),
                last: until.to_rfc3339(),
                words: format!(
                    "next Pod at about {until_words}, after {count} consecutive failures"
                ),
            });
        }
        let (next, last) = waits.ends()?;
        let indexes = Indexes::of(&waits.waiting());
        Some(Self {
            next: next.to_rfc3339(),
            last: last.to_rfc3339(),
            words: match (moment(next, now), moment(last, now)) {
                (next, last) if next == last => format!("until about {next}"),
                (next, last) => format!("the next until about {next}, the last until {last}"),
            },
            indexes: Some(indexes),
        })
    }
}

/// Builds failure reports with the state of their indexes.
pub(super) struct FailureTeller<'a> {
    sight: &'a JobSight,
    waits: &'a Waits,
    done: IndexSet,
    lost: IndexSet,
}

impl<'a> FailureTeller<'a> {
    pub(super) fn of(sight: &'a JobSight, waits: &'a Waits) -> Self {
        Self {
            sight,
            waits,
            done: sight.job.completed_indexes(),
            lost: sight.job.failed_indexes(),
        }
    }

    fn cause(&self, group: &FailureGroup<'_>) -> CauseReport {
        let FailureCause {
            exit_code,
            reason,
            container,
        } = group.cause;
        let tries = group.last.tries;
        CauseReport {
            cause: group.cause.to_string(),
            exit_code: *exit_code,
            reason: some(reason),
            container: some(container),
            pods: group.pods,
            indexes: (!group.indexes.is_empty()).then(|| Indexes::of(&group.indexes)),
            last: self.failure(group.last, tries),
        }
    }

    fn failures(&self, is_indexed: bool) -> Vec<FailureReport> {
        if is_indexed {
            let last = self.sight.pods.failed.by_index().into_values();
            return last.map(|(pod, tries)| self.failure(pod, tries)).collect();
        }
        let mut pods: Vec<&FailedPod> = self.sight.pods.failed.iter().collect();
        pods.sort_by_key(|pod| pod.at);
        pods.into_iter().map(|pod| self.failure(pod, 1)).collect()
    }

    fn failure(&self, pod: &FailedPod, tries: u32) -> FailureReport {
        let cause = self.sight.pods.failed.cause_of(pod);
        let until = pod.index.and_then(|index| self.waits.indexes.get(&index));
        FailureReport {
            index: pod.index,
            pod: pod.name.to_string(),
            state: pod.index.map(|index| self.index_state(index)),
            tries,
            cause: cause.to_string(),
            exit_code: cause.exit_code,
            reason: some(&cause.reason),
            node: pod.node.to_string(),
            at: pod.at.to_rfc3339(),
            message: pod.message.as_deref().map(str::to_owned),
            until: until.map(|until| until.to_rfc3339()),
        }
    }

    pub(super) fn index_state(&self, index: u32) -> IndexState {
        match () {
            () if self.lost.contains(index) => IndexState::Failed,
            () if self.done.contains(index) => IndexState::Succeeded,
            () if self.sight.job.end().is_some() => IndexState::Unfinished,
            () if self.waits.indexes.contains_key(&index) => IndexState::Waiting,
            () => IndexState::Retried,
        }
    }

    /// Returns the indexes that have failed for good and have no failed Pod left.
    fn without_pods(&self) -> Indexes {
        let mut gone = self.lost.clone();
        for pod in self.sight.pods.failed.iter() {
            if let Some(index) = pod.index {
                gone.remove(index);
            }
        }
        Indexes::of(&gone)
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
