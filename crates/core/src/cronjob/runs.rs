//! Maps runs to the names of their Jobs, and Jobs to their runs.
//!
//! A run's Job is named after the CronJob and the minute of the run. So a run has one Job, however often it is retried,
//! and the Job is recognized even if its creation was not recorded.
//!
//! The name has only the minute of the run; the Job's annotation has the exact time.
//!
//! Must not: know of syncs.

use compact_str::{CompactString, format_compact};

use crate::model::{ChildJob, CronJob, Time};

/// The time after which runs are searched, unless a deadline is later.
pub(super) fn base(cron: &CronJob) -> Time {
    cron.status.last_schedule.unwrap_or(cron.created)
}

/// The name of a run's Job.
#[doc(alias = "getJobName")]
pub(super) fn job_name(cron: &CronJob, run: Time) -> CompactString {
    format_compact!("{}-{}", cron.key.name, run.as_secs().div_euclid(60))
}

/// The run of a Job; none if the Job does not have a run's name.
pub(super) fn run_of(cron: &CronJob, job: &ChildJob) -> Option<Time> {
    let minute = job.name.strip_prefix(cron.key.name.as_str())?;
    let minute: u32 = minute.strip_prefix('-')?.parse().ok()?;
    let named = Time::from_secs(i64::from(minute) * 60);
    // Users may write any text into the annotation.
    let of_that_minute = |at: &Time| job_name(cron, *at) == job.name;
    Some(job.scheduled.filter(of_that_minute).unwrap_or(named))
}

/// The run of a Job, if the status does not cover that run yet.
pub(super) fn untold_run(cron: &CronJob, job: &ChildJob) -> Option<Time> {
    run_of(cron, job).filter(|run| *run > base(cron))
}
