//! Decodes a Job: the fields that lakh acts on, and the Pod template as raw JSON.

use std::{sync::Arc, time::Duration};

use compact_str::CompactString;
use k8s_openapi::{
    api::batch::v1::{PodFailurePolicy, SuccessPolicy, UncountedTerminatedPods},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use lakh_model::{
    ChildJob, CompletionMode, Condition, ConditionKind, Job, JobAnnotations, JobSpec, JobStatus,
    PerIndexLimit, PodReplacement, RestartPolicy, Selector, Time, Uid, Uncounted,
};

use super::{
    labels::selector,
    metadata::RawMetadata,
    policy::{failure_policy, success_policy},
    timestamp::time,
};

/// The API server's default for `backoffLimit` when `backoffLimitPerIndex` is set.
const NO_LIMIT: u32 = i32::MAX as u32;

/// A decoded Job and the raw JSON of its Pod template.
#[derive(Clone, Debug)]
pub struct DecodedJob {
    /// The fields that decisions need.
    pub job: Job,
    /// `spec.template` with every field that the server sent. None if the Job may not create Pods: it is suspended,
    /// finished or being deleted.
    pub template: Option<Arc<RawValue>>,
    /// The size of `spec.template` in bytes.
    pub template_bytes: usize,
    /// The approximate size in bytes of its policies and selector, which are kept as long as the Job exists.
    pub policy_bytes: usize,
    /// Its selector; none if the server sent none.
    pub selector: Option<Arc<Selector>>,
    /// Its controlling owner.
    pub controller: Option<ControllerReference>,
    /// Its scheduled time, if it belongs to a CronJob and has the annotation.
    pub scheduled: Option<Time>,
    /// The extra features that it requests; most Jobs request none.
    pub annotations: Option<Box<JobAnnotations>>,
}

/// The owner reference of an object's controller.
#[doc(alias = "GetControllerOf")]
#[derive(Clone, Debug)]
pub struct ControllerReference {
    /// Its kind.
    pub kind: CompactString,
    /// Its name.
    pub name: CompactString,
    /// Its UID.
    pub uid: Uid,
}

/// The fields of a Job that a CronJob's controller needs.
pub fn child_job(decoded: &DecodedJob) -> ChildJob {
    let (job, status) = (&decoded.job, &decoded.job.status);
    let ends = [ConditionKind::Complete, ConditionKind::Failed];
    let mut conditions = status
        .conditions
        .iter()
        .filter(|condition| condition.is_true());
    let end = conditions.find_map(|condition| ends.into_iter().find(|end| condition.is(*end)));
    ChildJob {
        name: job.key.name.clone(),
        uid: job.uid,
        scheduled: decoded.scheduled,
        end,
        complete: status.true_condition(ConditionKind::Complete).is_some(),
        start: status.start_time,
        completion: status.completion_time,
    }
}

/// Decodes a Job's JSON.
pub fn decode_job(json: &str) -> Result<DecodedJob, serde_json::Error> {
    let object: RawJob = serde_json::from_str(json)?;
    let restarts: RawPodTemplate = serde_json::from_str(object.spec.template.get())?;
    let meta = object.metadata;
    let (uid, resource_version) = meta.identity()?;
    let scheduled = meta.annotations.scheduled.as_deref();
    let job = Job {
        key: meta.key(),
        uid,
        resource_version,
        generation: meta.generation,
        created: meta
            .creation_timestamp
            .as_deref()
            .and_then(Time::parse_rfc3339),
        deleting: meta.deletion_timestamp.is_some(),
        spec: spec(&object.spec, &restarts),
        status: status(object.status),
    };
    let makes_pods = !(job.spec.suspend || job.deleting || job.status.is_finished());
    let template_bytes = object.spec.template.get().len();
    let policy_bytes = policy_bytes(&object.spec);
    Ok(DecodedJob {
        job,
        selector: object.spec.selector.map(|it| Arc::new(selector(it))),
        controller: meta.controller().and_then(controller),
        scheduled: scheduled.and_then(Time::parse_rfc3339),
        annotations: meta.annotations.job_annotations(),
        template: makes_pods.then(|| object.spec.template.into()),
        template_bytes,
        policy_bytes,
    })
}

fn policy_bytes(spec: &RawJobSpec) -> usize {
    let success = spec.success_policy.iter().flat_map(|policy| &policy.rules);
    let success = success.filter_map(|rule| rule.succeeded_indexes.as_ref());
    let failure = spec.pod_failure_policy.iter();
    let failure = failure.flat_map(|policy| &policy.rules).map(|rule| {
        let codes = rule.on_exit_codes.as_ref();
        let codes = codes.map_or(0, |codes| codes.values.len() * size_of::<i32>());
        let conditions = rule.on_pod_conditions.iter().flatten();
        codes + conditions.map(|it| it.type_.len()).sum::<usize>()
    });
    let selector = spec.selector.iter().map(|selector| {
        let labels = selector.match_labels.iter().flatten();
        let labels: usize = labels.map(|(key, value)| key.len() + value.len()).sum();
        let terms = selector.match_expressions.iter().flatten();
        let values = terms.flat_map(|term| term.values.iter().flatten().chain([&term.key]));
        labels
            + values
                .map(|text| size_of::<CompactString>() + text.len())
                .sum::<usize>()
    });
    let success = success.map(String::len);
    success.chain(failure).chain(selector).sum()
}

fn controller(owner: &OwnerReference) -> Option<ControllerReference> {
    Some(ControllerReference {
        uid: Uid::parse(&owner.uid)?,
        kind: owner.kind.as_str().into(),
        name: owner.name.as_str().into(),
    })
}

fn spec(spec: &RawJobSpec, template: &RawPodTemplate) -> JobSpec {
    let parallelism = spec.parallelism.unwrap_or(1);
    let completions = match (spec.completions, spec.parallelism) {
        (None, None) => Some(1),
        (completions, _) => completions,
    };
    let mode = spec.completion_mode.as_deref();
    let mode = mode.map_or(CompletionMode::NonIndexed, CompletionMode::parse);
    let indexes = completions.filter(|_| mode == CompletionMode::Indexed);
    let per_index = spec
        .backoff_limit_per_index
        .filter(|_| indexes.is_some())
        .map(|backoff_limit| PerIndexLimit {
            backoff_limit,
            max_failed_indexes: spec.max_failed_indexes,
        });
    let backoff_limit = if per_index.is_some() { NO_LIMIT } else { 6 };
    JobSpec {
        parallelism,
        completions,
        mode,
        backoff_limit: spec.backoff_limit.unwrap_or(backoff_limit),
        active_deadline: spec.active_deadline_seconds.map(Duration::from_secs),
        ttl_after_finished: spec.ttl_seconds_after_finished.map(Duration::from_secs),
        suspend: spec.suspend.unwrap_or(false),
        restart_policy: match template.spec.restart_policy.as_deref() {
            Some("OnFailure") => RestartPolicy::OnFailure,
            _ => RestartPolicy::Never,
        },
        pod_replacement: match spec.pod_replacement_policy.as_deref() {
            Some("Failed") => PodReplacement::Failed,
            _ if spec.pod_failure_policy.is_some() => PodReplacement::Failed,
            _ => PodReplacement::TerminatingOrFailed,
        },
        pod_failure: spec.pod_failure_policy.as_ref().map(failure_policy),
        per_index,
        success: spec
            .success_policy
            .as_ref()
            .zip(indexes)
            .map(|(policy, completions)| success_policy(policy, completions)),
        managed_by: spec.managed_by.clone(),
        own_scheduling_group: template.spec.scheduling_group.is_some(),
    }
}

fn status(status: RawJobStatus) -> JobStatus {
    JobStatus {
        active: status.active,
        ready: status.ready,
        terminating: status.terminating,
        succeeded: status.succeeded,
        failed: status.failed,
        completed_indexes: status.completed_indexes.into(),
        failed_indexes: status.failed_indexes.map(Into::into),
        uncounted: status.uncounted_terminated_pods.map(uncounted),
        conditions: status.conditions.into_iter().map(condition).collect(),
        start_time: time(status.start_time),
        completion_time: time(status.completion_time),
    }
}

fn uncounted(pods: UncountedTerminatedPods) -> Uncounted {
    let read = |texts: Option<Vec<String>>| {
        let texts = texts.unwrap_or_default();
        let uids: Vec<Uid> = texts.iter().filter_map(|text| Uid::parse(text)).collect();
        let strange = u32::try_from(texts.len() - uids.len()).unwrap_or(u32::MAX);
        (uids, strange)
    };
    let (succeeded, strange_succeeded) = read(pods.succeeded);
    let (failed, strange_failed) = read(pods.failed);
    Uncounted {
        succeeded,
        failed,
        strange_succeeded,
        strange_failed,
    }
}

fn condition(condition: RawJobCondition) -> Condition {
    Condition {
        kind: condition.kind,
        status: condition.status,
        reason: condition.reason,
        message: condition.message,
        last_probe: time(condition.last_probe_time),
        last_transition: time(condition.last_transition_time),
    }
}

#[derive(Deserialize)]
struct RawJob {
    metadata: RawMetadata,
    spec: RawJobSpec,
    #[serde(default)]
    status: RawJobStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawJobSpec {
    parallelism: Option<u32>,
    completions: Option<u32>,
    completion_mode: Option<String>,
    backoff_limit: Option<u32>,
    active_deadline_seconds: Option<u64>,
    ttl_seconds_after_finished: Option<u64>,
    suspend: Option<bool>,
    pod_replacement_policy: Option<String>,
    managed_by: Option<CompactString>,
    pod_failure_policy: Option<PodFailurePolicy>,
    backoff_limit_per_index: Option<u32>,
    max_failed_indexes: Option<u32>,
    success_policy: Option<SuccessPolicy>,
    selector: Option<LabelSelector>,
    template: Box<RawValue>,
}

#[derive(Deserialize)]
struct RawPodTemplate {
    #[serde(default)]
    spec: RawPodTemplateSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodTemplateSpec {
    restart_policy: Option<String>,
    scheduling_group: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawJobStatus {
    active: u32,
    ready: Option<u32>,
    terminating: Option<u32>,
    succeeded: u32,
    failed: u32,
    completed_indexes: String,
    failed_indexes: Option<String>,
    uncounted_terminated_pods: Option<UncountedTerminatedPods>,
    conditions: Vec<RawJobCondition>,
    start_time: Option<String>,
    completion_time: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawJobCondition {
    #[serde(rename = "type")]
    kind: CompactString,
    status: CompactString,
    reason: CompactString,
    message: String,
    last_probe_time: Option<String>,
    last_transition_time: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use lakh_model::SuccessRule;

    #[test]
    fn a_job_with_omitted_fields_is_decoded() {
        let json = r#"{"metadata":{"name":"pi","namespace":"default",
            "uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9","resourceVersion":"7","generation":1},
            "spec":{"template":{"spec":{"restartPolicy":"OnFailure","newField":1}}}}"#;
        let decoded = decode_job(json).expect("a good Job");
        let spec = &decoded.job.spec;
        assert_eq!(
            (spec.parallelism, spec.completions, spec.backoff_limit),
            (1, Some(1), 6)
        );
        assert_eq!(spec.restart_policy, RestartPolicy::OnFailure);
        let template = decoded.template.expect("it makes Pods");
        assert!(template.get().contains("newField"));
        assert_eq!(decoded.job.status, JobStatus::default());
    }

    #[test]
    fn only_a_job_that_makes_pods_brings_its_template() {
        let brings = |more: &str, spec: &str, status: &str| {
            let json = format!(
                r#"{{"metadata":{{"uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9","resourceVersion":"7"{more}}},
                "spec":{{{spec}"template":{{"x":1}}}},"status":{{{status}}}}}"#
            );
            let decoded = decode_job(&json).expect("a good Job");
            assert_eq!(decoded.template_bytes, 7);
            decoded.template.is_some()
        };
        assert!(brings("", "", ""));
        assert!(!brings("", r#""suspend":true,"#, ""));
        assert!(!brings(
            r#","deletionTimestamp":"2026-01-01T00:00:00Z""#,
            "",
            ""
        ));
        let failed = r#""conditions":[{"type":"Failed","status":"True"}]"#;
        assert!(!brings("", "", failed));
        let target = r#""conditions":[{"type":"FailureTarget","status":"True"}]"#;
        assert!(brings("", "", target));
    }

    #[test]
    fn for_a_cron_job_only_its_conditions_end_a_job() {
        let child = |more: &str, spec: &str, status: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"j","uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
                "resourceVersion":"7"{more}}},"spec":{{{spec}"template":{{}}}},
                "status":{{{status}}}}}"#
            );
            child_job(&decode_job(&json).expect("a good Job"))
        };
        let conditions = |list: &str| format!(r#""conditions":[{list}]"#);
        let is = |kind: &str| format!(r#"{{"type":"{kind}","status":"True"}}"#);
        // Being deleted, suspended, or managed by another controller: the Job is still active.
        let going = r#","deletionTimestamp":"2026-01-01T00:00:00Z""#;
        assert_eq!(child(going, "", "").end, None);
        let suspended = conditions(&is("Suspended"));
        assert_eq!(child("", r#""suspend":true,"#, &suspended).end, None);
        assert_eq!(child("", r#""managedBy":"e.com/f","#, "").end, None);
        for early in ["SuccessCriteriaMet", "FailureTarget"] {
            assert_eq!(child("", "", &conditions(&is(early))).end, None);
        }
        let not = r#"{"type":"Complete","status":"False"}"#;
        assert_eq!(child("", "", &conditions(not)).end, None);
        // The first true condition of the list decides.
        let both = conditions(&format!("{},{}", is("Failed"), is("Complete")));
        let ended = child("", r#""managedBy":"e.com/f","#, &both);
        assert_eq!(
            (ended.end, ended.complete),
            (Some(ConditionKind::Failed), true)
        );
        let times = r#""startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:09Z""#;
        let done = child("", "", &format!("{times},{}", conditions(&is("Complete"))));
        assert_eq!(
            (done.end, done.complete),
            (Some(ConditionKind::Complete), true)
        );
        assert_eq!(done.start, Time::parse_rfc3339("2026-01-01T00:00:00Z"));
        assert_eq!(done.completion, Time::parse_rfc3339("2026-01-01T00:00:09Z"));
    }

    #[test]
    fn a_work_queue_has_no_completions() {
        let json = r#"{"metadata":{"uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
            "resourceVersion":"7"},"spec":{"parallelism":3,"template":{}}}"#;
        assert_eq!(
            decode_job(json).expect("a good Job").job.spec.completions,
            None
        );
    }

    fn spec_of(spec: &str) -> JobSpec {
        let json = format!(
            r#"{{"metadata":{{"uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
            "resourceVersion":"7"}},"spec":{{{spec},"template":{{}}}}}}"#
        );
        decode_job(&json).expect("a good Job").job.spec
    }

    #[test]
    fn policies_change_defaults() {
        let spec = spec_of(
            r#""completionMode":"Indexed","completions":5,"backoffLimitPerIndex":1,
            "maxFailedIndexes":2,"podFailurePolicy":{"rules":[]},
            "successPolicy":{"rules":[{"succeededIndexes":"3-9"}]}"#,
        );
        assert_eq!(spec.pod_replacement, PodReplacement::Failed);
        assert_eq!(spec.backoff_limit, NO_LIMIT);
        let limit = PerIndexLimit {
            backoff_limit: 1,
            max_failed_indexes: Some(2),
        };
        assert_eq!(spec.per_index, Some(limit));
        let rules = spec.success.expect("a success policy").rules;
        assert_eq!(rules, [SuccessRule::new(Some("3,4"), None, 5)]);
    }

    #[test]
    fn policies_for_indexes_need_indexes() {
        let spec =
            spec_of(r#""backoffLimitPerIndex":1,"successPolicy":{"rules":[{"succeededCount":1}]}"#);
        assert_eq!((spec.per_index, spec.success), (None, None));
        assert_eq!(spec.backoff_limit, 6);
        assert_eq!(spec.pod_replacement, PodReplacement::TerminatingOrFailed);
    }

    #[test]
    fn entries_that_are_no_uids_are_counted() {
        let pods = UncountedTerminatedPods {
            succeeded: Some(vec!["a".into()]),
            failed: None,
        };
        assert_eq!(uncounted(pods).strange_succeeded, 1);
    }
}
