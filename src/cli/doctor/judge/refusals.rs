//! Why Pods of Jobs were refused of late, by the Events that controllers tell of it.

use std::{collections::BTreeMap, time::Duration};

use crate::cli::doctor::{
    facts::{Facts, POD_REFUSED},
    patient::Patient,
    report::{Diagnosis, Level},
};

use super::{
    events::{JobEvent, recent},
    words::{count, names_once},
};

/// A refusal that goes on is told at least this often: after a Job's first Events, one in five minutes.
const RECENT: Duration = Duration::from_secs(10 * 60);

/// As much of a message is told.
const SHOWN: usize = 300;

/// What refuses a Pod: words of the server's message, and what to do.
struct Refuser {
    words: &'static str,
    what: &'static str,
    remedy: &'static str,
}

/// The first whose words are there is it. Source of the words: the admission plugins and the authorizer of
/// kube-apiserver 1.36.
const REFUSERS: [Refuser; 9] = [
    Refuser {
        words: "exceeded quota: ",
        what: "a quota",
        remedy: "raise the quota, or lower the Jobs' parallelism (kubectl describe quota)",
    },
    Refuser {
        words: "failed quota: ",
        what: "a quota",
        remedy: "give the Pod template the requests and limits that the quota asks for",
    },
    Refuser {
        words: "failed calling webhook",
        what: "a webhook that does not answer",
        remedy: "see the check of webhooks",
    },
    Refuser {
        words: "admission webhook",
        what: "a webhook",
        remedy: "do what its message says, or ask those who run it",
    },
    Refuser {
        words: "violates PodSecurity",
        what: "Pod security",
        remedy: "make the Pod template keep to the level, or change the namespace's label \
                 pod-security.kubernetes.io/enforce",
    },
    Refuser {
        words: "ValidatingAdmissionPolicy",
        what: "an admission policy",
        remedy: "make the Pod template keep to the policy that is named",
    },
    Refuser {
        words: "cannot create resource",
        what: "missing rights of the controller",
        remedy: "see the check of rights; name the controller's account by --service-account",
    },
    Refuser {
        words: "error looking up service account",
        what: "a service account that is not there",
        remedy: "create the service account that the Pod template names",
    },
    Refuser {
        words: "no PriorityClass with name",
        what: "a priority class that is not there",
        remedy: "create the priority class that the Pod template names",
    },
];

const OTHER: Refuser = Refuser {
    words: "",
    what: "the API server",
    remedy: "do what its message says (kubectl describe job)",
};

pub(super) fn judge(_: &Patient, facts: &Facts) -> Diagnosis {
    let mut diagnosis = Diagnosis::new("refused-pods").without(&facts.events.unseen);
    let mut refused: BTreeMap<usize, Vec<JobEvent<'_>>> = BTreeMap::new();
    for event in recent(facts, POD_REFUSED, RECENT) {
        let mut all = REFUSERS.iter();
        let found = all.position(|refuser| event.message.contains(refuser.words));
        refused
            .entry(found.unwrap_or(REFUSERS.len()))
            .or_default()
            .push(event);
    }
    if facts.events.unseen.is_empty() {
        diagnosis.summary = match refused.is_empty() {
            true => "none in the last ten minutes".to_owned(),
            false => "in the last ten minutes".to_owned(),
        };
    }
    for (refuser, events) in refused {
        let refuser = REFUSERS.get(refuser).unwrap_or(&OTHER);
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
                refuser.what,
                names_once(&jobs)
            ),
            message,
            refuser.remedy,
        );
    }
    diagnosis
}
