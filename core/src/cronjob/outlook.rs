//! What comes of a CronJob: its schedule in words, and its next runs, for people.
//!
//! Must not: be what starts runs; that is [`super::CronJobSync`].

use std::iter::successors;

use crate::{
    cron::{Schedule, Zone, explain},
    model::{CronJob, Time},
};

use super::runs::base;

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// When it runs, in words.
    pub words: String,
    /// Its next runs, also where it is suspended and would only have them otherwise.
    pub runs: Vec<Time>,
}

impl Outlook {
    /// That of a CronJob, with so many runs at most.
    ///
    /// # Errors
    ///
    /// What is wrong with its schedule or its time zone.
    pub fn of(cron: &CronJob, count: usize, now: Time) -> Result<Self, String> {
        let zone = cron.spec.time_zone.as_deref().map(Zone::load).transpose();
        let zone = zone.map_err(|error| error.to_string())?;
        let schedule = Schedule::of_cron_job(&cron.spec.schedule, zone.as_ref());
        let schedule = schedule.map_err(|error| format!("unparseable schedule: {error}"))?;
        let first = schedule.next_delay(base(cron), now);
        // Without what is waited beyond it.
        let first = first.map(|delay| Time::from_secs((now + delay).as_secs()));
        Ok(Self {
            words: explain(&schedule),
            runs: successors(first, |run| schedule.next(*run))
                .take(count)
                .collect(),
        })
    }
}
