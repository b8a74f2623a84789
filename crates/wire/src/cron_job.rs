//! Decodes CronJobs, and builds their Jobs and status patches.

use std::{sync::Arc, time::Duration};

use compact_str::CompactString;
use k8s_openapi::api::core::v1::ObjectReference;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use lakh_model::{
    ActiveJob, ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus, JobKey, Time, Uid,
};

use super::{metadata::RawMetadata, ownership, timestamp::time};

/// The annotation with a Job's scheduled time.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The maximum length of a schedule in bytes. It is kept in memory, and the API server does not limit it. A schedule
/// that lists every minute, hour and day by number has 350.
const SCHEDULE_MAX: usize = 4 << 10;

/// A decoded CronJob and the raw JSON of its Job template.
#[derive(Clone, Debug)]
pub struct DecodedCronJob {
    /// The fields that decisions need.
    pub cron_job: CronJob,
    /// `spec.jobTemplate` with every field that the server sent.
    pub template: Arc<RawValue>,
}

/// Decodes a CronJob's JSON.
pub fn decode_cron_job(json: &str) -> Result<DecodedCronJob, serde_json::Error> {
    let object: RawCronJob = serde_json::from_str(json)?;
    let template: RawJobTemplate<'_> = serde_json::from_str(object.spec.job_template.get())?;
    let job_spec = template.spec.map_or("{}", RawValue::get);
    let job_spec: RawJobTemplateSpec = serde_json::from_str(job_spec)?;
    let odd = || serde::de::Error::custom("metadata.creationTimestamp is odd");
    if object.spec.schedule.len() > SCHEDULE_MAX {
        let message = format!("spec.schedule has more than {SCHEDULE_MAX} bytes");
        return Err(serde::de::Error::custom(message));
    }
    let (meta, spec) = (object.metadata, object.spec);
    let (uid, resource_version) = meta.identity()?;
    let cron_job = CronJob {
        key: meta.key(),
        uid,
        resource_version,
        deleting: meta.deletion_timestamp.is_some(),
        created: time(meta.creation_timestamp).ok_or_else(odd)?,
        spec: CronJobSpec {
            schedule: spec.schedule,
            time_zone: spec.time_zone,
            starting_deadline: spec.starting_deadline_seconds.map(Duration::from_secs),
            concurrency: ConcurrencyPolicy::parse(&spec.concurrency_policy),
            suspend: spec.suspend.unwrap_or(false),
            successful_jobs: spec.successful_jobs_history_limit,
            failed_jobs: spec.failed_jobs_history_limit,
            managed_by: job_spec.managed_by,
        },
        status: CronJobStatus {
            active: object.status.active.into_iter().map(active).collect(),
            last_schedule: time(object.status.last_schedule_time),
            last_successful: time(object.status.last_successful_time),
        },
    };
    Ok(DecodedCronJob {
        cron_job,
        template: spec.job_template.into(),
    })
}

/// A reference that no API server could have generated becomes one to a Job that does not exist.
fn active(reference: ObjectReference) -> ActiveJob {
    let (uid, version) = (reference.uid, reference.resource_version);
    ActiveJob {
        name: reference.name.unwrap_or_default().into(),
        uid: uid.as_deref().and_then(Uid::parse).unwrap_or_default(),
        resource_version: version.and_then(|text| text.parse().ok()).unwrap_or(0),
    }
}

/// The patch that sets a CronJob's status, provided that the CronJob still has this resourceVersion.
pub fn cron_job_status_patch(
    key: &JobKey,
    uid: Uid,
    version: u64,
    status: &CronJobStatus,
) -> Vec<u8> {
    let active: Vec<Value> = status
        .active
        .iter()
        .map(|job| {
            json!({
                "apiVersion": "batch/v1",
                "kind": "Job",
                "namespace": key.namespace.as_str(),
                "name": job.name.as_str(),
                "uid": job.uid.to_string(),
                "resourceVersion": job.resource_version.to_string(),
            })
        })
        .collect();
    let body = json!({
        "metadata": {"uid": uid.to_string(), "resourceVersion": version.to_string()},
        "status": {
            "active": (!active.is_empty()).then_some(active),
            "lastScheduleTime": status.last_schedule.map(Time::to_rfc3339),
            "lastSuccessfulTime": status.last_successful.map(Time::to_rfc3339),
        },
    });
    body.to_string().into_bytes()
}

