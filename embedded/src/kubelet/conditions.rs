//! The conditions of a Pod.
//!
//! Responsible for: what each condition says at each point of a Pod's life, and since when.
//! Must not: repeat `PodScheduled` for a Pod that was bound; the binding has set it.

use serde::Serialize;

use super::{
    containers::unready_names,
    life::{Cause, Life, Pod},
    stages::Disruption,
    status::{end_time, first_container, is_zero, phase},
};
use crate::model::Time;

/// One entry of `status.conditions`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    r#type: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "is_zero")]
    observed_generation: i64,
    #[serde(skip_serializing_if = "ConditionText::is_absent")]
    reason: ConditionText,
    #[serde(skip_serializing_if = "ConditionText::is_absent")]
    message: ConditionText,
    last_transition_time: String,
}

/// A text of a condition. The patch merges conditions by type, so that a text that was there
/// before must be taken away by name.
#[derive(Clone)]
enum ConditionText {
    Absent,
    Cleared,
    Says(String),
}

impl ConditionText {
    fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl Serialize for ConditionText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent | Self::Cleared => serializer.serialize_none(),
            Self::Says(text) => serializer.serialize_str(text),
        }
    }
}

/// All conditions that the Pod's life has a say in.
pub(super) fn conditions(pod: &Pod) -> Vec<Condition> {
    let scheduled_at = pod.run.scheduled_at;
    let ended = pod.is_ended();
    let sandbox_since = if ended { end_time(pod) } else { scheduled_at };
    let mut all = Vec::with_capacity(6);
    if let Life::Ended(Cause::Disrupted(cause)) = pod.life {
        all.extend(disruption_target(pod, cause, end_time(pod)));
    }
    all.extend([
        condition(pod, "PodReadyToStartContainers", !ended, sandbox_since),
        initialized(pod),
        ready(pod, "Ready"),
        ready(pod, "ContainersReady"),
    ]);
    if pod.run.came_bound {
        all.push(condition(pod, "PodScheduled", true, scheduled_at));
    }
    all
}

/// Somebody other than the Pod itself is to blame for its end.
pub(super) fn disruption_target(pod: &Pod, cause: Disruption, since: Time) -> Option<Condition> {
    let (reason, message) = cause.condition(first_container(pod))?;
    Some(Condition {
        reason: ConditionText::Says(reason.to_owned()),
        message: ConditionText::Says(message),
        ..condition(pod, "DisruptionTarget", true, since)
    })
}

/// No node has room for the Pod.
pub(super) fn unschedulable(pod: &Pod) -> Option<Condition> {
    let placement_failure = pod.placement_failure()?;
    Some(Condition {
        reason: ConditionText::Says("Unschedulable".to_owned()),
        message: ConditionText::Says(placement_failure.message.to_string()),
        ..condition(pod, "PodScheduled", false, placement_failure.since)
    })
}

fn initialized(pod: &Pod) -> Condition {
    let inits = pod.inits.as_deref();
    let done_at = inits.and_then(|inits| inits.done_at);
    let since = done_at.unwrap_or(pod.run.scheduled_at);
    let holds = pod.is_initialized();
    let mut initialized = condition(pod, "Initialized", holds, since);
    if let Some(inits) = inits.filter(|_| !holds) {
        initialized.reason = ConditionText::Says("ContainersNotInitialized".to_owned());
        initialized.message = ConditionText::Says(format!(
            "containers with incomplete status: [{}]",
            inits.incomplete(&pod.shape).join(" ")
        ));
    } else if phase(pod) == "Succeeded" {
        initialized.reason = ConditionText::Says("PodCompleted".to_owned());
    }
    initialized
}

fn ready(pod: &Pod, kind: &'static str) -> Condition {
    let unready = unready_names(pod);
    let since = match pod.life {
        Life::Running { .. } => pod.ready_since(),
        Life::Unscheduled
        | Life::Starting { .. }
        | Life::Initializing { .. }
        | Life::InitBackingOff { .. } => pod.run.scheduled_at,
        Life::BackingOff { .. } | Life::Ended(_) => end_time(pod),
    };
    let mut ready = condition(pod, kind, unready.is_empty(), since);
    let reason = match (pod.life, phase(pod)) {
        _ if unready.is_empty() => return ready,
        (_, "Succeeded") => "PodCompleted",
        (Life::Ended(_), _) => "PodFailed",
        _ => "ContainersNotReady",
    };
    ready.reason = ConditionText::Says(reason.to_owned());
    if reason == "ContainersNotReady" {
        let names = unready.join(" ");
        ready.message = ConditionText::Says(format!("containers with unready status: [{names}]"));
    }
    ready
}

/// A condition without texts; texts of earlier statuses are cleared where there can be any.
fn condition(pod: &Pod, kind: &'static str, holds: bool, since: Time) -> Condition {
    let has_inits = pod.inits.is_some();
    let may_have_texts = match kind {
        "Ready" | "ContainersReady" => has_inits || pod.run.restarts > 0 || pod.plan.is_some(),
        "Initialized" => has_inits,
        _ => false,
    };
    let text = if may_have_texts {
        ConditionText::Cleared
    } else {
        ConditionText::Absent
    };
    Condition {
        r#type: kind,
        status: if holds { "True" } else { "False" },
        observed_generation: pod.generation,
        reason: text.clone(),
        message: text,
        last_transition_time: since.to_rfc3339(),
    }
}
