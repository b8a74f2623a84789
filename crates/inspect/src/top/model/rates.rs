//! Counts the Pods that ended in each of the last seconds.
//!
//! Must not: read a clock.

use std::{collections::VecDeque, time::Duration};

use lakh_model::Time;

/// Number of seconds kept: a wide terminal shows as many.
const SECONDS: usize = 180;

/// Longest time over which the Pods of one status update are spread. They have ended since the previous update;
/// controllers write the status of a big Job at intervals of up to about this (docs/limits.md).
const LONGEST_STEP: Duration = Duration::from_secs(10);

/// Window of a rate in seconds.
const WINDOW: i64 = 10;

/// Numbers of ended Pods in each of the last [`SECONDS`] seconds.
#[derive(Clone, Debug, Default)]
pub(in crate::top) struct RateHistory {
    /// The second of the last entry.
    last: i64,
    /// The number for each second, the last one at the end.
    seconds: VecDeque<f32>,
}

impl RateHistory {
    /// Spreads `ended` Pods over the time from `since` to `now`.
    pub(in crate::top) fn add(&mut self, ended: u64, since: Time, now: Time) {
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

    /// Returns the position of a second, if it is kept.
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

    /// Returns the last second with data. The seconds since the last status are unknown at first.
    fn end(&self, now: Time) -> i64 {
        let step = i64::try_from(LONGEST_STEP.as_secs()).unwrap_or(0);
        match now.as_secs() - self.last > step {
            true => now.as_secs(),
            false => self.last,
        }
    }

    /// Returns the numbers of the last `count` seconds, the last one at the end.
    pub(in crate::top) fn bars(&self, count: usize, now: Time) -> impl Iterator<Item = f32> {
        let end = self.end(now);
        let count = i64::try_from(count).unwrap_or(0);
        (end - count + 1..=end).map(move |second| self.of(second))
    }

    fn of(&self, second: i64) -> f32 {
        self.place(second).map_or(0.0, |place| self.seconds[place])
    }

    /// Returns the current number of Pods that end per second.
    pub(in crate::top) fn rate(&self, now: Time) -> f64 {
        let end = self.end(now);
        // The current second is incomplete.
        let sum: f32 = (end - WINDOW..=end).map(|second| self.of(second)).sum();
        f64::from(sum) / WINDOW as f64
    }

    /// Returns true if all entries are outside of the kept time.
    pub(in crate::top) fn is_over(&self, now: Time) -> bool {
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
    fn pods_ended_between_two_reads_are_spread_over_the_time_between() {
        let mut history = RateHistory::default();
        history.add(30, Time::from_secs(100), Time::from_millis(103_000));
        assert_eq!(bars(&history, 5, 103), [0.0, 10.0, 10.0, 10.0, 0.0]);
        history.add(5, Time::from_millis(103_000), Time::from_millis(103_500));
        assert_eq!(bars(&history, 4, 103), [10.0, 10.0, 10.0, 5.0]);
        // The seconds since then are unknown; after a while they count as zero.
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
