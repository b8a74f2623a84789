//! What judges read of objects: JSON into plain records.
//!
//! Must not: use anything of the controller's own reading.

use std::collections::BTreeSet;

use lakh::embedded::apiserver::Stored;
use serde::Deserialize;

/// By which the controller holds Pods.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct JobView {
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
    pub(super) suspend: bool,
    pub(super) pod_replacement_policy: String,
    pub(super) success_policy: Option<serde_json::Value>,
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
#[serde(default)]
struct ExitCodes {
    values: Vec<i64>,
}

impl JobSpec {
    /// Whether there are failures that count as nothing.
    pub(super) fn ignores_failures(&self) -> bool {
        let mut policies = self.pod_failure_policy.iter();
        policies.any(|policy| policy.rules.iter().any(|rule| rule.action == "Ignore"))
    }

    /// Whether a Pod's exit with this code fails the Job. Scenarios have such a rule first, and with `In`.
    pub(super) fn fails_job(&self, exit_code: i64) -> bool {
        let rules = self.pod_failure_policy.as_ref().map(|policy| &policy.rules);
        let first = rules.and_then(|rules| rules.first());
        first.is_some_and(|rule| {
            let codes = rule.on_exit_codes.as_ref();
            rule.action == "FailJob" && codes.is_some_and(|codes| codes.values.contains(&exit_code))
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
}

impl JobStatus {
    /// The condition of this kind, if it is true.
    pub(super) fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| condition.kind == kind && condition.status == "True")
    }

    pub(super) fn is_finished(&self) -> bool {
        self.condition("Complete")
            .or(self.condition("Failed"))
            .is_some()
    }

    /// Whether it tells how the Job ends.
    pub(super) fn has_verdict(&self) -> bool {
        let announced = self.condition("FailureTarget");
        let announced = announced.or(self.condition("SuccessCriteriaMet"));
        announced.is_some() || self.is_finished()
    }

    pub(super) fn uncounted(&self) -> Uncounted {
        self.uncounted_terminated_pods.clone().unwrap_or_default()
    }
}

/// The indexes of a text like `0,2-4`.
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

/// A Pod, as far as it matters.
#[derive(Clone, Debug, Default)]
pub(super) struct PodView {
    /// The UID of the Job that its controller reference names, and the Job's name.
    pub(super) job: Option<(String, String)>,
    pub(super) index: Option<u64>,
    pub(super) phase: String,
    pub(super) is_deleting: bool,
    pub(super) is_held: bool,
    /// With which its first container ended, if it has.
    pub(super) exit_code: Option<i64>,
    /// The PodGroup that it is scheduled with.
    pub(super) pod_group: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPod {
    metadata: RawMetadata,
    spec: serde_json::Value,
    status: serde_json::Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMetadata {
    annotations: std::collections::BTreeMap<String, String>,
    owner_references: Vec<RawOwner>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawOwner {
    kind: String,
    name: String,
    uid: String,
    controller: bool,
}

impl PodView {
    pub(super) fn read(pod: &Stored) -> Self {
        let raw: RawPod = serde_json::from_slice(pod.bytes()).expect("stored objects are JSON");
        let mut owners = raw.metadata.owner_references.into_iter();
        let job = owners.find(|owner| owner.controller && owner.kind == "Job");
        let index = raw
            .metadata
            .annotations
            .get("batch.kubernetes.io/job-completion-index");
        Self {
            job: job.map(|owner| (owner.uid, owner.name)),
            index: index.and_then(|index| index.parse().ok()),
            phase: pod.phase.to_string(),
            is_deleting: pod.deletion.is_some(),
            is_held: pod.finalizers.iter().any(|name| name == FINALIZER),
            exit_code: raw.status["containerStatuses"][0]["state"]["terminated"]["exitCode"]
                .as_i64(),
            pod_group: raw.spec["schedulingGroup"]["podGroupName"]
                .as_str()
                .map(str::to_owned),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// Reads a Job.
pub(super) fn job(job: &Stored) -> JobView {
    serde_json::from_slice(job.bytes()).expect("stored objects are JSON")
}
