//! Judges whether a controller runs the Job, and which one.

use std::time::Duration;

use lakh_model::{DEFAULT_MANAGER, OWN_MANAGER};

use crate::{
    objects::{event_time, meant_manager},
    one_job::JobSight,
    words::{cut, moment, span},
};

use super::{super::reason::Reason, refused, writes};

/// A controller starts a new Job within seconds, or after a change of leader within the 15 s of a Lease.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reason of the Event by which lakh reports another controller on the Job.
const CONTEST: &str = "AnotherController";

/// lakh repeats that Event within five minutes, and considers the other controller gone after one minute.
const CONTEST_LASTS: Duration = Duration::from_secs(300);

/// The longest part of a Warning's message that is printed.
const LONGEST: usize = 300;

/// The manager of Jobs that run on another cluster. Their Pods are not here.
const OTHER_CLUSTER: &str = "kueue.x-k8s.io/multikueue";

/// Reports a Job without a status. Pods and Warnings may show that a controller works on it nevertheless.
pub(super) fn untouched(sight: &JobSight) -> Option<Reason> {
    let job = &sight.job;
    // A refused write is a better reason, and another judge reports it.
    if job.has_begun() || writes::half(sight).is_some() || refused::judge(sight).is_some() {
        return None;
    }
    let age = sight.now.since(job.created.unwrap_or_default());
    if let Some(at_work) = at_work(sight, age) {
        return Some(at_work);
    }
    let manager = job.job.spec.managed_by.as_deref();
    let name = manager.unwrap_or(DEFAULT_MANAGER);
    if age < PATIENCE {
        return Some(Reason::new(
            "just-made",
            format!(
                "It was made {} ago, and no controller has begun it yet.",
                span(age)
            ),
            "Look again in a minute.",
        ));
    }
    if !sight.pods_unseen.is_empty() || !sight.events.unseen.is_empty() {
        return Some(Reason::new(
            "no-status",
            format!(
                "No status has been written in the {} since it was made, and its Pods or Events could not be seen.",
                span(age)
            ),
            "See with more rights whether a controller works on it (kubectl get pods, kubectl describe job, lakh doctor) \
             before you start one.",
        ));
    }
    if name == DEFAULT_MANAGER {
        return Some(Reason::new(
            "no-controller",
            format!(
                "No controller has touched it in the {} since it was made.",
                span(age)
            ),
            "Start kube-controller-manager with its job controller, or lakh with --mode replace; if one runs, its log \
             and lakh doctor say what keeps it.",
        ));
    }
    let what = format!(
        "Its spec.managedBy is {name}, and no controller of that name has begun it in the {} since it was made",
        span(age)
    );
    let meant = meant_manager(name, OWN_MANAGER).map_or_else(String::new, |meant| {
        format!("; it is spelled nearly as {meant}")
    });
    let remedy = match name {
        OWN_MANAGER => "Start lakh in mode managed-by; if it runs, lakh doctor says what keeps it.",
        _ => {
            "Start that controller, or delete the Job and make it again with another name: the field cannot be changed."
        }
    };
    Some(Reason::new(
        "nobody-serves",
        format!("{what}{meant}."),
        remedy,
    ))
}

/// Reports a Job that a controller works on, according to its Pods or Warnings.
fn at_work(sight: &JobSight, age: Duration) -> Option<Reason> {
    let warnings = sight.events.found.iter();
    let warnings = warnings.filter(|event| event.type_.as_deref() == Some("Warning"));
    let last = warnings.max_by_key(|event| event_time(event));
    let since = format!("in the {} since it was made", span(age));
    if let Some(last) = last {
        let (reason, message) = (last.reason.as_deref(), last.message.as_deref());
        let message = cut(message.unwrap_or_default(), LONGEST);
        return Some(Reason::new(
            "no-status",
            format!(
                "No status has been written {since}; the last Warning about it is {}: {}.",
                reason.unwrap_or("without a reason"),
                message.trim_end_matches('.')
            ),
            "Do what that says; lakh doctor says whether a controller runs. Do not start a second one before.",
        ));
    }
    (sight.pods.seen > 0).then(|| match age < PATIENCE {
        true => Reason::new(
            "just-made",
            format!(
                "It was made {} ago; it has Pods, and no status yet.",
                span(age)
            ),
            "Look again in a minute.",
        ),
        false => Reason::new(
            "no-status",
            format!(
                "It has Pods, so a controller works on it, and no status has been written {since}."
            ),
            "The controller's log and lakh doctor say why; do not start a second one.",
        ),
    })
}

/// Reports two controllers on the Job.
pub(super) fn contest(sight: &JobSight) -> Option<Reason> {
    let events = sight.events.found.iter();
    let told = events.filter(|event| event.reason.as_deref() == Some(CONTEST));
    let last = told.max_by_key(|event| event_time(event))?;
    let is_recent = sight.now.since(event_time(last)) <= CONTEST_LASTS;
    is_recent.then(|| {
        Reason::new(
            "another-controller",
            "Another Job controller writes its counts, too, so lakh creates no Pods for it. Pods that are too many, and \
             those of a suspended Job, are still deleted.",
            "Stop one of them: lakh doctor names both; or start lakh with --takeover for a hand-over on purpose.",
        )
    })
}

/// Reports a Job that another controller runs without Pods here.
pub(super) fn elsewhere(sight: &JobSight) -> Option<Reason> {
    let job = &sight.job;
    let name = job.job.spec.managed_by.as_deref()?;
    let is_known = [DEFAULT_MANAGER, OWN_MANAGER].contains(&name);
    let is_idle = job.status().active == 0 && sight.pods.seen == 0;
    if !job.has_begun() || is_known || !(is_idle || name == OTHER_CLUSTER) {
        return None;
    }
    let writer = job
        .status_writer
        .as_ref()
        .map_or_else(String::new, |writer| {
            let at = writer
                .at
                .map_or_else(String::new, |at| format!(" at {}", moment(at, sight.now)));
            format!("; {} last wrote its status{at}", writer.manager)
        });
    let remedy = match name {
        OTHER_CLUSTER => "Its Pods run on another cluster: kubectl get workloads says on which.",
        _ => {
            "Ask those who run that controller: neither the built-in one nor lakh touches the Job."
        }
    };
    Some(Reason::new(
        "managed-elsewhere",
        format!("The controller {name} runs it (spec.managedBy){writer}."),
        remedy,
    ))
}
