//! Which run is due: the latest of those that were missed, and whether they were many
//! (docs/rules/cronjobs.md, 8 and 9).

use std::time::Duration;

use crate::model::Time;

use super::parse::Schedule;

/// So many missed runs are worth a warning, if there are more.
const MANY: i64 = 100;

/// How many runs were missed before the one that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "missedSchedulesType")]
pub enum Missed {
    /// None.
    None,
    /// Some, a hundred at most.
    Few,
    /// More than a hundred.
    Many,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The run to start, if any.
    pub run: Option<Time>,
    /// How many were missed.
    pub missed: Missed,
}

/// The runs of a schedule are no second apart: it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub struct TooClose;

impl Schedule {
    /// What is due of the runs after `base`, up to now. Runs that are not evenly spread are guessed
    /// at from the first two, as upstream; where the guess misses, nothing is due though some were.
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

    /// How long it is until the next run, without regard to when a run is too late. Less than zero
    /// is now.
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

/// What upstream waits beyond the time of the next run.
const EXTRA: Duration = Duration::from_millis(100);
