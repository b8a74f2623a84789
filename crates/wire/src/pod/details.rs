//! Decodes the parts of a Pod that explain to users why its Job is stuck or fails: reasons, messages, nodes, times.
//!
//! Must not: keep fields that no user sees, such as volumes.

#[cfg(test)]
mod tests;

use compact_str::CompactString;
use smallvec::SmallVec;

use lakh_model::{EndCause, PodEnd, PodPhase, Time, Uid};

use super::{
    DISRUPTION_TARGET,
    view::{ContainerStatus, PodCondition, PodLine, PodView, TerminatedContainer},
};
use crate::{
    Object, OddAnswer,
    field::{Text, Timestamp},
    json,
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
        Self::project(&PodView::decode(object)?).ok_or(OddAnswer::Identity)
    }

    /// Decodes the Pod in a line of a watch, in one pass.
    pub fn read_line(line: &[u8]) -> Result<Self, OddAnswer> {
        let PodLine { object, .. } = json::read(line)?;
        Self::project(&object).ok_or(OddAnswer::Identity)
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
        let disrupted = self.condition(DISRUPTION_TARGET);
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

impl PodDetails {
    fn project(pod: &PodView<'_, Self>) -> Option<Self> {
        let PodView {
            metadata,
            spec,
            status,
        } = pod;
        let owner = metadata.controller();
        let index = metadata.annotations.index.as_ref();
        let conditions = status.conditions.iter();
        let inits = status.init_container_statuses.iter();
        let containers = inits.chain(&status.container_statuses);
        let gates = spec.scheduling_gates.0.iter();
        Some(Self {
            name: metadata.name.to_compact(),
            uid: Uid::parse(&metadata.uid)?,
            owner: owner.and_then(|owner| Uid::parse(&owner.uid)),
            index: index.and_then(|text| text.parse().ok()),
            failures_before: metadata.annotations.failure_counts().total(),
            created: metadata.creation_timestamp.time(),
            deletion: metadata.deletion_timestamp.and_then(Timestamp::time),
            finalizers: metadata.finalizers.iter().map(Text::to_compact).collect(),
            node: spec.node_name.to_compact(),
            started: status.start_time.0.time(),
            gates: gates.map(|gate| gate.name.to_compact()).collect(),
            phase: PodPhase::parse(&status.phase),
            reason: status.reason.0.to_compact(),
            message: status.message.0.to_string(),
            conditions: conditions
                .filter_map(PodConditionDetails::project)
                .collect(),
            containers: containers.map(ContainerDetails::project).collect(),
        })
    }
}

impl PodConditionDetails {
    fn project(condition: &PodCondition<'_, PodDetails>) -> Option<Self> {
        let holds = condition.status == "True";
        let is_well = holds && condition.kind != DISRUPTION_TARGET && condition.kind != "Ready";
        (!is_well).then(|| Self {
            kind: condition.kind.to_compact(),
            holds,
            since: condition.last_transition_time.time(),
            reason: condition.reason.0.to_compact(),
            message: condition.message.0.to_string(),
        })
    }
}

impl ContainerDetails {
    fn project(container: &ContainerStatus<'_, PodDetails>) -> Self {
        let waiting = container.state.waiting.0.as_ref();
        let ended = container.state.terminated.as_ref();
        let ended_before = container.last_state.0.terminated.as_ref();
        Self {
            name: container.name.to_compact(),
            restarts: container.restart_count.0,
            waiting: waiting.map(|it| (it.reason.to_compact(), it.message.to_string())),
            ended: ended.map(ContainerEnd::project),
            ended_before: ended_before.map(ContainerEnd::project),
        }
    }
}

impl ContainerEnd {
    fn project(end: &TerminatedContainer<'_, PodDetails>) -> Self {
        Self {
            exit_code: end.exit_code,
            signal: end.signal.0,
            reason: end.reason.0.to_compact(),
            message: end.message.0.to_string(),
            at: end.finished_at.time(),
        }
    }
}