/// The body of a CronJob's Job: labels, annotations and spec are those of the template.
pub fn job_of_cron_job(
    cron_job: &CronJob,
    template: &RawValue,
    name: &str,
    scheduled: &str,
) -> Result<Vec<u8>, serde_json::Error> {
    let template: RawJobTemplate<'_> = serde_json::from_str(template.get())?;
    let spec = template.spec.map_or("{}", RawValue::get);
    let CronJob { key, uid, .. } = cron_job;
    let mut annotations = template.metadata.annotations;
    annotations.insert(SCHEDULED.to_owned(), scheduled.into());
    let metadata = json!({
        "name": name,
        "namespace": key.namespace.as_str(),
        "labels": template.metadata.labels,
        "annotations": annotations,
        "ownerReferences": [ownership::controller("CronJob", key, *uid)],
    });
    let body =
        format!(r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{metadata},"spec":{spec}}}"#);
    Ok(body.into_bytes())
}

#[derive(Deserialize)]
struct RawCronJob {
    metadata: RawMetadata,
    spec: RawCronJobSpec,
    #[serde(default)]
    status: RawCronJobStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCronJobSpec {
    #[serde(default)]
    schedule: String,
    time_zone: Option<String>,
    starting_deadline_seconds: Option<u64>,
    #[serde(default)]
    concurrency_policy: String,
    suspend: Option<bool>,
    successful_jobs_history_limit: Option<u32>,
    failed_jobs_history_limit: Option<u32>,
    job_template: Box<RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawJobTemplate<'a> {
    metadata: RawJobTemplateMetadata,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawJobTemplateMetadata {
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawJobTemplateSpec {
    managed_by: Option<CompactString>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawCronJobStatus {
    active: Vec<ObjectReference>,
    last_schedule_time: Option<String>,
    last_successful_time: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_its_templates_fields_and_its_owner() {
        let json = r#"{"metadata":{"name":"c","namespace":"d","creationTimestamp":"2026-01-01T00:00:00Z",
            "uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9","resourceVersion":"7"},
            "spec":{"schedule":"* * * * *","jobTemplate":{"metadata":{"name":"ignored","labels":{"a":"b"},
            "annotations":{"x":"y","batch.kubernetes.io/cronjob-scheduled-timestamp":"old"}},
            "spec":{"managedBy":"e.com/f","newField":1}}}}"#;
        let decoded = decode_cron_job(json).expect("a good CronJob");
        assert_eq!(decoded.cron_job.spec.managed_by.as_deref(), Some("e.com/f"));
        let body = job_of_cron_job(
            &decoded.cron_job,
            &decoded.template,
            "c-1",
            "2026-01-01T00:01:00Z",
        )
        .expect("a Job");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["spec"], json!({"managedBy": "e.com/f", "newField": 1}));
        let metadata = &body["metadata"];
        assert_eq!(metadata["name"], "c-1");
        assert_eq!(metadata["labels"], json!({"a": "b"}));
        assert_eq!(
            metadata["annotations"],
            json!({"x": "y", SCHEDULED: "2026-01-01T00:01:00Z"})
        );
        let uid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
        assert_eq!(
            metadata["ownerReferences"],
            json!([{
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "name": "c",
                "uid": uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }])
        );
        assert_eq!(metadata.get("generateName"), None);
    }

    #[test]
    fn a_schedule_without_end_is_not_kept() {
        let read = |schedule: &str| {
            let json = format!(
                r#"{{"metadata":{{"creationTimestamp":"2026-01-01T00:00:00Z","resourceVersion":"7",
                "uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"}},
                "spec":{{"schedule":"{schedule}","jobTemplate":{{}}}}}}"#
            );
            decode_cron_job(&json)
        };
        assert!(read("0,1,2 * * * *").is_ok());
        assert!(read(&format!("0{} * * * *", ",1".repeat(1 << 12))).is_err());
    }

    #[test]
    fn a_status_is_written_whole_on_top_of_its_version() {
        let key = JobKey {
            namespace: "d".into(),
            name: "c".into(),
        };
        let (own, job) = (Uid::from_u128(1), Uid::from_u128(2));
        let mut status = CronJobStatus {
            active: vec![ActiveJob {
                name: "c-1".into(),
                uid: job,
                resource_version: 9,
            }],
            last_schedule: Some(Time::from_millis(60_999)),
            last_successful: None,
        };
        let written = |status: &CronJobStatus| -> Value {
            let body = cron_job_status_patch(&key, own, 7, status);
            serde_json::from_slice(&body).expect("JSON")
        };
        let version = json!({"uid": own.to_string(), "resourceVersion": "7"});
        assert_eq!(
            written(&status),
            json!({
                "metadata": version,
                "status": {
                    "active": [{
                        "apiVersion": "batch/v1",
                        "kind": "Job",
                        "namespace": "d",
                        "name": "c-1",
                        "uid": job.to_string(),
                        "resourceVersion": "9",
                    }],
                    "lastScheduleTime": "1970-01-01T00:01:00Z",
                    "lastSuccessfulTime": null,
                },
            })
        );
        // No part of the list may remain.
        status.active.clear();
        assert_eq!(written(&status)["status"]["active"], Value::Null);
    }
}
