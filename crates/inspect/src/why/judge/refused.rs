//! Judges Pod creations that the API server refuses, by the controller's Events.

use std::time::Duration;

use lakh_model::Time;

use crate::{
    objects::{Refusal, RefusedWrite, Refuser, event_time, used_up},
    one_job::JobSight,
    words::{count, moment},
};

use super::super::reason::Reason;

/// A continuing refusal is reported at least this often: after a Job's first Events, once in five minutes.
const RECENT: Duration = Duration::from_secs(10 * 60);

/// Reports the last recent refusal, if the Job has fewer active Pods than it wants.
pub(super) fn judge(sight: &JobSight) -> Option<Reason> {
    let missing = sight.job.wanted_at_once();
    let missing = missing.saturating_sub(sight.job.status().active);
    if missing == 0 {
        return None;
    }
    let events = sight.events.found.iter();
    let creations =
        events.filter(|event| RefusedWrite::of(event) == Some(RefusedWrite::PodCreation));
    let last = creations.max_by_key(|event| event_time(event))?;
    if sight.now.since(event_time(last)) > RECENT {
        return None;
    }
    let refusal = Refusal::of(last.message.as_deref().unwrap_or_default());
    let pods = count(missing as usize, "Pod");
    Some(match refusal.refuser {
        Refuser::Quota => quota(sight, &refusal, &pods, event_time(last)),
        _ => refused(sight, &refusal, &pods),
    })
}

fn quota(sight: &JobSight, refusal: &Refusal<'_>, pods: &str, at: Time) -> Reason {
    let namespace = &sight.job.job.key.namespace;
    let name = refusal.between("exceeded quota: ", ",");
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
            let used = refusal.between("used: ", ", limited: ").split(',');
            let limited = refusal.between("limited: ", "\n");
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

/// Formats used and hard values, such as `3 of 3 pods`.
fn in_words(full: &[(&str, &str, &str)]) -> String {
    let words = full
        .iter()
        .map(|(what, used, hard)| format!("{used} of {hard} {what}"));
    words.collect::<Vec<_>>().join(", ")
}

fn refused(sight: &JobSight, refusal: &Refusal<'_>, pods: &str) -> Reason {
    let namespace = &sight.job.job.key.namespace;
    let words = refusal.words();
    match refusal.refuser {
        Refuser::Quota | Refuser::QuotaWithoutRequests => Reason::new(
            "quota-without-requests",
            format!(
                "Quota {} of namespace {namespace} takes only Pods that say what they request, so that {pods} cannot \
                 be made ({}).",
                refusal.between("failed quota: ", ":"),
                refusal
                    .between("failed quota: ", "\n")
                    .split_once(": ")
                    .unwrap_or_default()
                    .1
            ),
            "Make the Job again with requests and limits in its Pod template, or give the namespace a LimitRange with \
             defaults.",
        ),
        Refuser::Webhook => Reason::new(
            "webhook",
            format!(
                "The admission webhook {} refuses {pods}: {words}.",
                refusal.webhook()
            ),
            "Make the Job again as that asks for, or ask those who run the webhook; the controller tries again by \
             itself.",
        ),
        Refuser::WebhookAway => Reason::new(
            "webhook-away",
            format!(
                "{pods} cannot be made because the admission webhook {} does not answer: {words}.",
                refusal.webhook()
            ),
            "Start the webhook's Pods again, or set its failurePolicy to Ignore; lakh doctor shows its endpoints.",
        ),
        Refuser::PodSecurity => Reason::new(
            "pod-security",
            format!(
                "Namespace {namespace} takes only Pods of Pod security {}, so that {pods} cannot be made: {}.",
                refusal.between("violates PodSecurity \"", "\""),
                words
                    .split_once("\": ")
                    .map_or(words.as_str(), |(_, why)| why)
            ),
            "Make the Job again with a securityContext that keeps to it, or change the namespace's label \
             pod-security.kubernetes.io/enforce.",
        ),
        Refuser::Policy => Reason::new(
            "admission-policy",
            format!("An admission policy refuses {pods}: {words}."),
            "Make the Job again so that it keeps to the policy, or ask those who wrote it.",
        ),
        Refuser::Rights => Reason::new(
            "rights",
            format!(
                "The controller, {}, may not create Pods in namespace {namespace}, so that {pods} cannot be made.",
                refusal.user()
            ),
            "Grant it that with a Role; lakh doctor --service-account NAMESPACE/NAME names all that it lacks.",
        ),
        Refuser::ServiceAccount => Reason::new(
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
        Refuser::PriorityClass => Reason::new(
            "priority-class",
            format!(
                "There is no priority class {}, so that {pods} cannot be made.",
                refusal.between("no PriorityClass with name ", " ")
            ),
            "Create it, or make the Job again with another one.",
        ),
        Refuser::NoAnswer => Reason::new(
            of_server(refusal.refuser),
            whole(&refusal.sentence(&format!("creations of {pods}"))),
            whole(refusal.remedy()),
        ),
        Refuser::StoreFull | Refuser::Busy => Reason::new(
            of_server(refusal.refuser),
            whole(&refusal.sentence(pods)),
            whole(refusal.remedy()),
        ),
        Refuser::Other => Reason::new(
            "refused",
            format!("The API server refuses {pods}: {words}."),
            "Do what that says; the controller tries again by itself.",
        ),
    }
}

/// Returns the cause if the server accepts no write, or does not respond.
pub(super) fn of_server(refuser: Refuser) -> &'static str {
    match refuser {
        Refuser::StoreFull => "store-full",
        Refuser::NoAnswer => "no-answer",
        _ => "busy",
    }
}

/// Makes a whole sentence of half a sentence.
pub(super) fn whole(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase());
    let first: String = first.into_iter().flatten().collect();
    format!("{first}{}.", letters.as_str())
}
