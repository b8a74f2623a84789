//! Pods that the API server refuses to make, by the controller's Events.

use std::time::Duration;

use crate::{
    cli::{
        objects::{PodRefuser, event_time, used_up},
        one_job::JobSight,
        words::{count, moment},
    },
    model::Time,
};

use super::super::reason::Reason;

/// The reason of the Event.
const POD_REFUSED: &str = "FailedCreate";

/// A refusal that goes on is told at least this often: after a Job's first Events, one in five minutes.
const RECENT: Duration = Duration::from_secs(10 * 60);

/// As much of a message is told.
const SHOWN: usize = 300;

/// See the module's text.
pub(super) fn judge(sight: &JobSight) -> Option<Reason> {
    let missing = sight.job.wanted_at_once();
    let missing = missing.saturating_sub(sight.job.status().active);
    if missing == 0 {
        return None;
    }
    let events = sight.events.found.iter();
    let told = events.filter(|event| event.reason.as_deref() == Some(POD_REFUSED));
    let last = told.max_by_key(|event| event_time(event))?;
    if sight.now.since(event_time(last)) > RECENT {
        return None;
    }
    let message = last.message.as_deref().unwrap_or_default();
    let pods = count(missing as usize, "Pod");
    Some(match PodRefuser::of(message) {
        PodRefuser::Quota => quota(sight, message, &pods, event_time(last)),
        other => refused(sight, other, message, &pods),
    })
}

fn quota(sight: &JobSight, message: &str, pods: &str, at: Time) -> Reason {
    let namespace = &sight.job.job.key.namespace;
    let name = between(message, "exceeded quota: ", ",");
    let mut quotas = sight.quotas.found.iter();
    let seen = quotas.find(|quota| quota.metadata.name.as_deref() == Some(name));
    let full = seen.map(used_up);
    if full.as_ref().is_some_and(Vec::is_empty) {
        return Reason::new(
            "quota-had-no-room",
            format!(
                "Quota {name} of namespace {namespace} had no room for {pods} at {}; it has by now.",
                moment(at, sight.now)
            ),
            "Wait: the controller tries again by itself.",
        );
    }
    let full = match full {
        Some(full) => in_words(&full),
        // `used: pods=3,cpu=2, limited: pods=3,cpu=2`
        None => {
            let used = between(message, "used: ", ", limited: ").split(',');
            let (_, limited) = message.split_once("limited: ").unwrap_or_default();
            let both = used.zip(limited.split(','));
            let both = both.filter_map(|(used, limit)| {
                let ((what, used), (_, limit)) = used.split_once('=').zip(limit.split_once('='))?;
                Some((what, used, limit))
            });
            in_words(&both.collect::<Vec<_>>())
        }
    };
    Reason::new(
        "quota",
        format!(
            "Quota {name} of namespace {namespace} is used up ({full}), so that {pods} cannot be made."
        ),
        "Raise the quota, wait until others there have ended, or lower spec.parallelism.",
    )
}

/// `3 of 3 pods`, and so on.
fn in_words(full: &[(&str, &str, &str)]) -> String {
    let words = full
        .iter()
        .map(|(what, used, hard)| format!("{used} of {hard} {what}"));
    words.collect::<Vec<_>>().join(", ")
}

fn refused(sight: &JobSight, refuser: PodRefuser, message: &str, pods: &str) -> Reason {
    let namespace = &sight.job.job.key.namespace;
    let shown: String = message.chars().take(SHOWN).collect();
    let shown = shown.trim_end_matches('.');
    // Before it stands what was refused, under a name that no longer matters.
    let why = ["is forbidden: ", "Error creating: "];
    let why = why.into_iter().find_map(|start| shown.split_once(start));
    let why = why.map_or(shown, |(_, why)| why);
    match refuser {
        PodRefuser::Quota | PodRefuser::QuotaWithoutRequests => Reason::new(
            "quota-without-requests",
            format!(
                "Quota {} of namespace {namespace} takes only Pods that say what they request, so that {pods} cannot \
                 be made ({}).",
                between(message, "failed quota: ", ":"),
                between(shown, "failed quota: ", "\n")
                    .split_once(": ")
                    .unwrap_or_default()
                    .1
            ),
            "Make the Job again with requests and limits in its Pod template, or give the namespace a LimitRange with \
             defaults.",
        ),
        PodRefuser::Webhook => {
            let name = between(message, "admission webhook \"", "\"");
            let said = message.split_once("denied the request: ");
            let said = said.map_or(shown, |(_, said)| said);
            let said: String = said.chars().take(SHOWN).collect();
            Reason::new(
                "webhook",
                format!(
                    "The admission webhook {name} refuses {pods}: {}.",
                    said.trim_end_matches('.')
                ),
                "Make the Job again as that asks for, or ask those who run the webhook.",
            )
        }
        PodRefuser::WebhookAway => Reason::new(
            "webhook-away",
            format!(
                "{pods} cannot be made because the admission webhook {} does not answer: {}.",
                between(message, "failed calling webhook \"", "\""),
                shown
                    .split_once("failed to call webhook: ")
                    .map_or(why, |(_, why)| why)
            ),
            "Start the webhook's Pods again, or set its failurePolicy to Ignore; lakh doctor shows its endpoints.",
        ),
        PodRefuser::PodSecurity => Reason::new(
            "pod-security",
            format!(
                "Namespace {namespace} takes only Pods of Pod security {}, so that {pods} cannot be made: {}.",
                between(message, "violates PodSecurity \"", "\""),
                why.split_once("\": ").map_or(why, |(_, why)| why)
            ),
            "Make the Job again with a securityContext that keeps to it, or change the namespace's label \
             pod-security.kubernetes.io/enforce.",
        ),
        PodRefuser::Policy => Reason::new(
            "admission-policy",
            format!("An admission policy refuses {pods}: {why}."),
            "Make the Job again so that it keeps to the policy, or ask those who wrote it.",
        ),
        PodRefuser::Rights => {
            let user = between(message, "User \"", "\"");
            Reason::new(
                "rights",
                format!(
                    "The controller, {user}, may not create Pods in namespace {namespace}, so that {pods} cannot be made."
                ),
                "Grant it that with a Role; lakh doctor --service-account NAMESPACE/NAME names all that it lacks.",
            )
        }
        PodRefuser::ServiceAccount => Reason::new(
            "service-account",
            format!(
                "Namespace {namespace} has no service account {}, so that {pods} cannot be made.",
                sight.job.service_account
            ),
            format!(
                "kubectl create serviceaccount -n {namespace} {} makes it.",
                sight.job.service_account
            ),
        ),
        PodRefuser::PriorityClass => Reason::new(
            "priority-class",
            format!(
                "There is no priority class {}, so that {pods} cannot be made.",
                between(message, "no PriorityClass with name ", " ")
            ),
            "Create it, or make the Job again with another one.",
        ),
        PodRefuser::Other => Reason::new(
            "refused",
            format!("The API server refuses {pods}: {why}."),
            "Do what that says; the controller tries again by itself.",
        ),
    }
}

/// What of a text is between these two; up to its end if the second is missing.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text.split_once(start).map_or("", |(_, rest)| rest);
    rest.split_once(end).map_or(rest, |(found, _)| found)
}
