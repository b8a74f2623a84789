//! Finds the run that is due, the latest of the missed ones, and counts the missed ones
//! (docs/rules/cronjobs.md, 8 and 9).

use std::time::Duration;

use crate::Time;

use super::parse::Schedule;

/// The number of missed runs above which a warning is due.
const MANY: i64 = 100;

/// The number of runs missed before the one that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "missedSchedulesType")]
pub enum Missed {
    /// None.
    None,
    /// Some, at most a hundred.
    Few,
    /// More than a hundred.
    Many,
}

/// The result of [`Schedule::due`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The run to start, if any.
    pub run: Option<Time>,
    /// The number of missed runs.
    pub missed: Missed,
}

/// The runs of a schedule are less than a second apart, or it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub struct TooClose;

impl Schedule {
    /// Returns the run that is due after `base` and up to now. Like upstream, it extrapolates from the interval between
    /// the first two runs. For uneven schedules the guess may miss, and no run is due although some were missed.
    #[doc(alias = "mostRecentScheduleTime")]
    pub fn due(&self, base: Time, now: Time) -> Result<Due, TooClose> {
        let due = |run, missed| Ok(Due { run, missed });
        let first = self.next(base).ok_or(TooClose)?;
        if now < first {
            return due(None, Missed::None);
        }
        let second = self.next(first).ok_or(TooClose)?;
        if now < second {
            return due(Some(first), Missed::None);
        }
        let between = second.as_secs() - first.as_secs();
        let elapsed = now.since(first).as_secs();
        let elapsed = i64::try_from(elapsed).unwrap_or(i64::MAX);
        let missed = elapsed / between.max(1) + 1;
        let skipped = missed.saturating_sub(2).saturating_mul(between);
        let mut from = Time::from_secs(first.as_secs().saturating_add(skipped));
        let mut run = None;
        while let Some(next) = self.next(from).filter(|next| *next <= now) {
            (from, run) = (next, Some(next));
        }
        let missed = if missed > MANY {
            Missed::Many
        } else {
            Missed::Few
        };
        due(run, missed)
    }

    /// The time until the next run, ignoring the starting deadline. Zero if the run is overdue.
    #[doc(alias = "nextScheduleTimeDuration")]
    pub fn next_delay(&self, base: Time, now: Time) -> Option<Duration> {
        let from = match self.due(base, now) {
            Err(TooClose) => now,
            Ok(Due { run: Some(run), .. }) => run,
            Ok(Due {
                missed: Missed::None,
                ..
            }) => base,
            Ok(_) => now,
        };
        Some((self.next(from)? + EXTRA).since(now))
    }
}

/// The delay that upstream adds to the time of the next run.
const EXTRA: Duration = Duration::from_millis(100);
