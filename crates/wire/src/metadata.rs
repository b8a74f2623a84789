//! Decodes the metadata of Jobs, CronJobs and gang objects.
//!
//! Must not: decode metadata of Pods, which are too many to keep unneeded fields.

use compact_str::CompactString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::{Deserialize, de::Error as _};

use lakh_model::{AnnotationSwitch, JobAnnotations, JobKey, Uid};

/// The metadata of an object.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawMetadata {
    pub(super) name: CompactString,
    pub(super) namespace: CompactString,
    uid: String,
    resource_version: String,
    pub(super) generation: i64,
    pub(super) creation_timestamp: Option<String>,
    pub(super) deletion_timestamp: Option<String>,
    owner_references: Vec<OwnerReference>,
    pub(super) annotations: RawAnnotations,
}

/// An object of which only the metadata were decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectIdentity {
    /// Its namespace and name.
    pub key: JobKey,
    /// Its UID.
    pub uid: Uid,
    /// Its resourceVersion.
    pub resource_version: u64,
}

/// Decodes the metadata of an object in JSON.
pub fn decode_identity(json: &str) -> Result<ObjectIdentity, serde_json::Error> {
    #[derive(Deserialize)]
    struct RawIdentified {
        metadata: RawMetadata,
    }
    let RawIdentified { metadata } = serde_json::from_str(json)?;
    let (uid, resource_version) = metadata.identity()?;
    Ok(ObjectIdentity {
        key: metadata.key(),
        uid,
        resource_version,
    })
}

/// The annotations that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RawAnnotations {
    /// On a CronJob's Job: its scheduled time.
    #[serde(rename = "batch.kubernetes.io/cronjob-scheduled-timestamp")]
    pub(super) scheduled: Option<String>,
    /// On a Job: the extra features that it requests.
    #[serde(rename = "lakh.dev/index-record")]
    index_record: Option<String>,
    #[serde(rename = "lakh.dev/failure-summary")]
    failure_summary: Option<String>,
    #[serde(rename = "lakh.dev/job-metrics")]
    job_metrics: Option<String>,
}

impl RawAnnotations {
    /// The extra features that a Job requests, if any.
    pub(super) fn job_annotations(&self) -> Option<Box<JobAnnotations>> {
        let read = |text: &Option<String>| {
            let text = text.as_deref();
            text.map_or(AnnotationSwitch::Unset, AnnotationSwitch::parse)
        };
        let annotations = JobAnnotations {
            index_record: read(&self.index_record),
            failure_summary: read(&self.failure_summary),
            job_metrics: read(&self.job_metrics),
        };
        (!annotations.is_unset()).then(|| Box::new(annotations))
    }
}

impl RawMetadata {
    /// The UID and resourceVersion.
    pub(super) fn identity(&self) -> Result<(Uid, u64), serde_json::Error> {
        let identity = Uid::parse(&self.uid).zip(self.resource_version.parse().ok());
        let odd = || serde_json::Error::custom("metadata.uid or metadata.resourceVersion is odd");
        identity.ok_or_else(odd)
    }

    pub(super) fn key(&self) -> JobKey {
        JobKey {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// The owner reference of the controller.
    pub(super) fn controller(&self) -> Option<&OwnerReference> {
        let mut owners = self.owner_references.iter();
        owners.find(|owner| owner.controller == Some(true))
    }
}
