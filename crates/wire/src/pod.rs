//! Decodes a Pod directly into its record and skips all fields that decisions do not need.

mod failure;
pub(super) mod protobuf;
#[cfg(test)]
mod tests;

use compact_str::CompactString;
use serde::{Deserialize, Deserializer};
use smallvec::SmallVec;

use lakh_model::{
    CompactIndex, Controller, DecodedPod, JobId, JobKey, PodFlags, PodLabels, PodName, PodPhase,
    PodRecord, Uid,
};

use super::{
    Object, OddAnswer,
    json::{self, Text},
    labels::labels,
    protobuf::{self as message, ProtobufMessage, Value},
    timestamp::seconds,
};
use failure::failure;

/// A watch event of a Pod.
#[derive(Clone, Debug)]
pub enum PodEvent<'a> {
    /// The Pod is new or has a new version.
    Applied(DecodedPod<'a>),
    /// The Pod is gone; this is its last version.
    Deleted(DecodedPod<'a>),
}

/// Decodes Pods for the controller with this finalizer.
#[derive(Clone, Debug)]
pub struct PodDecoder {
    /// The finalizer with which this controller keeps Pods until they are counted.
    pub finalizer: &'static str,
}

impl PodDecoder {
    /// Decodes a Pod.
    pub fn decode<'a>(&self, object: Object<'a>) -> Result<DecodedPod<'a>, OddAnswer> {
        let pod = match object {
            Object::Json(json) => serde_json::from_str(json)?,
            Object::Protobuf(message) => RawPod::read(Value::Bytes(message))?,
        };
        self.keep(pod).ok_or(OddAnswer::Identity)
    }

    /// Decodes a line of a Pod watch in one pass. Returns `None` for any other line and for a malformed one;
    /// [`decode_watch_line`](super::decode_watch_line) handles those.
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
                        namespace: CompactString::new(&*meta.namespace),
                        name: CompactString::new(&*owner.name),
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
        let has_finalizer = meta.finalizers.iter().any(|it| *it == self.finalizer);
        let is_ready = ready.is_some_and(|condition| condition.status == "True");
        let flags = PodFlags::default()
            .with(PodFlags::FINALIZER, has_finalizer)
            .with(PodFlags::DELETING, meta.deletion_timestamp.is_some())
            .with(PodFlags::READY, is_ready)
            .with(PodFlags::ASSIGNED, !pod.spec.node_name.is_empty());
        let phase = PodPhase::of(&pod.status.phase);
        let restarts = restarts(&pod);
        Some(DecodedPod {
            namespace: CompactString::new(&*meta.namespace),
            name: CompactString::new(&*meta.name),
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
            end: None,
        })
    }
}

/// Decodes the response to a write that requested only metadata. Returns the UID, the resourceVersion, and true if the
/// object is being deleted.
pub fn ack_of_write(body: &[u8]) -> Option<(Uid, u64, bool)> {
    let metadata: AckMetadata<'_> = metadata(body)?;
    let uid = Uid::parse(&metadata.uid)?;
    let version = metadata.resource_version.parse().ok()?;
    Some((uid, version, metadata.deletion_timestamp.is_some()))
}

/// Decodes the finalizers and labels of the Pod in a response.
pub(super) fn marks(body: &[u8]) -> Option<Marks<'_>> {
    metadata(body)
}

/// Decodes the metadata of the object in a response.
pub(super) fn metadata<'a, M: ProtobufMessage<'a> + Deserialize<'a>>(body: &'a [u8]) -> Option<M> {
    #[derive(Deserialize)]
    struct RawObject<M> {
        metadata: M,
    }
    if message::is_object(body) {
        // The first field of every object is its metadata.
        let metadata = message::message(message::object(body).ok()?, 1).ok()?;
        return M::read(Value::Bytes(metadata)).ok();
    }
    Some(json::read::<RawObject<M>>(body).ok()?.metadata)
}

/// The finalizers and labels by which a Job recognizes its Pod.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Marks<'a> {
    pub(super) finalizers: SmallVec<[Text<'a>; 2]>,
    #[serde(deserialize_with = "labels")]
    pub(super) labels: PodLabels<'a>,
}

/// The metadata that is read from the response to a write.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct AckMetadata<'a> {
    pub(super) name: Text<'a>,
    pub(super) uid: Text<'a>,
    pub(super) resource_version: Text<'a>,
    deletion_timestamp: Option<RawTimestamp>,
}

fn index(text: &Text<'_>) -> Option<CompactIndex> {
    text.parse::<u32>().ok().and_then(CompactIndex::new)
}

