//! Why Pods of Jobs were refused of late, by the Events that controllers tell of it.

use std::{collections::BTreeMap, time::Duration};

use crate::cli::{
    doctor::{
        facts::{Facts, POD_REFUSED},
        patient::Patient,
        report::{Diagnosis, Level},
    },
    objects::PodRefuser,
    words::{count, names_once},
};

use super::events::{JobEvent, recent};

/// A refusal that goes on is told at least this often: after a Job's first Events, one in five minutes.
const RECENT: Duration = Duration::from_secs(10 * 60);

/// As much of a message is told.
const SHOWN: usize = 300;

/// What refuses a Pod, and what to do.
fn words(refuser: PodRefuser) -> (&'static str, &'static str) {
    match refuser {
        PodRefuser::Quota => (
            "a quota",
            "raise the quota, or lower the Jobs' parallelism (kubectl describe quota)",
        ),
        PodRefuser::QuotaWithoutRequests => (
            "a quota",
            "give the Pod template the requests and limits that the quota asks for",
        ),
        PodRefuser::WebhookAway => (
            "a webhook that does not answer",
            "see the check of webhooks",
        ),
        PodRefuser::Webhook => (
            "a webhook",
            "do what its message says, or ask those who run it",
        ),
        PodRefuser::PodSecurity => (
            "Pod security",
            "make the Pod template keep to the level, or change the namespace's label \
             pod-security.kubernetes.io/enforce",
        ),
        PodRefuser::Policy => (
            "an admission policy",
            "make the Pod template keep to the policy that is named",
        ),
        PodRefuser::Rights => (
            "missing rights of the controller",
            "see the check of rights; name the controller's account by --service-account",
        ),
        PodRefuser::ServiceAccount => (
            "a service account that is not there",
            "create the service account that the Pod template names",
        ),
        PodRefuser::PriorityClass => (
            "a priority class that is not there",
            "create the priority class that the Pod template names",
        ),
        PodRefuser::Other => (
            "the API server",
            "do what its message says (kubectl describe job)",
        ),
    }
}

pub(super) fn judge(_: &Patient, facts: &Facts) -> Diagnosis {
    let mut diagnosis = Diagnosis::new("refused-pods").without(&facts.events.unseen);
    let mut refused: BTreeMap<PodRefuser, Vec<JobEvent<'_>>> = BTreeMap::new();
    for event in recent(facts, POD_REFUSED, RECENT) {
        let refuser = PodRefuser::of(event.message);
        refused.entry(refuser).or_default().push(event);
    }
    if facts.events.unseen.is_empty() {
        diagnosis.summary = match refused.is_empty() {
            true => "none in the last ten minutes".to_owned(),
            false => "in the last ten minutes".to_owned(),
        };
    }
    for (refuser, events) in refused {
        let (what, remedy) = words(refuser);
        let mut jobs: Vec<&str> = events.iter().map(|event| event.job.as_str()).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let message = events.first().map_or("", |event| event.message);
        let message: String = message.chars().take(SHOWN).collect();
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
