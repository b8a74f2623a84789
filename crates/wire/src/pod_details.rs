//! Decodes the parts of a Pod that explain to users why its Job is stuck or fails: reasons, messages, nodes, times.
//!
//! The controller's own decoder (`pod`) keeps less, because it decodes each Pod many times. Must not: keep fields that
//! no user sees, such as volumes.

mod protobuf;
#[cfg(test)]
mod tests;

use compact_str::CompactString;
use serde::Deserialize;
use smallvec::SmallVec;

use lakh_model::{EndCause, PodEnd, PodPhase, Time, Uid};

use super::{
    Object, OddAnswer,
    json::{self, Text},
    pod::{RawPodAnnotations, RawTimestamp},
    protobuf::{ProtobufMessage as _, Value},
};

/// The fields of one Pod that explain its state to users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDetails {
    /// Its name.
    pub name: CompactString,
    /// Its UID.
    pub uid: Uid,
    /// The UID of its controller.
    pub owner: Option<Uid>,
    /// Its completion index.
    pub index: Option<u32>,
    /// The number of earlier failures of its index, counted or ignored.
    pub failures_before: u32,
    /// Its creationTimestamp.
    pub created: Option<Time>,
    /// Its deletionTimestamp, if it is being deleted.
    pub deletion: Option<Time>,
    /// The finalizers that delay its deletion.
    pub finalizers: SmallVec<[CompactString; 1]>,
    /// Its node; empty if none is assigned.
    pub node: CompactString,
    /// Its startTime: when the kubelet accepted it.
    pub started: Option<Time>,
    /// The scheduling gates that keep it from being scheduled.
    pub gates: Vec<CompactString>,
    /// Its phase.
    pub phase: PodPhase,
    /// `status.reason`.
    pub reason: CompactString,
    /// `status.message`.
    pub message: String,
    /// Conditions that are not True, and Ready and DisruptionTarget in any state.
    pub conditions: Vec<PodConditionDetails>,
    /// Its containers, init containers first.
    pub containers: SmallVec<[ContainerDetails; 1]>,
}

/// A condition of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodConditionDetails {
    /// The condition's `type`.
    pub kind: CompactString,
    /// The condition is True.
    pub holds: bool,
    /// Its lastTransitionTime.
    pub since: Option<Time>,
    /// A one-word reason.
    pub reason: CompactString,
    /// A message.
    pub message: String,
}

/// A container of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerDetails {
    /// Its name.
    pub name: CompactString,
    /// The number of restarts.
    pub restarts: u32,
    /// The reason and message, while it waits to start.
    pub waiting: Option<(CompactString, String)>,
    /// Its end, if it has ended.
    pub ended: Option<ContainerEnd>,
    /// The end of its previous run.
    pub ended_before: Option<ContainerEnd>,
}

/// The end of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerEnd {
    /// The exit code.
    pub exit_code: i32,
    /// The signal, if the runtime reports one.
    pub signal: i32,
    /// A one-word reason.
    pub reason: CompactString,
    /// The message of the container or its runtime.
    pub message: String,
    /// When it ended.
    pub at: Option<Time>,
}

/// The cause of a Pod's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodCause<'a> {
    /// The exit code of the first container that failed, if one did.
    pub exit_code: Option<i32>,
    /// A one-word reason; empty if the exit code suffices.
    pub reason: &'a str,
    /// The container that made the Pod fail, if one did.
    pub container: Option<&'a str>,
    /// The message of the Pod, the condition or the container.
    pub message: &'a str,
}

/// The reason of a failed container about which no more is known.
const ERROR: &str = "Error";

impl PodDetails {
    /// Decodes a Pod.
    pub fn read(object: Object<'_>) -> Result<Self, OddAnswer> {
        let pod = match object {
            Object::Json(json) => serde_json::from_str(json)?,
            Object::Protobuf(message) => RawPodDetails::read(Value::Bytes(message))?,
        };
        pod.keep().ok_or(OddAnswer::Identity)
    }

