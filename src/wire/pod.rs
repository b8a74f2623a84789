//! Reads a Pod straight into its record, and skips everything that decisions do not need.

mod failure;
mod protobuf;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use compact_str::CompactString;
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use smallvec::SmallVec;

use crate::model::{
    CompactIndex, Controller, DecodedPod, JobId, JobKey, PodFlags, PodLabels, PodName, PodPhase,
    PodRecord, Uid,
};

use super::{
    Object,
    json::{self, Text},
    labels::labels,
    protobuf::{self as message, Fields, Malformed, Value},
    timestamp::seconds,
};
use failure::failure;

/// A watch event of a Pod.
#[derive(Clone, Debug)]
pub enum PodEvent<'a> {
    /// There is a new version of it, or it is new.
    Applied(DecodedPod<'a>),
    /// It is gone; this was its last version.
    Deleted(DecodedPod<'a>),
}

/// Why an object could not be read as a Pod.
#[derive(Debug, thiserror::Error)]
pub enum OddPod {
    /// It is no Pod's JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It is no Pod in protobuf.
    #[error(transparent)]
    Protobuf(#[from] Malformed),
    /// It has no UID or version as an API server makes them.
    #[error("metadata.uid or metadata.resourceVersion is odd")]
    Identity,
}

/// Reads Pods for one controller: it knows the controller's finalizer.
#[derive(Clone, Debug)]
pub struct PodDecoder {
    /// The finalizer by which this controller keeps Pods until they are counted.
    pub finalizer: &'static str,
}

impl PodDecoder {
    /// Reads a Pod.
    pub fn decode<'a>(&self, object: Object<'a>) -> Result<DecodedPod<'a>, OddPod> {
        let pod = match object {
            Object::Json(json) => serde_json::from_str(json)?,
            Object::Protobuf(message) => protobuf::pod(message)?,
        };
        self.keep(pod).ok_or(OddPod::Identity)
    }

    /// Reads a line of a watch with a Pod, in one pass. Any other line, and one that is odd,
    /// gives nothing: it is for [`decode_watch_line`](super::decode_watch_line).
    pub fn decode_line<'a>(&self, line: &'a [u8]) -> Option<PodEvent<'a>> {
        let RawPodEvent { kind, object } = json::read(line).ok()?;
        match kind {
            "ADDED" | "MODIFIED" => self.keep(object).map(PodEvent::Applied),
            "DELETED" => self.keep(object).map(PodEvent::Deleted),
            _ => None,
        }
    }

    fn keep<'a>(&self, pod: RawPod<'a>) -> Option<DecodedPod<'a>> {
        let meta = &pod.metadata;
        let owner = meta
            .owner_references
            .iter()
            .find(|owner| owner.controller == Some(true));
        let controller = match owner {
            None => Controller::None,
            Some(owner) if owner.kind == "Job" && owner.api_version.starts_with("batch/") => {
                Uid::parse(&owner.uid).map_or(Controller::Other, |uid| {
                    let key = JobKey {
                        namespace: CompactString::new(&meta.namespace),
                        name: CompactString::new(&owner.name),
                    };
                    Controller::Job(JobId { uid, key })
                })
            }
            Some(_) => Controller::Other,
        };
        let job = owner.map_or("", |owner| &owner.name);
        let ready = pod
            .status
            .conditions
            .iter()
            .find(|condition| condition.kind == "Ready");
        let flags = PodFlags::default()
            .with(
                PodFlags::FINALIZER,
                meta.finalizers.iter().any(|name| name.0 == self.finalizer),
            )
            .with(PodFlags::DELETING, meta.deletion_timestamp.is_some())
            .with(
                PodFlags::READY,
                ready.is_some_and(|condition| condition.status == "True"),
            )
            .with(PodFlags::ASSIGNED, !pod.spec.node_name.is_empty());
        let phase = phase(&pod.status.phase);
        let restarts = restarts(&pod);
        Some(DecodedPod {
            namespace: CompactString::new(&meta.namespace),
            name: CompactString::new(&meta.name),
            controller,
            record: PodRecord {
                uid: Uid::parse(&meta.uid)?,
                name: PodName::new(job, &meta.name),
                resource_version: meta.resource_version.parse().ok()?,
                index: meta.annotations.index.as_ref().and_then(index),
                restarts: restarts.all,
                restarts_max: restarts.max,
                sidecar_restarts_max: restarts.sidecar_max,
                created: meta.creation_timestamp.0,
                ready_since: ready.map_or(0, |condition| condition.last_transition_time.0),
                finished: if phase.is_terminal() || flags.has(PodFlags::DELETING) {
                    finished(&pod)
                } else {
                    0
                },
                phase,
                flags,
                failure: failure(&pod, phase, flags),
            },
            labels: pod.metadata.labels,
        })
    }
}

