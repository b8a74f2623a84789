//! Renders the conditions of a Pod.
//!
//! Responsible for: status, texts and transition time of each condition at each point of a Pod's life.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: ConditionText,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: ConditionText,
    last_transition_time: String,
}

/// A text of a condition. `None` omits it; `Some(None)` clears it. The patch merges conditions by type, so an earlier
/// text stays unless it is cleared.
type ConditionText = Option<Option<String>>;

impl Condition {
    fn because(self, reason: &str) -> Self {
        let reason = Some(Some(reason.to_owned()));
        Self { reason, ..self }
    }

    fn saying(self, reason: &str, message: String) -> Self {
        let message = Some(Some(message));
        Self { message, ..self }.because(reason)
    }
}

/// Returns all conditions that follow from the Pod's life.
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

/// Returns the `DisruptionTarget` condition, unless the Pod itself caused its end.
pub(super) fn disruption_target(pod: &Pod, cause: Disruption, since: Time) -> Option<Condition> {
    let (reason, message) = cause.condition(first_container(pod))?;
    let target = condition(pod, "DisruptionTarget", true, since);
    Some(target.saying(reason, message))
}

/// Returns the condition of a Pod for which no node has resources.
pub(super) fn unschedulable(pod: &Pod) -> Option<Condition> {
    let failure = pod.placement_failure()?;
    let scheduled = condition(pod, "PodScheduled", false, failure.since);
    Some(scheduled.saying("Unschedulable", failure.message.to_string()))
}

fn initialized(pod: &Pod) -> Condition {
    let inits = pod.inits.as_deref();
    let done_at = inits.and_then(|inits| inits.done_at);
    let since = done_at.unwrap_or(pod.run.scheduled_at);
    let holds = pod.is_initialized();
    let initialized = condition(pod, "Initialized", holds, since);
    if let Some(inits) = inits.filter(|_| !holds) {
        let names = inits.incomplete(&pod.shape).join(" ");
        let message = format!("containers with incomplete status: [{names}]");
        return initialized.saying("ContainersNotInitialized", message);
    }
    match phase(pod) {
        "Succeeded" => initialized.because("PodCompleted"),
        _ => initialized,
    }
}

fn ready(pod: &Pod, kind: &'static str) -> Condition {
    let unready = unready_names(pod);
    let since = match pod.life {
        Life::Ended(_) => end_time(pod),
        _ if !pod.is_initialized() => pod.run.scheduled_at,
        Life::Unscheduled | Life::Starting { .. } => pod.run.scheduled_at,
        Life::Running { .. } => pod.ready_since(),
        Life::BackingOff { .. } | Life::StoppingSidecars { .. } => end_time(pod),
    };
    let ready = condition(pod, kind, unready.is_empty(), since);
    match (pod.life, phase(pod)) {
        _ if unready.is_empty() => ready,
        (_, "Succeeded") => ready.because("PodCompleted"),
        (Life::Ended(_), _) => ready.because("PodFailed"),
        _ => {
            let message = format!("containers with unready status: [{}]", unready.join(" "));
            ready.saying("ContainersNotReady", message)
        }
    }
}

/// Returns a condition without texts; clears texts of earlier statuses where there may be any.
fn condition(pod: &Pod, kind: &'static str, holds: bool, since: Time) -> Condition {
    let has_inits = pod.inits.is_some();
    let may_have_texts = match kind {
        "Ready" | "ContainersReady" => has_inits || pod.first.restarts > 0 || pod.plan.is_some(),
        "Initialized" => has_inits,
        _ => false,
    };
    let text: ConditionText = may_have_texts.then_some(None);
    Condition {
        r#type: kind,
        status: if holds { "True" } else { "False" },
        observed_generation: pod.generation,
        reason: text.clone(),
        message: text,
        last_transition_time: since.to_rfc3339(),
    }
}
