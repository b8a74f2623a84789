//! Reads Pods that are kept until their Job has counted them. Other Pods are skipped.
//!
//! Must not: judge.

use compact_str::CompactString;
use serde::Deserialize;

use lakh_model::{Controller, Labels, OWN_TRACKING_FINALIZER, TRACKING_FINALIZER, Time, Uid};
use lakh_wire::{Object, OddAnswer, PodDecoder};

use super::jobs::time;

/// The finalizers that keep Pods until they are counted: the built-in controller's and lakh's own.
const FINALIZERS: [&str; 2] = [TRACKING_FINALIZER, OWN_TRACKING_FINALIZER];

/// A Pod with a tracking finalizer.
#[derive(Clone, Debug)]
pub(crate) struct HeldPod {
    pub(crate) namespace: CompactString,
    pub(crate) name: CompactString,
    pub(crate) uid: Uid,
    pub(crate) version: u64,
    pub(crate) controller: Controller,
    /// The finalizer; the first, if it has both.
    pub(crate) finalizer: &'static str,
    /// Labels of a Pod without an owner, by which a Job may adopt it.
    pub(crate) labels: Labels,
    /// The deletion timestamp, if it is being deleted.
    pub(crate) deleting_since: Option<Time>,
    /// The last change, as far as the server records it.
    pub(crate) last_change: Time,
}

/// Fields of a Pod that the controller does not decode.
#[derive(Deserialize)]
struct PodExtras {
    metadata: PodMetadataExtras,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadataExtras {
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    managed_fields: Vec<PodWriter>,
}

#[derive(Deserialize)]
struct PodWriter {
    time: Option<String>,
}

impl HeldPod {
    /// Reads a Pod, or its metadata alone; none without a tracking finalizer.
    pub(crate) fn read(json: &str) -> Result<Option<Self>, OddAnswer> {
        let PodExtras { metadata } = serde_json::from_str(json)?;
        let is_held_by = |finalizer: &&str| metadata.finalizers.iter().any(|it| it == finalizer);
        let Some(finalizer) = FINALIZERS.into_iter().find(is_held_by) else {
            return Ok(None);
        };
        // The controller's own decoder determines the owner.
        let pod = PodDecoder { finalizer }.decode(Object::Json(json))?;
        let changes = metadata.managed_fields.iter();
        let changes = changes.filter_map(|writer| time(writer.time.as_deref()));
        let labels = match pod.controller {
            Controller::None => pod.labels.to_labels(),
            Controller::Job(_) | Controller::Other => Labels::default(),
        };
        Ok(Some(Self {
            namespace: pod.namespace,
            name: pod.name,
            uid: pod.record.uid,
            version: pod.record.resource_version,
            controller: pod.controller,
            finalizer,
            labels,
            deleting_since: time(metadata.deletion_timestamp.as_deref()),
            last_change: changes
                .chain(time(metadata.creation_timestamp.as_deref()))
                .max()
                .unwrap_or_default(),
        }))
    }
}