/// Reads the answer to an own write, when only its metadata was asked for; gives UID, version and
/// whether the object is being deleted.
pub fn ack_of_write(body: &[u8]) -> Option<(Uid, u64, bool)> {
    let metadata = if message::is_object(body) {
        ack_in_protobuf(message::object(body).ok()?).ok()?
    } else {
        json::read::<RawAck<'_>>(body).ok()?.metadata
    };
    let uid = Uid::parse(&metadata.uid)?;
    let version = metadata.resource_version.parse().ok()?;
    Some((uid, version, metadata.deletion_timestamp.is_some()))
}

/// Every object has its metadata in its first field.
fn ack_in_protobuf(object: &[u8]) -> Result<RawAckMetadata<'_>, Malformed> {
    let metadata = message::message(object, 1)?;
    let text = |number| {
        let value = message::field(metadata, number)?.map_or(Ok(""), Value::text)?;
        Ok(Cow::Borrowed(value))
    };
    Ok(RawAckMetadata {
        uid: text(5)?,
        resource_version: text(6)?,
        deletion_timestamp: message::field(metadata, 9)?.map(|_| IgnoredAny),
    })
}

/// By what a Job knows its Pod again.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Marks<'a> {
    #[serde(borrow)]
    pub(super) finalizers: SmallVec<[Text<'a>; 2]>,
    #[serde(borrow, deserialize_with = "labels")]
    pub(super) labels: PodLabels<'a>,
}

/// Reads the marks of the Pod in an answer.
pub(super) fn marks(body: &[u8]) -> Option<Marks<'_>> {
    #[derive(Deserialize)]
    struct Marked<'a> {
        #[serde(borrow)]
        metadata: Marks<'a>,
    }
    if message::is_object(body) {
        return marks_in_protobuf(message::object(body).ok()?).ok();
    }
    Some(json::read::<Marked<'_>>(body).ok()?.metadata)
}

fn marks_in_protobuf(object: &[u8]) -> Result<Marks<'_>, Malformed> {
    let mut marks = Marks::default();
    let mut fields = Fields::of(message::message(object, 1)?);
    while let Some((number, value)) = fields.next()? {
        match number {
            11 => {
                let label = value.bytes()?;
                let text = |number| message::field(label, number)?.map_or(Ok(""), Value::text);
                marks.labels.push(text(1)?, text(2)?);
            }
            14 => marks.finalizers.push(Text(value.text()?.into())),
            _ => {}
        }
    }
    Ok(marks)
}

/// The parts of an answer to a write that are looked at.
#[derive(Deserialize)]
struct RawAck<'a> {
    #[serde(borrow)]
    metadata: RawAckMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAckMetadata<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(default)]
    deletion_timestamp: Option<IgnoredAny>,
}

fn phase(text: &str) -> PodPhase {
    match text {
        "Running" => PodPhase::Running,
        "Succeeded" => PodPhase::Succeeded,
        "Failed" => PodPhase::Failed,
        "Unknown" => PodPhase::Unknown,
        _ => PodPhase::Pending,
    }
}

fn index(Text(text): &Text<'_>) -> Option<CompactIndex> {
    text.parse::<u32>().ok().and_then(CompactIndex::new)
}

struct Restarts {
    all: u32,
    max: u16,
    sidecar_max: u16,
}

fn restarts(pod: &RawPod<'_>) -> Restarts {
    let mut restarts = Restarts {
        all: 0,
        max: 0,
        sidecar_max: 0,
    };
    for container in &pod.status.container_statuses {
        restarts.all = restarts.all.saturating_add(container.restart_count);
        restarts.max = restarts.max.max(saturate(container.restart_count));
    }
    for container in &pod.status.init_container_statuses {
        restarts.all = restarts.all.saturating_add(container.restart_count);
        if pod.is_sidecar(&container.name) {
            restarts.sidecar_max = restarts.sidecar_max.max(saturate(container.restart_count));
        }
    }
    restarts
}

