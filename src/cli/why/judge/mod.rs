//! Judges what was seen of a Job: facts in, reasons out. A file is one topic.
//!
//! Must not: ask anybody, or read a clock.

mod deadline;
mod ends;
mod failures;
mod managers;
mod pending;
mod pods;
mod refused;
mod running;
mod store;
mod suspension;
mod waits;
mod writes;

use crate::cli::one_job::JobSight;

use super::reason::Reason;

/// Of a Job that is over, or going to be, nothing else is to be told.
const OF_ENDS: [fn(&JobSight) -> Option<Reason>; 3] = [ends::deletion, ends::end, ends::verdict];

/// What holds a Job. The first that is found is told: what holds it altogether comes before what holds some of its Pods,
/// and what somebody has to do something about before what passes by itself.
const OF_STANDSTILLS: [fn(&JobSight) -> Option<Reason>; 10] = [
    writes::judge,
    suspension::judge,
    managers::untouched,
    managers::contest,
    managers::elsewhere,
    suspension::parallelism,
    refused::judge,
    pending::judge,
    waits::judge,
    pods::judge,
];

/// The reasons, the one that matters first. There is at least one.
pub(super) fn judge(sight: &JobSight) -> Vec<Reason> {
    if let Some(end) = OF_ENDS.iter().find_map(|judge| judge(sight)) {
        return vec![end];
    }
    // Whatever else holds the Job follows from it, or cannot be changed before.
    if let Some(stuck) = store::judge(sight) {
        return vec![stuck];
    }
    let mut reasons: Vec<Reason> = OF_STANDSTILLS
        .iter()
        .filter_map(|judge| judge(sight))
        .collect();
    let is_held = !reasons.is_empty();
    reasons.extend(deadline::judge(sight));
    if !is_held {
        reasons.extend(running::judge(sight));
    }
    if reasons.is_empty() {
        reasons.push(running::unknown(sight));
    }
    reasons
}
