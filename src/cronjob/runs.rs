//! Runs and the names of their Jobs: which run a Job is of, and whether the status tells of it.
//!
//! The name of a run's Job is made of the CronJob's and the minute of the run, so that a run makes one
//! Job, whoever tries, and its Job is known again when nobody remembers making it.
//!
//! Must not: know of looks, or of Jobs beyond their names.

use compact_str::{CompactString, format_compact};

use crate::model::{CronJob, Time};

/// From when on runs are looked for, but for a deadline.
pub(super) fn base(cron: &CronJob) -> Time {
    cron.status.last_schedule.unwrap_or(cron.created)
}

/// The name of a run's Job.
pub(super) fn job_name(cron: &CronJob, run: Time) -> CompactString {
    format_compact!("{}-{}", cron.key.name, run.as_secs().div_euclid(60))
}

/// The run that a Job of this name is of; none if it is no run's name.
pub(super) fn run_of(cron: &CronJob, name: &str) -> Option<Time> {
    let minute = name.strip_prefix(cron.key.name.as_str())?;
    let minute: u32 = minute.strip_prefix('-')?.parse().ok()?;
    Some(Time::from_secs(i64::from(minute) * 60))
}

/// The same, if the status does not tell of that run yet.
pub(super) fn untold_run(cron: &CronJob, name: &str) -> Option<Time> {
    run_of(cron, name).filter(|run| *run > base(cron))
}
