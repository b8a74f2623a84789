//! Decodes a Pod into the record that the controller decides by.

#[cfg(test)]
mod tests;

use lakh_model::{
    CompactIndex, Controller, DecodedPod, JobId, JobKey, PodFlags, PodName, PodPhase, PodRecord,
    Uid,
};

use super::{
    failure::failure,
    view::{ContainerStatus, PodLine, PodView},
};
use crate::{
    Object, OddAnswer,
    field::{Text, Timestamp},
    json,
};

/// A Pod's fields for its record.
type View<'a> = PodView<'a, PodRecord>;

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
        self.project(View::decode(object)?)
            .ok_or(OddAnswer::Identity)
    }

    /// Decodes a line of a Pod watch in one pass. Returns `None` for any other line and for a malformed one;
    /// [`decode_watch_line`](crate::decode_watch_line) handles those.
    pub fn decode_line<'a>(&self, line: &'a [u8]) -> Option<PodEvent<'a>> {
        let PodLine { kind, object } = json::read(line).ok()?;
        match kind {
            "ADDED" | "MODIFIED" => self.project(object).map(PodEvent::Applied),
            "DELETED" => self.project(object).map(PodEvent::Deleted),
            _ => None,
        }
    }

    fn project<'a>(&self, pod: View<'a>) -> Option<DecodedPod<'a>> {
        let meta = &pod.metadata;
        let owner = meta.controller();
        let controller = match owner {
            None => Controller::None,
            Some(owner) if owner.kind == "Job" && owner.api_version.starts_with("batch/") => {
                Uid::parse(&owner.uid).map_or(Controller::Other, |uid| {
                    let key = JobKey {
                        namespace: meta.namespace.to_compact(),
                        name: owner.name.to_compact(),
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
        let phase = PodPhase::parse(&pod.status.phase);
        let restarts = restarts(&pod);
        Some(DecodedPod {
            namespace: meta.namespace.to_compact(),
            name: meta.name.to_compact(),
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

fn index(text: &Text<'_>) -> Option<CompactIndex> {
    text.parse::<u32>().ok().and_then(CompactIndex::new)
}

#[derive(Default)]
struct Restarts {
    all: u32,
    max: u16,
    sidecar_max: u16,
}

fn restarts(pod: &View<'_>) -> Restarts {
    let mut restarts = Restarts::default();
    for container in &pod.status.container_statuses {
        restarts.all = restarts.all.saturating_add(container.restart_count.0);
        restarts.max = restarts.max.max(saturate(container.restart_count.0));
    }
    for container in &pod.status.init_container_statuses {
        restarts.all = restarts.all.saturating_add(container.restart_count.0);
        if is_sidecar(pod, &container.name) {
            restarts.sidecar_max = restarts
                .sidecar_max
                .max(saturate(container.restart_count.0));
        }
    }
    restarts
}

fn saturate(count: u32) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// The time at which the Pod ended, by the first evidence available: its containers' ends, Ready turning False, its
/// deletion, its creation. Upstream's `getFinishedTime` does the same (docs/rules/jobs.md, 5.2).
fn finished(pod: &View<'_>) -> u32 {
    let by_containers = || {
        let sidecars = pod.status.init_container_statuses.iter();
        let sidecars = latest_end(sidecars.filter(|container| is_sidecar(pod, &container.name)))?;
        let containers = latest_end(pod.status.container_statuses.iter()).unwrap_or(0);
        Some(containers.max(sidecars)).filter(|at| *at > 0)
    };
    let by_readiness = || {
        let mut conditions = pod.status.conditions.iter();
        let ready = conditions.find(|found| found.kind == "Ready" && found.status == "False")?;
        Some(ready.last_transition_time.0).filter(|at| *at > 0)
    };
    let by_deletion = || {
        let Timestamp(at) = pod.metadata.deletion_timestamp?;
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        Some(at.saturating_sub(u32::try_from(grace.max(0)).unwrap_or(u32::MAX)))
    };
    by_containers()
        .or_else(by_readiness)
        .or_else(by_deletion)
        .unwrap_or(pod.metadata.creation_timestamp.0)
}

/// Returns true if the init container of this name is restartable.
fn is_sidecar(pod: &View<'_>, name: &str) -> bool {
    let mut containers = pod.spec.init_containers.iter();
    containers.any(|found| found.name == name && found.restart_policy == "Always")
}

/// The latest end of these containers: 0 if there are none, `None` while one has not ended.
fn latest_end<'a, 'b: 'a>(
    mut containers: impl Iterator<Item = &'a ContainerStatus<'b, PodRecord>>,
) -> Option<u32> {
    containers.try_fold(0, |latest, container| {
        let Timestamp(at) = container.state.terminated.as_ref()?.finished_at;
        (at > 0).then_some(latest.max(at))
    })
}
