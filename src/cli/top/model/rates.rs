//! How many Pods ended in each of the last seconds.
//!
//! Must not: read a clock.

use std::{collections::VecDeque, time::Duration};

use crate::model::Time;

/// So many seconds are kept: a wide terminal shows that many.
const SECONDS: usize = 180;

/// What a status tells at once has ended since the one before, but hardly longer ago than this: so seldom do controllers
/// write the status of a big Job (docs/limits.md).
const LONGEST_STEP: Duration = Duration::from_secs(10);

/// A rate is of this long.
const WINDOW: i64 = 10;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(in crate::cli::top) struct RateHistory {
    /// The second of the last one.
    last: i64,
    /// What ended in each second, the last one at the end.
    seconds: VecDeque<f32>,
}

impl RateHistory {
    /// Takes in that so many ended between two times, the later one being now.
    pub(in crate::cli::top) fn add(&mut self, ended: u64, since: Time, now: Time) {
        let step = now.since(since).min(LONGEST_STEP);
        let millis = i64::try_from(step.as_millis()).unwrap_or(0).max(1);
        let (start, end) = (now.as_millis() - millis, now.as_millis());
        self.reach(now.as_secs());
        for second in Time::from_millis(start).as_secs()..=now.as_secs() {
            let overlap = end.min((second + 1) * 1000) - start.max(second * 1000);
            if let Some(place) = self.place(second) {
                self.seconds[place] += ended as f32 * overlap as f32 / millis as f32;
            }
        }
    }

    /// Where a second is, if it is kept.
    fn place(&self, second: i64) -> Option<usize> {
        let back = usize::try_from(self.last - second).ok()?;
        self.seconds.len().checked_sub(back)?.checked_sub(1)
    }

    fn reach(&mut self, second: i64) {
        if self.seconds.is_empty() {
            self.last = second;
            self.seconds = vec![0.0; SECONDS].into();
        }
        let missing = usize::try_from(second - self.last).unwrap_or(0);
        for _ in 0..missing.min(SECONDS) {
            self.seconds.pop_front();
            self.seconds.push_back(0.0);
        }
        self.last = self.last.max(second);
    }

    /// Up to which second something is known: of the seconds since the last status, nobody knows yet.
    fn end(&self, now: Time) -> i64 {
        let step = i64::try_from(LONGEST_STEP.as_secs()).unwrap_or(0);
        match now.as_secs() - self.last > step {
            true => now.as_secs(),
            false => self.last,
        }
    }

    /// So many ended in each of the last `count` seconds, the last one at the end.
    pub(in crate::cli::top) fn bars(&self, count: usize, now: Time) -> impl Iterator<Item = f32> {
        let end = self.end(now);
        let count = i64::try_from(count).unwrap_or(0);
        (end - count + 1..=end).map(move |second| self.of(second))
    }

    fn of(&self, second: i64) -> f32 {
        self.place(second).map_or(0.0, |place| self.seconds[place])
    }

    /// How many end a second, by now.
    pub(in crate::cli::top) fn rate(&self, now: Time) -> f64 {
        let end = self.end(now);
        // The second that is not over is a part of one.
        let sum: f32 = (end - WINDOW..=end).map(|second| self.of(second)).sum();
        f64::from(sum) / WINDOW as f64
    }

    /// Whether nothing of it would be seen.
    pub(in crate::cli::top) fn is_over(&self, now: Time) -> bool {
        now.as_secs() - self.last > i64::try_from(SECONDS).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(history: &RateHistory, count: usize, now: i64) -> Vec<f32> {
        history.bars(count, Time::from_secs(now)).collect()
    }

    #[test]
    fn what_ended_between_two_looks_is_spread_over_the_time_between() {
        let mut history = RateHistory::default();
        history.add(30, Time::from_secs(100), Time::from_millis(103_000));
        assert_eq!(bars(&history, 5, 103), [0.0, 10.0, 10.0, 10.0, 0.0]);
        history.add(5, Time::from_millis(103_000), Time::from_millis(103_500));
        assert_eq!(bars(&history, 4, 103), [10.0, 10.0, 10.0, 5.0]);
        // Of the seconds since then nothing is known, and after a while that means that none ended.
        assert_eq!(bars(&history, 2, 108), [10.0, 5.0]);
        assert_eq!(bars(&history, 2, 120), [0.0, 0.0]);
        assert_eq!(history.rate(Time::from_secs(104)), 3.5);
        assert_eq!(history.rate(Time::from_secs(130)), 0.0);
    }

    #[test]
    fn a_long_silence_is_no_long_trickle() {
        let mut history = RateHistory::default();
        history.add(100, Time::from_secs(1_000), Time::from_secs(2_000));
        assert_eq!(
            bars(&history, 12, 2_000),
            [0., 10., 10., 10., 10., 10., 10., 10., 10., 10., 10., 0.]
        );
        assert!(!history.is_over(Time::from_secs(2_100)));
        assert!(history.is_over(Time::from_secs(2_200)));
    }

    #[test]
    fn a_clock_that_is_set_back_breaks_nothing() {
        let mut history = RateHistory::default();
        history.add(10, Time::from_secs(1_000), Time::from_secs(1_001));
        history.add(10, Time::from_secs(900), Time::from_secs(901));
        assert_eq!(history.rate(Time::from_secs(1_001)), 1.0);
    }
}