    /// Decodes the Pod in a line of a watch, in one pass.
    pub fn read_line(line: &[u8]) -> Result<Self, OddAnswer> {
        let RawPodLine { object } = json::read(line)?;
        object.keep().ok_or(OddAnswer::Identity)
    }

    /// The condition of this type, if it is among the kept ones.
    pub fn condition(&self, kind: &str) -> Option<&PodConditionDetails> {
        self.conditions.iter().find(|it| it.kind == kind)
    }

    /// The cause of the failure. The Pod's own reason and a disruption take precedence over the containers' states.
    pub fn cause(&self) -> PodCause<'_> {
        let failed = self.containers.iter().find_map(|container| {
            let end = container.ended.as_ref()?;
            (end.exit_code != 0).then_some((container, end))
        });
        let exit_code = failed.map(|(_, end)| end.exit_code);
        let of_pod = |reason, message| PodCause {
            exit_code,
            reason,
            container: None,
            message,
        };
        if !self.reason.is_empty() {
            return of_pod(&self.reason, &self.message);
        }
        let disrupted = self.condition("DisruptionTarget");
        if let Some(disrupted) = disrupted.filter(|it| it.holds) {
            return of_pod(&disrupted.reason, &disrupted.message);
        }
        let Some((container, end)) = failed else {
            return of_pod("", &self.message);
        };
        PodCause {
            exit_code,
            reason: Some(end.reason.as_str())
                .filter(|it| *it != ERROR)
                .unwrap_or_default(),
            container: Some(&container.name),
            message: &end.message,
        }
    }

    /// Summarizes how the Pod ended.
    pub fn end(&self) -> PodEnd {
        let cause = match self.phase {
            PodPhase::Succeeded => EndCause::new(Some(0), ""),
            _ => {
                let PodCause {
                    exit_code, reason, ..
                } = self.cause();
                EndCause::new(exit_code, reason)
            }
        };
        let started = self.started.or(self.created);
        let started = started.and_then(|at| u32::try_from(at.as_secs()).ok());
        PodEnd::new(cause, &self.node, started.unwrap_or(0))
    }

    /// The time at which the Pod ended, by the first evidence available.
    pub fn finished(&self) -> Option<Time> {
        let ends = self.containers.iter().filter_map(|it| it.ended.as_ref());
        let by_containers = ends.filter_map(|end| end.at).max();
        let by_readiness = || self.condition("Ready").and_then(|ready| ready.since);
        by_containers
            .or_else(by_readiness)
            .or(self.deletion)
            .or(self.created)
    }
}

