//! Finds Pods with a finalizer that no controller will remove.
//!
//! Source: docs/rules/jobs.md, 1.6. A Pod with the finalizer is freed if its Job has ended, is gone, or has another
//! UID. It is also freed if it has no controller and no Job adopts it. It is not freed if its Job is unfinished or
//! belongs to another controller. A finished Job that still lists Pods as uncounted changes nothing: its counters are
//! never written again.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use k8s_openapi::api::core::v1::Event;

use lakh_model::{Controller, DEFAULT_MANAGER, JobId, OWN_MANAGER, Time};

use crate::doctor::{
    facts::{Facts, jobs::JobFacts, pods::HeldPod},
    patient::Patient,
    report::{Diagnosis, Level},
};

use crate::{
    objects::{Refusal, RefusedWrite},
    words::{count, names, span},
};

use super::events::newest;

/// A controller frees Pods within seconds, or after a change of leader within the 15 s of a Lease.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time for which an unfinished Job may keep a Pod in deletion. A failed Pod is kept until its index has the next
/// Pod, and that backoff takes up to ten minutes.
const LONG: Duration = Duration::from_secs(15 * 60);

/// Why a Pod is kept that should not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stuck {
    /// Its Job is gone.
    JobGone,
    /// Its Job has finished.
    JobOver,
    /// It has no controller.
    Ownerless,
    /// Its Job has finished and belongs to another controller.
    Foreign,
    /// It has been in deletion for long, and its Job is unfinished: only that Job's controller may free it.
    Waiting,
}

impl Stuck {
    /// Returns true if `--fix` may free the Pod.
    pub(crate) fn is_free_to_go(self) -> bool {
        matches!(self, Self::JobGone | Self::JobOver | Self::Ownerless)
    }
}

pub(super) fn judge(patient: &Patient, facts: &Facts) -> Diagnosis {
    let mut diagnosis = Diagnosis::new("held-pods").without(&facts.pods.unseen);
    let stuck = stuck(patient, facts);
    if !facts.pods.found.is_empty() || facts.pods.unseen.is_empty() {
        let held = count(facts.pods.found.len(), "Pod");
        diagnosis.summary = match stuck.len() {
            0 => format!("{held} held until counted, none too long"),
            some => format!("{held} held until counted, {some} too long"),
        };
    }
    let mut groups: BTreeMap<(Stuck, &'static str), Vec<&HeldPod>> = BTreeMap::new();
    for (pod, why) in &stuck {
        groups.entry((*why, pod.finalizer)).or_default().push(pod);
    }
    for ((why, finalizer), pods) in groups {
        let number = count(pods.len(), "Pod");
        let keys = pods
            .iter()
            .map(|pod| format!("{}/{}", pod.namespace, pod.name));
        let which = names(keys);
        let jobs = owners(&pods);
        let refused = refused_removal(facts, &pods);
        let oldest = pods.iter().filter_map(|pod| pod.deleting_since).min();
        let (level, what, cause, remedy) = match why {
            Stuck::JobGone => (
                Level::Failed,
                format!("{number} of Jobs that are gone ({jobs}): {which}"),
                format!(
                    "{finalizer} is still on them: the controller that is to take it off did not run when the Job \
                         went, or may not patch Pods"
                ),
                "lakh doctor --fix frees them",
            ),
            Stuck::JobOver => (
                Level::Failed,
                format!("{number} of Jobs that are over ({jobs}): {which}"),
                format!(
                    "{finalizer} is still on them: the controller that is to take it off does not run, or may not \
                         patch Pods"
                ),
                "lakh doctor --fix frees them; what the Job has counted stays as it is",
            ),
            Stuck::Ownerless => (
                Level::Failed,
                format!("{number} that nobody owns: {which}"),
                format!(
                    "{finalizer} is still on them; somebody took their owner away, and no unfinished Job means them"
                ),
                "lakh doctor --fix frees them",
            ),
            Stuck::Foreign => (
                Level::Warning,
                format!(
                    "{number} of Jobs that are over and of another controller ({jobs}): {which}"
                ),
                format!(
                    "{finalizer} is still on them, and the Job's spec.managedBy is neither lakh's nor the built-in \
                         controller's"
                ),
                "ask those who run that controller; --fix leaves these alone",
            ),
            Stuck::Waiting => (
                Level::Failed,
                format!(
                    "{number} being deleted for up to {}, of unfinished Jobs ({jobs}): {which}",
                    span(facts.now.since(oldest.unwrap_or(facts.now)))
                ),
                format!(
                    "{finalizer} is still on them, as their Job has not counted them: its controller does not run, or \
                         may not write"
                ),
                "see the checks of leader, rights and managers. If the Job does not matter any more, delete it, with \
                 --cascade=background; once it is gone, --fix frees its Pods",
            ),
        };
        match refused.filter(|_| why != Stuck::Foreign) {
            // The Events give the exact reason.
            Some(refusal) => {
                let fix = match why.is_free_to_go() {
                    true => {
                        ". lakh doctor --fix frees them if you may do what the controller may not"
                    }
                    false => "",
                };
                diagnosis.find(
                    level,
                    what,
                    format!(
                        "{finalizer} is still on them: {}",
                        refusal.sentence("removals of it")
                    ),
                    format!("{}{fix}", refusal.remedy()),
                );
            }
            None => diagnosis.find(level, what, cause, remedy),
        }
    }
    diagnosis
}

/// Returns the newest refusal to remove the finalizer from Pods of these Jobs.
fn refused_removal<'a>(facts: &'a Facts, pods: &[&HeldPod]) -> Option<Refusal<'a>> {
    let jobs = pods.iter().filter_map(|pod| match &pod.controller {
        Controller::Job(id) => Some(id.uid),
        Controller::Other | Controller::None => None,
    });
    let is_removal =
        |event: &Event| RefusedWrite::of(event) == Some(RefusedWrite::FinalizerRemoval);
    let last = newest(facts, jobs, is_removal)?;
    Some(Refusal::of(last.message.as_deref().unwrap_or_default()))
}

