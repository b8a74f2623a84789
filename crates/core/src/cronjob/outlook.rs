//! Describes a CronJob's schedule in words and lists its next runs, for users.
//!
//! Must not: start runs; [`super::CronJobSync`] does.

use std::iter::successors;

use crate::{
    cron::{Schedule, Zone, explain},
    model::{CronJob, Time},
};

use super::runs::base;

/// The description of a CronJob's schedule and its next runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The schedule in words.
    pub words: String,
    /// The next runs. A suspended CronJob has those that it would have otherwise.
    pub runs: Vec<Time>,
}

impl Outlook {
    /// Describes a CronJob, with at most `count` runs.
    ///
    /// # Errors
    ///
    /// The error in its schedule or time zone.
    pub fn of(cron: &CronJob, count: usize, now: Time) -> Result<Self, String> {
        let zone = cron.spec.time_zone.as_deref().map(Zone::load).transpose();
        let zone = zone.map_err(|error| error.to_string())?;
        let schedule = Schedule::of_cron_job(&cron.spec.schedule, zone.as_ref());
        let schedule = schedule.map_err(|error| format!("unparseable schedule: {error}"))?;
        let first = schedule.next_delay(base(cron), now);
        // Drops the delay added to the run's time.
        let first = first.map(|delay| Time::from_secs((now + delay).as_secs()));
        Ok(Self {
            words: explain(&schedule),
            runs: successors(first, |run| schedule.next(*run))
                .take(count)
                .collect(),
        })
    }
}
