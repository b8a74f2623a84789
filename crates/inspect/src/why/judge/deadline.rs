//! Judges Jobs close to their deadline.

use std::time::Duration;

use crate::{
    one_job::{JobPace, JobSight},
    words::{moment, span},
};

use super::super::reason::Reason;

/// A deadline within this time is reported.
const SOON: Duration = Duration::from_secs(300);

/// Reports a deadline that has passed, is near, or comes too early at the Job's completion rate.
pub(super) fn judge(sight: &JobSight) -> Option<Reason> {
    let job = &sight.job;
    let is_over = job.end().is_some() || job.verdict().is_some();
    let (start, limit) = (job.status().start_time?, job.job.spec.active_deadline?);
    if is_over || job.job.spec.suspend {
        return None;
    }
    let due = start + limit;
    let when = moment(due, sight.now);
    if due <= sight.now {
        return Some(Reason::new(
            "deadline-over",
            format!(
                "Its deadline was {when} (spec.activeDeadlineSeconds), and no controller has ended it."
            ),
            "See whether its controller runs: lakh doctor.",
        ));
    }
    let left = due.since(sight.now);
    let needs = JobPace::of(job, sight.now)
        .left
        .filter(|needs| *needs > left);
    if left > SOON && needs.is_none() {
        return None;
    }
    let needs = needs.map_or_else(String::new, |needs| {
        format!(", and at its pace it takes {}", span(needs))
    });
    Some(Reason::new(
        "deadline-soon",
        format!(
            "It fails in {}, at {when}, by its deadline (spec.activeDeadlineSeconds){needs}.",
            span(left)
        ),
        format!(
            "kubectl patch job -n {} {} --type=merge -p '{{\"spec\":{{\"activeDeadlineSeconds\":{}}}}}' gives it \
             twice as long.",
            job.job.key.namespace,
            job.job.key.name,
            limit.as_secs().saturating_mul(2)
        ),
    ))
}