/// Returns the Pods that should no longer be kept, with the reason.
pub(crate) fn stuck<'a>(patient: &Patient, facts: &'a Facts) -> Vec<(&'a HeldPod, Stuck)> {
    let jobs: HashMap<&JobId, &JobFacts> =
        facts.jobs.found.iter().map(|job| (&job.id, job)).collect();
    let pods = facts.pods.found.iter();
    let judged = pods.filter_map(|pod| {
        let why = match &pod.controller {
            Controller::Other => None,
            Controller::None => ownerless(pod, facts),
            Controller::Job(id) => owned(patient, pod, jobs.get(id).copied(), facts.now),
        };
        Some((pod, why?))
    });
    judged.collect()
}

fn ownerless(pod: &HeldPod, facts: &Facts) -> Option<Stuck> {
    let is_old = facts.now.since(pod.last_change) > PATIENCE;
    (is_old && !is_meant(pod, &facts.jobs.found)).then_some(Stuck::Ownerless)
}

/// Returns true if an unfinished Job may adopt a Pod.
pub(crate) fn is_meant(pod: &HeldPod, jobs: &[JobFacts]) -> bool {
    let mut beside = jobs
        .iter()
        .filter(|job| job.id.key.namespace == pod.namespace);
    beside.any(|job| {
        let selector = job.selector.as_ref();
        selector.is_some_and(|selector| selector.matches(&pod.labels))
    })
}

fn owned(patient: &Patient, pod: &HeldPod, job: Option<&JobFacts>, now: Time) -> Option<Stuck> {
    let deleting_for = pod.deleting_since.map(|since| now.since(since));
    match job {
        // The time of the Job's deletion is unknown. After it the garbage collector deletes the Pod.
        None => deleting_for
            .filter(|it| *it > PATIENCE)
            .map(|_| Stuck::JobGone),
        Some(job) => match job.finished {
            Some(at) if now.since(at) > PATIENCE => Some(over(patient, job)),
            Some(_) => None,
            None => deleting_for.filter(|it| *it > LONG).map(|_| Stuck::Waiting),
        },
    }
}

/// Classifies the Pods of a finished Job by its controller.
pub(crate) fn over(patient: &Patient, job: &JobFacts) -> Stuck {
    let manager = job.manager.as_deref();
    let is_known = patient.serves(manager)
        || [None, Some(DEFAULT_MANAGER), Some(OWN_MANAGER)].contains(&manager);
    match is_known {
        true => Stuck::JobOver,
        false => Stuck::Foreign,
    }
}

/// Returns the Jobs that own Pods.
fn owners(pods: &[&HeldPod]) -> String {
    let owners = pods.iter().filter_map(|pod| match &pod.controller {
        Controller::Job(id) => Some(&id.key),
        Controller::Other | Controller::None => None,
    });
    crate::words::names_once(owners)
}
