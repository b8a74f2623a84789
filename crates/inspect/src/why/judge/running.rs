//! Judges Jobs without an obstacle, and those without a known reason.

use crate::{
    one_job::{JobPace, JobSight},
    words::{count, rate, span},
};

use super::super::reason::Reason;

/// Reports a running Job.
pub(super) fn judge(sight: &JobSight) -> Option<Reason> {
    let job = &sight.job;
    let status = job.status();
    let is_over = job.end().is_some() || job.verdict().is_some() || job.job.deleting;
    if status.active == 0 || is_over || job.job.spec.suspend {
        return None;
    }
    let wanted = job.wanted_at_once();
    let (what, remedy) = match status.active >= wanted {
        true => (
            "Nothing holds it: all Pods that it wants at once are there",
            "",
        ),
        false => (
            "It runs, with fewer Pods than it wants, and nothing was seen that holds the others",
            "New Pods may be on their way: look again in a few seconds.",
        ),
    };
    let pods = match status.active >= wanted {
        true => format!(
            "{} active, {} ready",
            status.active,
            status.ready.unwrap_or(0)
        ),
        false => format!("{} of {wanted} active", status.active),
    };
    let succeeded = match job.job.spec.completions {
        Some(all) => format!("{} of {all} succeeded", status.succeeded),
        None => format!("{} succeeded", count(status.succeeded as usize, "Pod")),
    };
    let pace = JobPace::of(job, sight.now);
    let rate = pace
        .rate
        .map_or_else(String::new, |it| format!(", {}", rate(it)));
    let left = pace
        .left
        .map_or_else(String::new, |left| format!(", about {} left", span(left)));
    Some(Reason::new(
        "running",
        format!("{what} ({pods}); {succeeded}{rate}{left}."),
        remedy,
    ))
}

/// Reports that no reason was found.
pub(super) fn unknown(sight: &JobSight) -> Reason {
    let unseen = !sight.unseen().is_empty();
    let what = match unseen {
        true => "No Pod is active, and what could be seen does not say why.",
        false => "No Pod is active, and nothing was seen that keeps new ones from being made.",
    };
    Reason::new(
        "unknown",
        what,
        "Look again in a few seconds; if it stays so, see the controller's log, or lakh doctor.",
    )
}
