//! The status of a Pod, as a patch for the API server.
//!
//! Responsible for: the patch as a whole, and its phase. Must not: decide anything; it renders what
//! `life` says. Conditions and containers have files of their own.

use std::borrow::Cow;

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
    let (reason, message) = reason_and_message(pod);
    patch(
        pod,
        PodStatus {
            observed_generation: pod.generation,
            phase: phase(pod),
            reason,
            message,
            start_time: pod.run.scheduled_at.to_rfc3339(),
            host_ip: &host_ip,
            host_ips: [Ip { ip: &host_ip }],
            pod_ip: &pod_ip,
            pod_ips: [Ip { ip: &pod_ip }],
            conditions: conditions(pod),
            init_container_statuses: init_statuses(pod),
            container_statuses: container_statuses(pod),
        },
    )
}

/// Renders what others than the Pod's kubelet say of it: why they take it away, and perhaps that it
/// has ended.
pub(super) fn disruption_patch(
    pod: &Pod,
    cause: Disruption,
    phase: Option<&'static str>,
) -> Vec<u8> {
    let removal = pod.plan.as_deref().and_then(|plan| plan.removal);
    let since = removal.map_or(pod.run.started_at, |removal| removal.since);
    let target = disruption_target(pod, cause, since);
    let conditions = target.into_iter().collect();
    patch(pod, Mark { phase, conditions })
}

/// Renders that no node has room for the Pod.
pub(super) fn unschedulable_patch(pod: &Pod) -> Vec<u8> {
    let (phase, conditions) = (None, unschedulable(pod).into_iter().collect());
    patch(pod, Mark { phase, conditions })
}

/// Renders that the Pod's kubelet did not take it: nothing ever ran, so there is nothing else to say.
fn refusal_patch(pod: &Pod) -> Vec<u8> {
    let failure = pod.placement_failure();
    let refusal = Refusal {
        observed_generation: pod.generation,
        phase: phase(pod),
        reason: failure.map(|failure| failure.reason.as_str()),
        message: failure.map(|failure| format!("Pod was rejected: {}", failure.message)),
        start_time: pod.run.scheduled_at.to_rfc3339(),
    };
    patch(pod, refusal)
}

/// A patch of the Pod with this UID.
fn patch(pod: &Pod, status: impl Serialize) -> Vec<u8> {
    let metadata = Guard { uid: &pod.uid };
    let patch = Patch { metadata, status };
    serde_json::to_vec(&patch).expect("a status holds only texts, numbers and lists of them")
}

/// The name of the container that the Pod's life is about.
pub(super) fn first_container(pod: &Pod) -> &str {
    let first = pod.shape.containers.first();
    first.map_or("", |container| &container.name)
}

/// The phase that follows from the Pod's life.
pub(super) fn phase(pod: &Pod) -> &'static str {
    match pod.life {
        Life::Unscheduled
        | Life::Starting { .. }
        | Life::Initializing { .. }
        | Life::InitBackingOff { .. } => "Pending",
        Life::Running { .. } | Life::BackingOff { .. } => "Running",
        Life::Ended(Cause::Exited) if has_succeeded(pod) => "Succeeded",
        Life::Ended(_) => "Failed",
    }
}

/// When the Pod ended; only of interest once it has.
pub(super) fn end_time(pod: &Pod) -> Time {
    let inits = pod.inits.as_deref();
    let ended = pod.run.ended.map(|exit| exit.finished_at);
    ended
        .or_else(|| inits.and_then(Inits::last_end))
        .unwrap_or(pod.run.scheduled_at)
}

fn has_succeeded(pod: &Pod) -> bool {
    let mut exits = [pod.run.ended, pod.run.others].into_iter();
    exits.all(|exit| exit.is_some_and(|exit| exit.code == 0))
}

fn reason_and_message(pod: &Pod) -> (Option<&str>, Option<Cow<'_, str>>) {
    match (pod.life, &pod.shape.settings) {
        (Life::Ended(Cause::Deadline), _) => {
            (Some("DeadlineExceeded"), Some(DEADLINE_MESSAGE.into()))
        }
        (Life::Ended(Cause::Disrupted(cause)), _) => match cause.status(first_container(pod)) {
            Some((reason, message)) => (Some(reason), Some(message.into())),
            None => (None, None),
        },
        (Life::Ended(Cause::Invalid), Err(message)) => {
            (Some(INVALID_ANNOTATION_REASON), Some(message.into()))
        }
        _ => (None, None),
    }
}

#[derive(Serialize)]
struct Patch<'a, S> {
    metadata: Guard<'a>,
    status: S,
}

#[derive(Serialize)]
struct Mark {
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'static str>,
    conditions: Vec<Condition>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Refusal<'a> {
    #[serde(skip_serializing_if = "is_zero")]
    observed_generation: i64,
    phase: &'static str,
    reason: Option<&'a str>,
    message: Option<String>,
    start_time: String,
}

#[derive(Serialize)]
struct Guard<'a> {
    uid: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus<'a> {
    #[serde(skip_serializing_if = "is_zero")]
    observed_generation: i64,
    phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    start_time: String,
    #[serde(rename = "hostIP")]
    host_ip: &'a str,
    #[serde(rename = "hostIPs")]
    host_ips: [Ip<'a>; 1],
    #[serde(rename = "podIP")]
    pod_ip: &'a str,
    #[serde(rename = "podIPs")]
    pod_ips: [Ip<'a>; 1],
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

/// Whether a number stands for "not known".
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the serializer passes a reference"
)]
pub(super) fn is_zero(number: &i64) -> bool {
    *number == 0
}

const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";
