//! Runs and the names of their Jobs: which run a Job belongs to, and whether the status lists it.
//!
//! The name of a run's Job is made of the CronJob's name and the minute of the run. So a run has one Job, however
//! often it is tried, and its Job is recognized when nobody remembers creating it.
//!
//! A name has only the minute of the run; the Job's annotation has the exact time.
//!
//! Must not: know of syncs.

use compact_str::{CompactString, format_compact};

use crate::model::{ChildJob, CronJob, Time};

/// From when on runs are looked for, but for a deadline.
pub(super) fn base(cron: &CronJob) -> Time {
    cron.status.last_schedule.unwrap_or(cron.created)
}

/// The name of a run's Job.
#[doc(alias = "getJobName")]
pub(super) fn job_name(cron: &CronJob, run: Time) -> CompactString {
    format_compact!("{}-{}", cron.key.name, run.as_secs().div_euclid(60))
}

/// The run that a Job is of; none if it has no run's name.
pub(super) fn run_of(cron: &CronJob, job: &ChildJob) -> Option<Time> {
    let minute = job.name.strip_prefix(cron.key.name.as_str())?;
    let minute: u32 = minute.strip_prefix('-')?.parse().ok()?;
    let named = Time::from_secs(i64::from(minute) * 60);
    // People may have written there what they like.
    let of_that_minute = |at: &Time| job_name(cron, *at) == job.name;
    Some(job.scheduled.filter(of_that_minute).unwrap_or(named))
}

/// The same, if the status does not list that run yet.
pub(super) fn untold_run(cron: &CronJob, job: &ChildJob) -> Option<Time> {
    run_of(cron, job).filter(|run| *run > base(cron))
}