/// A line of a watch of Pods.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct RawPodLine<'a> {
    object: RawPodDetails<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct RawPodDetails<'a> {
    metadata: RawDetailsMetadata<'a>,
    spec: RawDetailsSpec<'a>,
    status: RawDetailsStatus<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawDetailsMetadata<'a> {
    name: Text<'a>,
    uid: Text<'a>,
    creation_timestamp: RawTimestamp,
    deletion_timestamp: RawTimestamp,
    finalizers: SmallVec<[Text<'a>; 2]>,
    owner_references: SmallVec<[RawDetailsOwner<'a>; 1]>,
    annotations: RawPodAnnotations<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct RawDetailsOwner<'a> {
    uid: Text<'a>,
    controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawDetailsSpec<'a> {
    node_name: Text<'a>,
    scheduling_gates: Vec<RawGate<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct RawGate<'a> {
    name: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawDetailsStatus<'a> {
    phase: Text<'a>,
    reason: Text<'a>,
    message: Text<'a>,
    start_time: RawTimestamp,
    conditions: SmallVec<[RawDetailsCondition<'a>; 6]>,
    container_statuses: SmallVec<[RawContainerDetails<'a>; 2]>,
    init_container_statuses: Vec<RawContainerDetails<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawDetailsCondition<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    status: Text<'a>,
    last_transition_time: RawTimestamp,
    reason: Text<'a>,
    message: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawContainerDetails<'a> {
    name: Text<'a>,
    #[serde(deserialize_with = "json::count")]
    restart_count: u32,
    state: RawDetailsState<'a>,
    last_state: RawDetailsState<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct RawDetailsState<'a> {
    waiting: Option<RawWaiting<'a>>,
    terminated: Option<RawEnd<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct RawWaiting<'a> {
    reason: Text<'a>,
    message: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawEnd<'a> {
    exit_code: i32,
    signal: i32,
    reason: Text<'a>,
    message: Text<'a>,
    finished_at: RawTimestamp,
}

fn time(stamp: RawTimestamp) -> Option<Time> {
    (stamp.0 > 0).then(|| Time::from_secs(stamp.0.into()))
}

fn compact(text: &Text<'_>) -> CompactString {
    CompactString::new(&**text)
}

impl RawPodDetails<'_> {
    fn keep(&self) -> Option<PodDetails> {
        let Self {
            metadata,
            spec,
            status,
        } = self;
        let mut owners = metadata.owner_references.iter();
        let owner = owners.find(|owner| owner.controller == Some(true));
        let count = |text: &Option<Text<'_>>| {
            let count = text.as_ref().and_then(|text| text.parse::<u32>().ok());
            count.unwrap_or(0)
        };
        let annotations = &metadata.annotations;
        let index = annotations.index.as_ref();
        let ignored = count(&annotations.ignored_failures);
        let conditions = status.conditions.iter();
        let inits = status.init_container_statuses.iter();
        let containers = inits.chain(&status.container_statuses);
        Some(PodDetails {
            name: compact(&metadata.name),
            uid: Uid::parse(&metadata.uid)?,
            owner: owner.and_then(|owner| Uid::parse(&owner.uid)),
            index: index.and_then(|text| text.parse().ok()),
            failures_before: count(&annotations.failures).saturating_add(ignored),
            created: time(metadata.creation_timestamp),
            deletion: time(metadata.deletion_timestamp),
            finalizers: metadata.finalizers.iter().map(compact).collect(),
            node: compact(&spec.node_name),
            started: time(status.start_time),
            gates: spec
                .scheduling_gates
                .iter()
                .map(|it| compact(&it.name))
                .collect(),
            phase: PodPhase::of(&status.phase),
            reason: compact(&status.reason),
            message: status.message.to_string(),
            conditions: conditions.filter_map(RawDetailsCondition::keep).collect(),
            containers: containers.map(RawContainerDetails::keep).collect(),
        })
    }
}

impl RawDetailsCondition<'_> {
    fn keep(&self) -> Option<PodConditionDetails> {
        let holds = self.status == "True";
        let is_well = holds && self.kind != "DisruptionTarget" && self.kind != "Ready";
        (!is_well).then(|| PodConditionDetails {
            kind: compact(&self.kind),
            holds,
            since: time(self.last_transition_time),
            reason: compact(&self.reason),
            message: self.message.to_string(),
        })
    }
}

impl RawContainerDetails<'_> {
    fn keep(&self) -> ContainerDetails {
        let waiting = self.state.waiting.as_ref();
        ContainerDetails {
            name: compact(&self.name),
            restarts: self.restart_count,
            waiting: waiting.map(|it| (compact(&it.reason), it.message.to_string())),
            ended: self.state.terminated.as_ref().map(RawEnd::keep),
            ended_before: self.last_state.terminated.as_ref().map(RawEnd::keep),
        }
    }
}

impl RawEnd<'_> {
    fn keep(&self) -> ContainerEnd {
        ContainerEnd {
            exit_code: self.exit_code,
            signal: self.signal,
            reason: compact(&self.reason),
            message: self.message.to_string(),
            at: time(self.finished_at),
        }
    }
}
