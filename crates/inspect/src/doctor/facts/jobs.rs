//! Reads the relevant fields of a Job. A cluster may have thousands of Jobs, and each may be large, so nothing else is
//! kept.
//!
//! Must not: judge.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::{Deserialize, de::IgnoredAny};

use lakh_model::{Condition, ConditionKind, IndexSet, Job, JobId, Selector, Time};
use lakh_wire::{DecodedJob, decode_job};

/// The fields of a Job that the checks need.
#[derive(Clone, Debug)]
pub(crate) struct JobFacts {
    pub(crate) id: JobId,
    /// `spec.managedBy`.
    pub(crate) manager: Option<CompactString>,
    pub(crate) suspended: bool,
    pub(crate) created: Option<Time>,
    pub(crate) is_deleting: bool,
    /// A controller has written a status.
    pub(crate) has_begun: bool,
    /// When it became Complete or Failed, if it has.
    pub(crate) finished: Option<Time>,
    /// The number of Pods that it wants and does not have.
    pub(crate) missing: u32,
    /// The selector of an unfinished Job: it may adopt matching Pods without an owner.
    pub(crate) selector: Option<Selector>,
    /// The managers that have written status fields of a Job controller, with the time of the last write.
    pub(crate) writers: Vec<(String, Time)>,
}

/// Fields of a Job that the controller does not decode.
#[derive(Deserialize)]
struct JobExtras {
    metadata: JobMetadataExtras,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobMetadataExtras {
    creation_timestamp: Option<String>,
    #[serde(default)]
    managed_fields: Vec<JobWriter>,
}

/// An entry of `managedFields`. Its time is when its manager last changed one of its fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct JobWriter {
    manager: String,
    subresource: String,
    time: Option<String>,
    #[serde(rename = "fieldsV1")]
    fields: Option<WrittenFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenFields {
    #[serde(rename = "f:status")]
    status: BTreeMap<String, IgnoredAny>,
}

/// The status fields that only a Job controller writes. Kueue writes the start time, and other clients write
/// conditions.
const COUNTS: [&str; 9] = [
    "f:active",
    "f:completedIndexes",
    "f:completionTime",
    "f:failed",
    "f:failedIndexes",
    "f:ready",
    "f:succeeded",
    "f:terminating",
    "f:uncountedTerminatedPods",
];

impl JobWriter {
    fn is_job_controller(&self) -> bool {
        let counts = |field: &String| COUNTS.contains(&field.as_str());
        let fields = self.fields.as_ref();
        self.subresource == "status" && fields.is_none_or(|it| it.status.keys().any(counts))
    }
}

impl JobFacts {
    /// Reads a Job.
    pub(crate) fn read(json: &str) -> Result<Self, serde_json::Error> {
        let DecodedJob { job, selector, .. } = decode_job(json)?;
        let JobExtras { metadata } = serde_json::from_str(json)?;
        let writers = metadata.managed_fields.into_iter();
        let writers = writers.filter(JobWriter::is_job_controller);
        let finished = finished(&job);
        Ok(Self {
            id: job.id(),
            suspended: job.spec.suspend,
            created: time(metadata.creation_timestamp.as_deref()),
            is_deleting: job.deleting,
            has_begun: job.status.has_begun(),
            finished,
            missing: missing(&job),
            selector: selector
                .filter(|_| finished.is_none())
                .map(|it| Selector::clone(&it)),
            writers: writers
                .filter_map(|writer| Some((writer.manager, time(writer.time.as_deref())?)))
                .collect(),
            manager: job.spec.managed_by,
        })
    }

    /// Returns true if the Job has not finished.
    pub(crate) fn is_at_work(&self) -> bool {
        self.finished.is_none()
    }
}

/// Returns when a Job finished. A condition without a time counts as old.
fn finished(job: &Job) -> Option<Time> {
    let since = |end: &Condition| end.last_transition.unwrap_or_default();
    let ends = [ConditionKind::Complete, ConditionKind::Failed];
    ends.into_iter()
        .find_map(|end| job.status.true_condition(end).map(since))
}

/// Returns the number of Pods that a Job wants to run at once and does not have.
fn missing(job: &Job) -> u32 {
    let (spec, status) = (&job.spec, &job.status);
    if spec.suspend || status.is_finished() || job.deleting {
        return 0;
    }
    let left = spec.completions.map_or(u32::MAX, |completions| {
        let failed = status.failed_indexes.as_deref();
        let failed = failed.map_or(0, |text| IndexSet::parse(text, completions).len());
        completions.saturating_sub(status.succeeded.saturating_add(failed))
    });
    spec.parallelism.min(left).saturating_sub(status.active)
}

pub(super) fn time(text: Option<&str>) -> Option<Time> {
    text.and_then(Time::parse_rfc3339)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(spec: &str, status: &str) -> u32 {
        let json = format!(
            r#"{{"metadata":{{"uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9","resourceVersion":"7"}},
            "spec":{{{spec}"template":{{}}}},"status":{{{status}}}}}"#
        );
        JobFacts::read(&json).expect("a good Job").missing
    }

    #[test]
    fn managers_of_counts_are_job_controllers_and_others_are_not() {
        let writer = |manager: &str, status: &str| {
            format!(
                r#"{{"manager":"{manager}","operation":"Update","subresource":"status","time":"2026-01-01T00:00:00Z",
                "fieldsV1":{{"f:status":{{{status}}}}}}}"#
            )
        };
        let managed = [
            writer("kueue", r#""f:startTime":{}"#),
            writer(
                "operator",
                r#""f:conditions":{"k:{\"type\":\"Third\"}":{".":{}}}"#,
            ),
            writer("lakh", r#""f:ready":{},"f:startTime":{}"#),
        ];
        let json = format!(
            r#"{{"metadata":{{"uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9","resourceVersion":"7",
            "managedFields":[{}]}},"spec":{{"template":{{}}}},"status":{{}}}}"#,
            managed.join(",")
        );
        let facts = JobFacts::read(&json).expect("a good Job");
        let writers: Vec<&str> = facts.writers.iter().map(|(who, _)| who.as_str()).collect();
        assert_eq!(writers, ["lakh"]);
    }

    #[test]
    fn pods_are_missing_where_fewer_are_active_than_are_wanted() {
        assert_eq!(missing("", ""), 1);
        assert_eq!(missing(r#""parallelism":5,"completions":9,"#, ""), 5);
        assert_eq!(
            missing(
                r#""parallelism":5,"completions":9,"#,
                r#""active":2,"succeeded":3"#
            ),
            3
        );
        // As many as are left; two of the indexes have failed for good.
        let indexed = r#""parallelism":5,"completions":9,"completionMode":"Indexed","#;
        let status = r#""active":1,"succeeded":4,"failedIndexes":"2,7""#;
        assert_eq!(missing(indexed, status), 2);
        assert_eq!(missing(r#""parallelism":5,"suspend":true,"#, ""), 0);
        let over = r#""conditions":[{"type":"Failed","status":"True"}]"#;
        assert_eq!(missing(r#""parallelism":5,"#, over), 0);
    }
}
