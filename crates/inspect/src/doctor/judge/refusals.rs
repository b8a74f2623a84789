//! Reports why Pods of Jobs were refused recently, from the controllers' Events.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    doctor::{
        facts::Facts,
        patient::Patient,
        report::{Diagnosis, Level},
    },
    objects::{Refusal, RefusedWrite, Refuser},
    words::{count, cut, names_once},
};

use super::events::{JobEvent, recent};

/// A continuing refusal is reported at least this often: after a Job's first Events, once in five minutes.
const RECENT: Duration = Duration::from_secs(10 * 60);

/// The longest part of a message that is printed.
const SHOWN: usize = 300;

/// Returns the refusing component, and the remedy.
fn words(refuser: Refuser) -> (&'static str, &'static str) {
    match refuser {
        Refuser::Quota => (
            "a quota",
            "raise the quota, or lower the Jobs' parallelism (kubectl describe quota)",
        ),
        Refuser::QuotaWithoutRequests => (
            "a quota",
            "give the Pod template the requests and limits that the quota asks for",
        ),
        Refuser::WebhookAway => (
            "a webhook that does not answer",
            "see the check of webhooks",
        ),
        Refuser::Webhook => (
            "a webhook",
            "do what its message says, or ask those who run it",
        ),
        Refuser::PodSecurity => (
            "Pod security",
            "make the Pod template keep to the level, or change the namespace's label \
             pod-security.kubernetes.io/enforce",
        ),
        Refuser::Policy => (
            "an admission policy",
            "make the Pod template keep to the policy that is named",
        ),
        Refuser::Rights => (
            "missing rights of the controller",
            "see the check of rights; name the controller's account by --service-account",
        ),
        Refuser::ServiceAccount => (
            "a service account that is not there",
            "create the service account that the Pod template names",
        ),
        Refuser::PriorityClass => (
            "a priority class that is not there",
            "create the priority class that the Pod template names",
        ),
        Refuser::StoreFull => ("a full store of the API server", "see the check of store"),
        Refuser::Busy => (
            "an API server that is too busy",
            "wait: the controller tries again by itself; see the check of api-priority",
        ),
        Refuser::NoAnswer => (
            "an API server that does not answer",
            "look at what is between the controller and the API server (network, proxy, certificate, open files) and at the \
             controller's log",
        ),
        Refuser::Other => (
            "the API server",
            "do what its message says (kubectl describe job)",
        ),
    }
}

pub(super) fn judge(_: &Patient, facts: &Facts) -> Diagnosis {
    let mut diagnosis = Diagnosis::new("refused-pods").without(&facts.events.unseen);
    let mut refused: BTreeMap<Refuser, Vec<JobEvent<'_>>> = BTreeMap::new();
    let mut over = 0;
    for event in recent(facts, RECENT) {
        match RefusedWrite::of(event.event) {
            // A Job that has all its Pods by now is no longer blocked.
            Some(RefusedWrite::PodCreation) if event.facts.is_some_and(|job| job.missing == 0) => {
                over += 1;
            }
            Some(RefusedWrite::PodCreation) => {
                let refuser = Refusal::of(event.message()).refuser;
                refused.entry(refuser).or_default().push(event);
            }
            _ => {}
        }
    }
    if facts.events.unseen.is_empty() {
        diagnosis.summary = match (refused.is_empty(), over) {
            (true, 0) => "none in the last ten minutes".to_owned(),
            (true, _) => "those of the last ten minutes are over".to_owned(),
            (false, _) => "in the last ten minutes".to_owned(),
        };
    }
    for (refuser, events) in refused {
        let (what, remedy) = words(refuser);
        let mut jobs: Vec<&str> = events.iter().map(|event| event.job.as_str()).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let last = events.iter().max_by_key(|event| event.at);
        let message = cut(last.map_or("", JobEvent::message), SHOWN);
        diagnosis.find(
            Level::Failed,
            format!(
                "Pods of {} are refused by {}: {}",
                count(jobs.len(), "Job"),
                what,
                names_once(&jobs)
            ),
            message,
            remedy,
        );
    }
    diagnosis
}
