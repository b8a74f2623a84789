//! Reports refused writes of controllers that work: statuses of Jobs, finalizers and deletions of their Pods. Refused
//! creations are in `refusals`.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    doctor::{
        facts::Facts,
        patient::Patient,
        report::{Diagnosis, Level},
    },
    objects::{Refusal, RefusedWrite, Refuser},
    words::{count, names_once},
};

use super::events::{JobEvent, recent};

/// A continuing refusal is reported at least this often: after a Job's first Events, once in five minutes.
const RECENT: Duration = Duration::from_secs(10 * 60);

pub(super) fn judge(_: &Patient, facts: &Facts) -> Diagnosis {
    let mut diagnosis = Diagnosis::new("refused-writes").without(&facts.events.unseen);
    let mut refused: BTreeMap<(RefusedWrite, Refuser), Vec<JobEvent<'_>>> = BTreeMap::new();
    // A status written since then shows that the controller makes progress.
    for event in recent(facts, RECENT).filter(|event| !event.is_before_status()) {
        match RefusedWrite::of(event.event) {
            None | Some(RefusedWrite::PodCreation) => {}
            Some(write) => {
                let refuser = Refusal::of(event.message()).refuser;
                refused.entry((write, refuser)).or_default().push(event);
            }
        }
    }
    if facts.events.unseen.is_empty() {
        diagnosis.summary = match refused.is_empty() {
            true => "none that still holds a Job".to_owned(),
            false => "in the last ten minutes".to_owned(),
        };
    }
    for ((write, _), events) in refused {
        let mut jobs: Vec<&str> = events.iter().map(|event| event.job.as_str()).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let Some(last) = events.iter().max_by_key(|event| event.at) else {
            continue;
        };
        let refusal = Refusal::of(last.message());
        diagnosis.find(
            Level::Failed,
            format!(
                "{} of {} are refused: {}",
                write.of_jobs(),
                count(jobs.len(), "Job"),
                names_once(&jobs)
            ),
            refusal.sentence("these writes"),
            refusal.remedy(),
        );
    }
    diagnosis
}