fn saturate(count: u32) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// When the Pod ended, by the first evidence there is, as upstream's `getFinishedTime` (docs/rules/jobs.md, 5.2):
/// its containers' ends, Ready turning False, its deletion, its creation.
fn finished(pod: &RawPod<'_>) -> u32 {
    let sidecars = pod.status.init_container_statuses.iter();
    let sidecars = latest_end(sidecars.filter(|container| pod.is_sidecar(&container.name)));
    let containers = latest_end(pod.status.container_statuses.iter());
    let by_containers = match (containers, sidecars) {
        (_, Ends::Unfinished) => None,
        (Ends::At(at), Ends::At(sidecar)) => Some(at.max(sidecar)),
        (Ends::At(at), Ends::Nothing) | (_, Ends::At(at)) => Some(at),
        (_, Ends::Nothing) => None,
    };
    let by_readiness = || {
        let mut conditions = pod.status.conditions.iter();
        let ready = conditions.find(|found| found.kind == "Ready" && found.status == "False")?;
        Some(ready.last_transition_time.0).filter(|at| *at > 0)
    };
    let by_deletion = || {
        let RawTimestamp(at) = pod.metadata.deletion_timestamp?;
        let grace = pod
            .metadata
            .deletion_grace_period_seconds
            .unwrap_or(0)
            .max(0);
        Some(at.saturating_sub(u32::try_from(grace).unwrap_or(u32::MAX)))
    };
    by_containers
        .or_else(by_readiness)
        .or_else(by_deletion)
        .unwrap_or(pod.metadata.creation_timestamp.0)
}

/// When a group of containers ended.
enum Ends {
    /// There is none.
    Nothing,
    /// One has not ended.
    Unfinished,
    /// All have; the latest then.
    At(u32),
}

fn latest_end<'a>(containers: impl Iterator<Item = &'a RawContainerStatus<'a>>) -> Ends {
    let mut ends = Ends::Nothing;
    for container in containers {
        let Some(end) = &container.state.terminated else {
            return Ends::Unfinished;
        };
        let RawTimestamp(at) = end.finished_at;
        if at == 0 {
            return Ends::Unfinished;
        }
        ends = match ends {
            Ends::At(before) => Ends::At(before.max(at)),
            Ends::Nothing | Ends::Unfinished => Ends::At(at),
        };
    }
    ends
}

/// A line of a watch of Pods.
#[derive(Deserialize)]
struct RawPodEvent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: RawPod<'a>,
}

/// The parts of a Pod's JSON that are looked at; a bookmark has only some of them. Lists have room for
/// what most Pods have, so that no memory is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawPod<'a> {
    #[serde(borrow)]
    metadata: RawPodMetadata<'a>,
    #[serde(borrow)]
    spec: RawPodSpec<'a>,
    #[serde(borrow)]
    status: RawPodStatus<'a>,
}

impl RawPod<'_> {
    fn is_sidecar(&self, name: &str) -> bool {
        let mut containers = self.spec.init_containers.iter();
        containers.any(|found| found.name == name && found.restart_policy == "Always")
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodMetadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    creation_timestamp: RawTimestamp,
    deletion_timestamp: Option<RawTimestamp>,
    deletion_grace_period_seconds: Option<i64>,
    #[serde(borrow)]
    finalizers: SmallVec<[Text<'a>; 2]>,
    #[serde(borrow)]
    owner_references: SmallVec<[RawPodOwnerReference<'a>; 1]>,
    #[serde(borrow, deserialize_with = "labels")]
    labels: PodLabels<'a>,
    #[serde(borrow)]
    annotations: RawPodAnnotations<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodOwnerReference<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawPodAnnotations<'a> {
    #[serde(borrow, rename = "batch.kubernetes.io/job-completion-index")]
    index: Option<Text<'a>>,
    #[serde(borrow, rename = "batch.kubernetes.io/job-index-failure-count")]
    failures: Option<Text<'a>>,
    #[serde(borrow, rename = "batch.kubernetes.io/job-index-ignored-failure-count")]
    ignored_failures: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodSpec<'a> {
    #[serde(borrow)]
    node_name: Cow<'a, str>,
    #[serde(borrow)]
    init_containers: Vec<RawInitContainer<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawInitContainer<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    restart_policy: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodStatus<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    conditions: SmallVec<[RawPodCondition<'a>; 6]>,
    #[serde(borrow)]
    container_statuses: SmallVec<[RawContainerStatus<'a>; 2]>,
    #[serde(borrow)]
    init_container_statuses: Vec<RawContainerStatus<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodCondition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    last_transition_time: RawTimestamp,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawContainerStatus<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    restart_count: u32,
    state: RawContainerState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawContainerState {
    terminated: Option<RawTerminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawTerminated {
    exit_code: i32,
    finished_at: RawTimestamp,
}

/// Whole seconds since the epoch, or 0 for what is no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RawTimestamp(u32);

impl<'de> Deserialize<'de> for RawTimestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<Text<'_>>::deserialize(deserializer)?;
        Ok(Self(text.map_or(0, |Text(text)| seconds(&text))))
    }
}
