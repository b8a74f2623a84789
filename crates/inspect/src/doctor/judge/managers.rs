//! Checks that each Job has a controller. A Job with a `spec.managedBy` that no controller serves, for example a typo,
//! never starts.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use lakh_core::ownership::Mode;
use lakh_model::{Controller, DEFAULT_MANAGER, JobId};

use crate::{
    doctor::{
        facts::{Facts, jobs::JobFacts},
        patient::Patient,
        report::{Diagnosis, Level},
    },
    objects::meant_manager,
    words::{count, names},
};

/// A controller starts a new Job within seconds, or after a change of leader within the 15 s of a Lease.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn judge(patient: &Patient, facts: &Facts) -> Diagnosis {
    let mut diagnosis = Diagnosis::new("managers").without(&facts.jobs.unseen);
    let mut managers: BTreeMap<&str, [Vec<&JobFacts>; 3]> = BTreeMap::new();
    let with_pods: HashSet<&JobId> = facts
        .pods
        .found
        .iter()
        .filter_map(|pod| match &pod.controller {
            Controller::Job(id) => Some(id),
            Controller::Other | Controller::None => None,
        })
        .collect();
    let events = facts.events.found.iter();
    let warned: HashSet<&str> = events
        .filter_map(|event| event.involved_object.uid.as_deref())
        .collect();
    for job in facts.jobs.found.iter().filter(|job| job.is_at_work()) {
        let [begun, waiting, silent] = managers.entry(manager(job)).or_default();
        // Pods and Warnings show that a controller works on it.
        let is_worked_on =
            with_pods.contains(&job.id) || warned.contains(job.id.uid.to_string().as_str());
        let is_new = facts.now.since(job.created.unwrap_or_default()) < PATIENCE;
        if job.has_begun {
            begun.push(job);
        } else if !is_new && !job.suspended && !job.is_deleting {
            // A queue may hold back a suspended Job before any controller has to handle it.
            match is_worked_on {
                true => silent.push(job),
                false => waiting.push(job),
            }
        }
    }
    let at_work: usize = managers
        .values()
        .map(|kinds| kinds.iter().map(Vec::len).sum::<usize>())
        .sum();
    if !facts.jobs.found.is_empty() || facts.jobs.unseen.is_empty() {
        diagnosis.summary = match at_work {
            0 => "no unfinished Job".to_owned(),
            some => format!(
                "{} of {}",
                count(some, "unfinished Job"),
                names(managers.keys())
            ),
        };
    }
    for (name, [begun, waiting, silent]) in &managers {
        if !silent.is_empty() {
            let jobs = names(silent.iter().map(|job| &job.id.key));
            let number = count(silent.len(), "Job");
            diagnosis.find(
                Level::Warning,
                format!("{number} of spec.managedBy {name} without a status after a minute: {jobs}"),
                "their Pods or Warnings suggest that a controller works on them: its status updates are refused, or it has \
                 too much to do",
                format!(
                    "see the checks of refused-writes and refused-pods, and the log of {name}; do not start a second \
                     controller"
                ),
            );
        }
        if waiting.is_empty() {
            continue;
        }
        let jobs = names(waiting.iter().map(|job| &job.id.key));
        let number = count(waiting.len(), "Job");
        let what = format!("{number} of spec.managedBy {name} not begun after a minute: {jobs}");
        if !begun.is_empty() || !silent.is_empty() {
            diagnosis.find(
                Level::Warning,
                what,
                format!("others of {name} have begun, so there is a controller; it may have too much to do, or work in \
                         some namespaces only"),
                format!("look at the log and the metrics of {name}"),
            );
            continue;
        }
        let is_blind = !facts.pods.unseen.is_empty() || !facts.events.unseen.is_empty();
        let (cause, remedy) = match is_blind && *name == DEFAULT_MANAGER {
            true => (
                "no controller serves it, or one does whose Pods and Events could not be seen"
                    .to_owned(),
                "look with rights to list Pods and Events before you start a controller".to_owned(),
            ),
            false => unserved(patient, name),
        };
        diagnosis.find(Level::Failed, what, cause, remedy);
    }
    diagnosis
}

fn manager(job: &JobFacts) -> &str {
    job.manager.as_deref().unwrap_or(DEFAULT_MANAGER)
}

/// Returns why no controller serves a manager, and the remedy.
fn unserved(patient: &Patient, name: &str) -> (String, String) {
    let own = patient.manager();
    if name == own {
        let cause = "lakh, whose Jobs these are, does not run, or may not read or write them";
        let remedy = "see the checks of leader and rights; then its log";
        return (cause.to_owned(), remedy.to_owned());
    }
    if let Some(meant) = meant_manager(name, own) {
        let cause = format!("no controller serves it, and it is spelled nearly as {meant}");
        let remedy = format!(
            "the field cannot be changed: delete these Jobs and create them again with spec.managedBy: {meant}"
        );
        return (cause, remedy);
    }
    let cause = match (name == DEFAULT_MANAGER, &patient.mode) {
        (true, Mode::ManagedBy(_)) => {
            "the built-in Job controller does not run, and lakh in mode managed-by leaves these Jobs alone"
        }
        _ => "no controller serves it",
    };
    let remedy = match name == DEFAULT_MANAGER {
        true => {
            "start kube-controller-manager without -job-controller in its --controllers, or lakh with --mode replace"
                .to_owned()
        }
        false => format!(
            "start the controller of that name. If there is none, delete these Jobs and create them again with \
             spec.managedBy: {own}, or without the field"
        ),
    };
    (cause.to_owned(), remedy)
}
