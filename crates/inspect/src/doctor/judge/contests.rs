//! Checks whether two controllers work on the same Jobs: each would create and delete Pods for the other.
//!
//! The evidence: `managedFields` has the writers of a Job's status and the time of their last write, and lakh records
//! an Event when it detects another controller.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use lakh_core::ownership::Mode;
use lakh_model::Time;

use crate::{
    doctor::{
        facts::{ANOTHER_CONTROLLER, BUILT_IN, Facts, jobs::JobFacts},
        patient::Patient,
        report::{Diagnosis, Level},
    },
    words::{count, names, span},
};

use super::events::recent;

/// An older status write may be from before a hand-over. lakh itself considers two foreign writes within half a minute
/// a contest, and the other controller gone after a minute.
const RECENT: Duration = Duration::from_secs(120);

/// Prefixes of managers that may write counts but run no Jobs here: `kubectl edit`, and Kueue, which copies the status
/// of a Job that has run on another cluster.
const OTHERS: [&str; 2] = ["kubectl", "kueue"];

pub(super) fn judge(patient: &Patient, facts: &Facts) -> Diagnosis {
    let mut diagnosis = Diagnosis::new("contests").without(&facts.jobs.unseen);
    let at_work: Vec<&JobFacts> = facts
        .jobs
        .found
        .iter()
        .filter(|job| job.is_at_work())
        .collect();
    let told: BTreeSet<String> = recent(facts, RECENT)
        .filter(|it| it.event.reason.as_deref() == Some(ANOTHER_CONTROLLER))
        .map(|event| event.job)
        .collect();
    let mut contests: BTreeMap<Vec<&str>, Vec<String>> = BTreeMap::new();
    for job in &at_work {
        let writers = recent_writers(job, facts.now);
        let name = job.id.key.to_string();
        if writers.len() > 1 {
            let ages = writers.iter();
            let ages = ages.map(|(who, at)| format!("{who} {} ago", span(facts.now.since(*at))));
            let words = format!("{name} ({})", ages.collect::<Vec<_>>().join(", "));
            let pair = writers.into_iter().map(|(who, _)| who).collect();
            contests.entry(pair).or_default().push(words);
        } else if told.contains(&name) {
            contests.entry(Vec::new()).or_default().push(name);
        }
    }
    diagnosis.summary = match (contests.is_empty(), at_work.len()) {
        (false, _) => "two controllers work on the same Jobs".to_owned(),
        (true, 0) if facts.jobs.found.is_empty() && !facts.jobs.unseen.is_empty() => String::new(),
        (true, 0) => format!("no unfinished Job could tell{}", built_in(patient, facts)),
        (true, some) => format!("{}, none with two", count(some, "unfinished Job")),
    };
    for (pair, jobs) in contests {
        let who = match pair.is_empty() {
            true => "somebody else and lakh".to_owned(),
            false => pair.join(" and "),
        };
        diagnosis.find(
            Level::Failed,
            format!(
                "{who} write the status of {}: {}",
                count(jobs.len(), "Job"),
                names(jobs)
            ),
            "both take these Jobs for their own. Each makes Pods that the other takes for surplus",
            remedy(&pair, &patient.mode),
        );
    }
    diagnosis
}

/// Returns the recent writers of a Job's status.
fn recent_writers(job: &JobFacts, now: Time) -> Vec<(&str, Time)> {
    let mut writers: Vec<(&str, Time)> = Vec::new();
    for (who, at) in &job.writers {
        let runs_jobs = !OTHERS.iter().any(|other| who.starts_with(other));
        if !runs_jobs || now.since(*at) > RECENT {
            continue;
        }
        // A writer may have an entry for each operation.
        match writers.iter_mut().find(|(known, _)| known == who) {
            Some((_, last)) => *last = (*last).max(*at),
            None => writers.push((who, *at)),
        }
    }
    writers.sort_unstable();
    writers
}

/// In mode managed-by the built-in controller skips lakh's Jobs, and runs all others: it must stay.
fn remedy(pair: &[&str], mode: &Mode) -> &'static str {
    let is_built_in = pair.contains(&BUILT_IN) || pair.is_empty();
    match mode {
        Mode::Replace if is_built_in => {
            "start kube-controller-manager with --controllers=*,-job-controller,-cronjob-controller, or lakh with \
             --mode managed-by (deploy/README.md)"
        }
        _ => {
            "find out which of them serves these Jobs' spec.managedBy, and end the other one; the API server's audit log \
             names the client of each write"
        }
    }
}

/// Reports that the built-in controllers run, if they do.
fn built_in(patient: &Patient, facts: &Facts) -> String {
    let mut leases = facts.leases.found.iter();
    let runs = leases.any(|lease| lease.name == BUILT_IN && lease.is_live());
    match (runs, &patient.mode) {
        (true, Mode::Replace) => {
            format!("; {BUILT_IN} runs, and whether without its job-controller cannot be seen")
        }
        _ => String::new(),
    }
}
