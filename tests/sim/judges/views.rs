//! Parses the objects' JSON into plain records for the judges.
//!
//! Must not: use any of the controller's parsers.

use std::collections::BTreeSet;

use lakh::embedded::apiserver::Stored;
use serde::Deserialize;

use crate::replica::date;

/// Finalizers of the controller in the place of the built-in one, and beside it.
const FINALIZERS: [&str; 2] = ["batch.kubernetes.io/job-tracking", "lakh.dev/job-tracking"];

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct JobView {
    metadata: RawMetadata,
    pub(super) spec: JobSpec,
    pub(super) status: JobStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct JobSpec {
    pub(super) parallelism: Option<u64>,
    pub(super) completions: Option<u64>,
    pub(super) completion_mode: String,
    pub(super) backoff_limit: Option<u64>,
    pub(super) backoff_limit_per_index: Option<u64>,
    pub(super) max_failed_indexes: Option<u64>,
    pub(super) active_deadline_seconds: Option<u64>,
    pub(super) ttl_seconds_after_finished: Option<u64>,
    pub(super) suspend: bool,
    pub(super) managed_by: Option<String>,
    pub(super) pod_replacement_policy: String,
    pub(super) success_policy: Option<SuccessPolicy>,
    pub(super) pod_failure_policy: Option<FailurePolicy>,
    pub(super) template: Template,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Template {
    pub(super) spec: TemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TemplateSpec {
    pub(super) restart_policy: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SuccessPolicy {
    rules: Vec<SuccessRule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SuccessRule {
    succeeded_indexes: Option<String>,
    succeeded_count: Option<usize>,
}

impl SuccessPolicy {
    /// Returns true if these completed indexes meet one of its rules.
    pub(super) fn is_met(&self, done: &BTreeSet<u64>) -> bool {
        self.rules.iter().any(|rule| {
            let named = rule.succeeded_indexes.as_deref().map(indexes);
            let of_them = named.as_ref().map(|named| named.intersection(done).count());
            let all = named.as_ref().map(BTreeSet::len);
            let enough = rule.succeeded_count.or(all).unwrap_or(usize::MAX);
            of_them.unwrap_or(done.len()) >= enough
        })
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FailurePolicy {
    rules: Vec<FailureRule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FailureRule {
    action: String,
    on_exit_codes: Option<ExitCodes>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExitCodes {
    container_name: Option<String>,
    values: Vec<i64>,
}

impl JobSpec {
    /// Returns true if some failures are ignored.
    pub(super) fn ignores_failures(&self) -> bool {
        let mut policies = self.pod_failure_policy.iter();
        policies.any(|policy| policy.rules.iter().any(|rule| rule.action == "Ignore"))
    }

    /// Returns true if the policy fails the Job for this Pod.
    pub(super) fn fails_job(&self, pod: &PodView) -> bool {
        self.rules_on(pod, "FailJob")
    }

    /// Returns true if the policy fails the index of this Pod.
    pub(super) fn fails_index(&self, pod: &PodView) -> bool {
        self.rules_on(pod, "FailIndex")
    }

    /// Returns true if the policy ignores this Pod's failure.
    pub(super) fn ignores(&self, pod: &PodView) -> bool {
        self.rules_on(pod, "Ignore")
    }

    /// Returns true if the first rule has this action and matches an exit code. Scenarios put such a rule first, with
    /// `In`.
    fn rules_on(&self, pod: &PodView, action: &str) -> bool {
        let rules = self.pod_failure_policy.as_ref().map(|policy| &policy.rules);
        let first = rules.and_then(|rules| rules.first());
        let codes = first.filter(|rule| rule.action == action);
        let Some(codes) = codes.and_then(|rule| rule.on_exit_codes.as_ref()) else {
            return false;
        };
        pod.exits.iter().any(|(container, code)| {
            let is_meant = codes
                .container_name
                .as_ref()
                .is_none_or(|name| name == container);
            is_meant && codes.values.contains(code)
        })
    }

    pub(super) fn is_indexed(&self) -> bool {
        self.completion_mode == "Indexed"
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct JobStatus {
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) completed_indexes: String,
    pub(super) failed_indexes: Option<String>,
    pub(super) uncounted_terminated_pods: Option<Uncounted>,
    start_time: Option<String>,
    pub(super) conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Uncounted {
    pub(super) succeeded: BTreeSet<String>,
    pub(super) failed: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    #[serde(rename = "lastTransitionTime")]
    since: Option<String>,
}

impl JobStatus {
    /// Returns the condition of this type if it is true.
    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| condition.kind == kind && condition.status == "True")
    }

    /// Returns the final condition.
    fn end(&self) -> Option<&Condition> {
        self.condition("Complete").or(self.condition("Failed"))
    }

    pub(super) fn is_finished(&self) -> bool {
        self.end().is_some()
    }

    /// Returns the time of the final condition.
    pub(super) fn finished_at(&self) -> Option<u64> {
        at(self.end()?.since.as_deref()?)
    }

    /// Returns the start time.
    pub(super) fn started_at(&self) -> Option<u64> {
        at(self.start_time.as_deref()?)
    }

    /// Returns true if the status has a verdict on the Job.
    pub(super) fn has_verdict(&self) -> bool {
        let announced = self.condition("FailureTarget");
        let announced = announced.or(self.condition("SuccessCriteriaMet"));
        announced.is_some() || self.is_finished()
    }

    pub(super) fn uncounted(&self) -> Uncounted {
        self.uncounted_terminated_pods.clone().unwrap_or_default()
    }
}

impl JobView {
    /// Returns the time of the active deadline.
    pub(super) fn deadline(&self) -> Option<u64> {
        Some(self.status.started_at()? + self.spec.active_deadline_seconds? * 1_000)
    }

    /// Returns the UID of the CronJob that owns it.
    pub(super) fn cron_job(&self) -> Option<&str> {
        let mut owners = self.metadata.owner_references.iter();
        let owner = owners.find(|owner| owner.controller && owner.kind == "CronJob")?;
        Some(&owner.uid)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CronJobView {
    pub(super) spec: CronJobSpec,
    status: CronJobStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CronJobSpec {
    pub(super) concurrency_policy: String,
    pub(super) suspend: bool,
    schedule: String,
    time_zone: Option<String>,
    pub(super) successful_jobs_history_limit: Option<usize>,
    pub(super) failed_jobs_history_limit: Option<usize>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CronJobStatus {
    last_schedule_time: Option<String>,
}

impl CronJobView {
    /// Returns the scheduled time of its last run.
    pub(super) fn last_run(&self) -> Option<u64> {
        at(self.status.last_schedule_time.as_deref()?)
    }
}

impl CronJobSpec {
    /// Returns true if the schedule has a run at this minute since 1970. Scenarios schedule every or every other
    /// minute.
    pub(super) fn may_run_at(&self, minute: i64) -> bool {
        let zone = self.time_zone.as_deref().unwrap_or("Etc/UTC");
        let zone = jiff::tz::TimeZone::get(zone).expect("a zone");
        let time = jiff::Timestamp::from_second(minute * 60).expect("a time");
        let is_even = zone.to_datetime(time).minute() % 2 == 0;
        match self.schedule.split(' ').next() {
            Some("*/2") => is_even,
            Some("1-59/2") => !is_even,
            _ => true,
        }
    }
}

/// Converts a timestamp to milliseconds since the world began.
fn at(text: &str) -> Option<u64> {
    let at = text.parse::<jiff::Timestamp>().ok()?.as_millisecond();
    u64::try_from(at - date(0).as_millis()).ok()
}

/// Parses indexes like `0,2-4`.
pub(super) fn indexes(text: &str) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u64>(), last.parse()) {
            all.extend(first..=last);
        }
    }
    all
}

/// The fields of a Pod that the judges use.
#[derive(Clone, Debug, Default)]
pub(super) struct PodView {
    /// UID and name of the Job in its controller reference.
    pub(super) job: Option<(String, String)>,
    pub(super) index: Option<u64>,
    pub(super) phase: String,
    pub(super) is_deleting: bool,
    pub(super) is_held: bool,
    /// Exit code of its first container, or of an init container that failed before.
    pub(super) exit_code: Option<i64>,
    /// Exit codes of its containers, by name.
    pub(super) exits: Vec<(String, i64)>,
    /// Node that it is bound to; empty if none.
    pub(super) node: String,
    /// The PodGroup that it is scheduled with.
    pub(super) pod_group: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPod {
    metadata: RawMetadata,
    spec: RawPodSpec,
    status: RawPodStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodSpec {
    scheduling_group: RawSchedulingGroup,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSchedulingGroup {
    pod_group_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodStatus {
    container_statuses: Vec<RawContainerStatus>,
    init_container_statuses: Vec<RawContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawContainerStatus {
    name: String,
    state: RawContainerState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawContainerState {
    terminated: Option<RawTerminated>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTerminated {
    exit_code: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMetadata {
    annotations: std::collections::BTreeMap<String, String>,
    owner_references: Vec<RawOwner>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawOwner {
    kind: String,
    name: String,
    uid: String,
    controller: bool,
}

impl PodView {
    pub(super) fn read(pod: &Stored) -> Self {
        let raw: RawPod = read(pod);
        let exits = |of: Vec<RawContainerStatus>| -> Vec<(String, i64)> {
            let ended = of.into_iter().filter_map(|container| {
                let code = container.state.terminated?.exit_code;
                Some((container.name, code))
            });
            ended.collect()
        };
        let mut all = exits(raw.status.container_statuses);
        let inits = exits(raw.status.init_container_statuses);
        let failed = inits.iter().find(|(_, code)| *code != 0);
        let exit_code = all.first().or(failed).map(|(_, code)| *code);
        all.extend(inits);
        let pod_group = raw.spec.scheduling_group.pod_group_name;
        Self::of(pod, raw.metadata, (exit_code, all), pod_group)
    }

    /// Reads a later version of the Pod. Its group never changes, and its container has ended only once the Pod has.
    pub(super) fn after(&self, pod: &Stored) -> Self {
        if pod.has_ended() && self.exit_code.is_none() {
            return Self::read(pod);
        }
        let metadata = pod.metadata().strip_prefix(b"\"metadata\":");
        let metadata = read_text(metadata.expect("a member"));
        let exits = (self.exit_code, self.exits.clone());
        Self::of(pod, metadata, exits, self.pod_group.clone())
    }

    fn of(
        pod: &Stored,
        metadata: RawMetadata,
        (exit_code, exits): (Option<i64>, Vec<(String, i64)>),
        pod_group: Option<String>,
    ) -> Self {
        let mut owners = metadata.owner_references.into_iter();
        let job = owners.find(|owner| owner.controller && owner.kind == "Job");
        let index = (metadata.annotations).get("batch.kubernetes.io/job-completion-index");
        Self {
            job: job.map(|owner| (owner.uid, owner.name)),
            index: index.and_then(|index| index.parse().ok()),
            phase: pod.phase.to_string(),
            is_deleting: pod.deletion.is_some(),
            is_held: pod
                .finalizers
                .iter()
                .any(|name| FINALIZERS.contains(&name.as_ref())),
            exit_code,
            exits,
            node: pod.node.to_string(),
            pod_group,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// Parses an object into the fields of `T`.
pub(super) fn read<'a, T: Deserialize<'a>>(object: &'a Stored) -> T {
    read_text(object.bytes())
}

fn read_text<'a, T: Deserialize<'a>>(json: &'a [u8]) -> T {
    let text = str::from_utf8(json).expect("stored objects are text");
    serde_json::from_str(text).expect("stored objects are JSON")
}

/// Reads a Job.
pub(super) fn job(job: &Stored) -> JobView {
    read(job)
}

/// Reads a CronJob.
pub(super) fn cron_job(cron_job: &Stored) -> CronJobView {
    read(cron_job)
}