#[derive(Default)]
struct Restarts {
    all: u32,
    max: u16,
    sidecar_max: u16,
}

fn restarts(pod: &RawPod<'_>) -> Restarts {
    let mut restarts = Restarts::default();
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

/// The time at which the Pod ended, by the first evidence available: its containers' ends, Ready turning False, its
/// deletion, its creation. Upstream's `getFinishedTime` does the same (docs/rules/jobs.md, 5.2).
fn finished(pod: &RawPod<'_>) -> u32 {
    let by_containers = || {
        let sidecars = pod.status.init_container_statuses.iter();
        let sidecars = latest_end(sidecars.filter(|container| pod.is_sidecar(&container.name)))?;
        let containers = latest_end(pod.status.container_statuses.iter()).unwrap_or(0);
        Some(containers.max(sidecars)).filter(|at| *at > 0)
    };
    let by_readiness = || {
        let mut conditions = pod.status.conditions.iter();
        let ready = conditions.find(|found| found.kind == "Ready" && found.status == "False")?;
        Some(ready.last_transition_time.0).filter(|at| *at > 0)
    };
    let by_deletion = || {
        let RawTimestamp(at) = pod.metadata.deletion_timestamp?;
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        Some(at.saturating_sub(u32::try_from(grace.max(0)).unwrap_or(u32::MAX)))
    };
    by_containers()
        .or_else(by_readiness)
        .or_else(by_deletion)
        .unwrap_or(pod.metadata.creation_timestamp.0)
}

/// The latest end of these containers: 0 if there are none, `None` while one has not ended.
fn latest_end<'a>(mut containers: impl Iterator<Item = &'a RawContainerStatus<'a>>) -> Option<u32> {
    containers.try_fold(0, |latest, container| {
        let RawTimestamp(at) = container.state.terminated.as_ref()?.finished_at;
        (at > 0).then_some(latest.max(at))
    })
}

/// A line of a watch of Pods.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct RawPodEvent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    object: RawPod<'a>,
}

/// The parts of a Pod's JSON that are read; a bookmark has only some. Lists have inline capacity for most Pods, to
/// avoid allocations.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct RawPod<'a> {
    metadata: RawPodMetadata<'a>,
    spec: RawPodSpec<'a>,
    status: RawPodStatus<'a>,
}

impl RawPod<'_> {
    fn is_sidecar(&self, name: &str) -> bool {
        let mut containers = self.spec.init_containers.iter();
        containers.any(|found| found.name == name && found.restart_policy == "Always")
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawPodMetadata<'a> {
    name: Text<'a>,
    namespace: Text<'a>,
    uid: Text<'a>,
    resource_version: Text<'a>,
    creation_timestamp: RawTimestamp,
    deletion_timestamp: Option<RawTimestamp>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: SmallVec<[Text<'a>; 2]>,
    owner_references: SmallVec<[RawPodOwnerReference<'a>; 1]>,
    #[serde(deserialize_with = "labels")]
    labels: PodLabels<'a>,
    annotations: RawPodAnnotations<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawPodOwnerReference<'a> {
    api_version: Text<'a>,
    kind: Text<'a>,
    name: Text<'a>,
    uid: Text<'a>,
    controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct RawPodAnnotations<'a> {
    #[serde(rename = "batch.kubernetes.io/job-completion-index")]
    pub(super) index: Option<Text<'a>>,
    #[serde(rename = "batch.kubernetes.io/job-index-failure-count")]
    pub(super) failures: Option<Text<'a>>,
    #[serde(rename = "batch.kubernetes.io/job-index-ignored-failure-count")]
    pub(super) ignored_failures: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawPodSpec<'a> {
    node_name: Text<'a>,
    init_containers: Vec<RawInitContainer<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawInitContainer<'a> {
    name: Text<'a>,
    restart_policy: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawPodStatus<'a> {
    phase: Text<'a>,
    conditions: SmallVec<[RawPodCondition<'a>; 6]>,
    container_statuses: SmallVec<[RawContainerStatus<'a>; 2]>,
    init_container_statuses: Vec<RawContainerStatus<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawPodCondition<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    status: Text<'a>,
    last_transition_time: RawTimestamp,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawContainerStatus<'a> {
    name: Text<'a>,
    #[serde(deserialize_with = "json::count")]
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

/// Whole seconds since the epoch; 0 if the text is not a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RawTimestamp(pub(super) u32);

impl<'de> Deserialize<'de> for RawTimestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<Text<'_>>::deserialize(deserializer)?;
        Ok(Self(text.map_or(0, |text| seconds(&text))))
    }
}
