//! Finds the reasons in a Job's snapshot. A file is one topic.
//!
//! Must not: make a request, or read a clock.

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

use crate::one_job::JobSight;

use super::reason::Reason;

/// If one of these applies, it is the only reason.
const OF_ENDS: [fn(&JobSight) -> Option<Reason>; 3] = [ends::deletion, ends::end, ends::verdict];

/// The judges of Jobs that make no progress. The first reason found is printed. Causes that stop the whole Job come
/// before causes that stop some Pods. Causes that need an action come before temporary ones.
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

/// Returns the reasons, the most important first. There is at least one.
pub(super) fn judge(sight: &JobSight) -> Vec<Reason> {
    if let Some(end) = OF_ENDS.iter().find_map(|judge| judge(sight)) {
        return vec![end];
    }
    // Any other reason follows from this one, or cannot be fixed before.
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
