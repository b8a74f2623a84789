//! Decodes a Job with details that users need and the controller does not read.
//!
//! Must not: judge.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use lakh_model::{Condition, ConditionKind, IndexSet, Job, JobStatus, Selector, Time};
use lakh_wire::{DecodedJob, decode_job};

/// A Job and further fields of its object, for display.
#[derive(Clone, Debug)]
pub(crate) struct JobDetails {
    pub(crate) job: Job,
    /// The selector of its Pods.
    pub(crate) selector: Option<Selector>,
    pub(crate) created: Option<Time>,
    /// Time of its deletion request.
    pub(crate) deletion: Option<Time>,
    /// The finalizers that keep it.
    pub(crate) finalizers: Vec<String>,
    /// Its queue, if a queue manager that suspends Jobs has one for it.
    pub(crate) queue: Option<String>,
    /// The last writer of `spec.suspend`.
    pub(crate) suspender: Option<JobWriterDetails>,
    /// The last writer of its status.
    pub(crate) status_writer: Option<JobWriterDetails>,
    /// The service account of its Pods.
    pub(crate) service_account: String,
}

/// A manager that has written fields of a Job, from `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobWriterDetails {
    pub(crate) manager: String,
    pub(crate) at: Option<Time>,
}

/// The label that assigns Jobs to Kueue's queues.
const QUEUE: &str = "kueue.x-k8s.io/queue-name";

#[derive(Deserialize)]
struct RawJobDetails {
    metadata: RawJobDetailsMetadata,
    #[serde(default)]
    spec: RawJobDetailsSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawJobDetailsMetadata {
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
    finalizers: Vec<String>,
    labels: BTreeMap<String, String>,
    managed_fields: Vec<RawManagedFields>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawManagedFields {
    manager: String,
    subresource: String,
    time: Option<String>,
    fields_v1: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawJobDetailsSpec {
    template: RawJobTemplateDetails,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawJobTemplateDetails {
    spec: RawJobTemplateSpecDetails,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawJobTemplateSpecDetails {
    service_account_name: Option<String>,
}

impl JobDetails {
    /// Decodes a Job's JSON.
    pub(crate) fn read(json: &str) -> Result<Self, serde_json::Error> {
        let DecodedJob { job, selector, .. } = decode_job(json)?;
        let RawJobDetails { metadata, spec } = serde_json::from_str(json)?;
        let time = |text: &Option<String>| text.as_deref().and_then(Time::parse_rfc3339);
        let writers = metadata.managed_fields.iter();
        let last = |wanted: &dyn Fn(&&RawManagedFields) -> bool| {
            let last = writers
                .clone()
                .filter(wanted)
                .max_by_key(|it| time(&it.time));
            last.map(|it| JobWriterDetails {
                manager: it.manager.clone(),
                at: time(&it.time),
            })
        };
        let suspends = |it: &&RawManagedFields| !it.fields_v1["f:spec"]["f:suspend"].is_null();
        let service_account = spec.template.spec.service_account_name;
        Ok(Self {
            selector: selector.map(|it| Selector::clone(&it)),
            created: time(&metadata.creation_timestamp),
            deletion: time(&metadata.deletion_timestamp),
            suspender: last(&suspends),
            status_writer: last(&|it| it.subresource == "status"),
            queue: metadata.labels.get(QUEUE).cloned(),
            finalizers: metadata.finalizers,
            service_account: service_account.unwrap_or_else(|| "default".to_owned()),
            job,
        })
    }

    pub(crate) fn status(&self) -> &JobStatus {
        &self.job.status
    }

    /// Returns the condition with which it ended, if it has.
    pub(crate) fn end(&self) -> Option<&Condition> {
        let ends = [ConditionKind::Complete, ConditionKind::Failed];
        let mut ends = ends.into_iter();
        ends.find_map(|end| self.status().true_condition(end))
    }

    /// Returns the condition that decides its outcome before its last Pod has ended.
    pub(crate) fn verdict(&self) -> Option<&Condition> {
        let verdicts = [
            ConditionKind::SuccessCriteriaMet,
            ConditionKind::FailureTarget,
        ];
        let mut verdicts = verdicts.into_iter();
        verdicts.find_map(|verdict| self.status().true_condition(verdict))
    }

    /// Returns the indexes that have succeeded.
    pub(crate) fn completed_indexes(&self) -> IndexSet {
        self.indexes(&self.status().completed_indexes)
    }

    /// Returns the indexes that have failed for good.
    pub(crate) fn failed_indexes(&self) -> IndexSet {
        self.indexes(self.status().failed_indexes.as_deref().unwrap_or_default())
    }

    fn indexes(&self, text: &str) -> IndexSet {
        IndexSet::parse(text, self.job.spec.completions.unwrap_or(u32::MAX))
    }

    /// Returns the number of completions still needed, if `completions` is set.
    pub(crate) fn left(&self) -> Option<u32> {
        let completions = self.job.spec.completions?;
        let failed = match self.job.spec.per_index.is_some() {
            true => self.failed_indexes().len(),
            false => 0,
        };
        let ended = self.status().succeeded.saturating_add(failed);
        Some(completions.saturating_sub(ended))
    }

    /// Returns the number of Pods that should run at once now.
    pub(crate) fn wanted_at_once(&self) -> u32 {
        let parallelism = self.job.spec.parallelism;
        self.left()
            .map_or(parallelism, |left| parallelism.min(left))
    }

    /// Returns true if a controller has written a status that shows that the Job has started.
    pub(crate) fn has_begun(&self) -> bool {
        self.status().has_begun()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_writer_of_suspend_has_suspended_the_job() {
        let json = r#"{"metadata":{"name":"j","uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
            "resourceVersion":"7","managedFields":[
            {"manager":"kubectl-create","time":"2026-11-26T02:00:00Z","fieldsV1":{"f:spec":{"f:suspend":{}}}},
            {"manager":"kueue","time":"2026-11-26T02:30:00Z","fieldsV1":{"f:spec":{"f:suspend":{}}}},
            {"manager":"ann","time":"2026-11-26T02:40:00Z","fieldsV1":{"f:spec":{"f:parallelism":{}}}},
            {"manager":"lakh","subresource":"status","time":"2026-11-26T02:50:00Z","fieldsV1":{}}]},
            "spec":{"completions":9,"parallelism":4,"suspend":true,"completionMode":"Indexed",
            "backoffLimitPerIndex":1,"template":{"spec":{"serviceAccountName":"s"}}},
            "status":{"succeeded":5,"failedIndexes":"2,7"}}"#;
        let job = JobDetails::read(json).expect("a good Job");
        let name = |writer: &Option<JobWriterDetails>| writer.clone().map(|it| it.manager);
        assert_eq!(name(&job.suspender).as_deref(), Some("kueue"));
        assert_eq!(name(&job.status_writer).as_deref(), Some("lakh"));
        assert_eq!((job.left(), job.wanted_at_once()), (Some(2), 2));
        assert_eq!(job.service_account, "s");
    }
}
