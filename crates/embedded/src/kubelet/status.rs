//! Renders the status of a Pod as a patch for the API server.
//!
//! Responsible for: the patch as a whole, and its phase. Must not: decide anything; it renders the state of `life`.
//! Conditions and containers have files of their own.

use serde::Serialize;

use super::{
    INVALID_ANNOTATION_REASON,
    conditions::{Condition, conditions, disruption_target, unschedulable},
    containers::{ContainerStatus, container_statuses, init_statuses},
    inits::Inits,
    life::{Cause, Life, Pod},
    node::node_ip,
    stages::{By, Disruption},
};
use crate::model::Time;

/// Renders a strategic merge patch for the Pod's status sub-resource, guarded by the Pod's UID.
pub(super) fn status_patch(pod: &Pod) -> Vec<u8> {
    if let Life::Ended(Cause::Disrupted(cause)) = pod.life
        && cause.by() == By::PodGc
    {
        return disruption_patch(pod, cause, Some("Failed"));
    }
    if pod.life == Life::Ended(Cause::Refused) {
        return refusal_patch(pod);
    }
    let host_ip = node_ip(pod.run.node.unwrap_or_default());
    let [_, b, c, d] = pod.run.ip.to_be_bytes();
    let pod_ip = format!("10.{b}.{c}.{d}");
    let (reason, message) = reason_and_message(pod).unzip();
    patch(
        pod,
        PodStatus {
            observed_generation: pod.generation,
            phase: Some(phase(pod)),
            reason,
            message,
            start_time: Some(pod.run.scheduled_at.to_rfc3339()),
            host_ip: Some(&host_ip),
            host_ips: Some([Ip { ip: &host_ip }]),
            pod_ip: Some(&pod_ip),
            pod_ips: Some([Ip { ip: &pod_ip }]),
            conditions: conditions(pod),
            init_container_statuses: init_statuses(pod),
            container_statuses: container_statuses(pod),
        },
    )
}

/// Renders the status that a component other than the Pod's kubelet writes: the reason for its removal, and optionally
/// its final phase.
pub(super) fn disruption_patch(
    pod: &Pod,
    cause: Disruption,
    phase: Option<&'static str>,
) -> Vec<u8> {
    let removal = pod.plan.as_deref().and_then(|plan| plan.removal);
    let since = removal.map_or(pod.run.scheduled_at, |removal| removal.since);
    let status = PodStatus {
        phase,
        conditions: disruption_target(pod, cause, since).into_iter().collect(),
        ..PodStatus::default()
    };
    patch(pod, status)
}

/// Renders that no node has resources for the Pod.
pub(super) fn unschedulable_patch(pod: &Pod) -> Vec<u8> {
    let status = PodStatus {
        conditions: unschedulable(pod).into_iter().collect(),
        ..PodStatus::default()
    };
    patch(pod, status)
}

/// Renders the rejection by the Pod's kubelet. No container ran, so the status has no further fields.
fn refusal_patch(pod: &Pod) -> Vec<u8> {
    let failure = pod.placement_failure();
    let status = PodStatus {
        observed_generation: pod.generation,
        phase: Some(phase(pod)),
        reason: failure.map(|failure| failure.reason.as_str()),
        message: failure.map(|failure| format!("Pod was rejected: {}", failure.message)),
        start_time: Some(pod.run.scheduled_at.to_rfc3339()),
        ..PodStatus::default()
    };
    patch(pod, status)
}

/// Renders a patch for the Pod, guarded by its UID.
fn patch(pod: &Pod, status: PodStatus<'_>) -> Vec<u8> {
    let metadata = Guard { uid: &pod.uid };
    let patch = Patch { metadata, status };
    serde_json::to_vec(&patch).expect("a status holds only texts, numbers and lists of them")
}

/// Returns the name of the Pod's first container.
pub(super) fn first_container(pod: &Pod) -> &str {
    let first = pod.shape.containers.first();
    first.map_or("", |container| &container.name)
}

/// Returns the phase for the Pod's state of life.
pub(super) fn phase(pod: &Pod) -> &'static str {
    match pod.life {
        Life::Ended(Cause::Exited) if has_succeeded(pod) => "Succeeded",
        Life::Ended(_) => "Failed",
        Life::Running { .. } | Life::BackingOff { .. } | Life::StoppingSidecars { .. }
            if pod.is_initialized() =>
        {
            "Running"
        }
        _ => "Pending",
    }
}

/// Returns when the first container, or else the last init container, exited; otherwise when the Pod was scheduled.
pub(super) fn end_time(pod: &Pod) -> Time {
    let inits = pod.inits.as_deref();
    let ended = pod.first.ended.map(|exit| exit.finished_at);
    ended
        .or_else(|| inits.and_then(Inits::last_end))
        .unwrap_or(pod.run.scheduled_at)
}

fn has_succeeded(pod: &Pod) -> bool {
    let first = pod.first.ended.is_some_and(|exit| exit.code == 0);
    first && pod.others.iter().all(|exit| exit.code == 0)
}

fn reason_and_message(pod: &Pod) -> Option<(&'static str, String)> {
    match (pod.life, &pod.shape.settings) {
        (Life::Ended(Cause::Deadline), _) => Some(("DeadlineExceeded", DEADLINE_MESSAGE.into())),
        (Life::Ended(Cause::Disrupted(cause)), _) => cause.status(first_container(pod)),
        (Life::Ended(Cause::Invalid), Err(message)) => {
            Some((INVALID_ANNOTATION_REASON, message.clone()))
        }
        _ => None,
    }
}

#[derive(Serialize)]
struct Patch<'a> {
    metadata: Guard<'a>,
    status: PodStatus<'a>,
}

#[derive(Serialize)]
struct Guard<'a> {
    uid: &'a str,
}

/// The patched status; omitted fields stay as they are.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus<'a> {
    #[serde(skip_serializing_if = "is_zero")]
    observed_generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time: Option<String>,
    #[serde(rename = "hostIP", skip_serializing_if = "Option::is_none")]
    host_ip: Option<&'a str>,
    #[serde(rename = "hostIPs", skip_serializing_if = "Option::is_none")]
    host_ips: Option<[Ip<'a>; 1]>,
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pod_ip: Option<&'a str>,
    #[serde(rename = "podIPs", skip_serializing_if = "Option::is_none")]
    pod_ips: Option<[Ip<'a>; 1]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    container_statuses: Vec<ContainerStatus<'a>>,
}

#[derive(Serialize)]
struct Ip<'a> {
    ip: &'a str,
}

/// Returns true for zero, which means that the number is unknown.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the serializer passes a reference"
)]
pub(super) fn is_zero(number: &i64) -> bool {
    *number == 0
}

const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";
