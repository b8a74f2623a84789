//! Congestion: whether answers take long because of what is in flight.
//!
//! A server that has more than it can do at once does not do it sooner for being asked for more: all that grows is
//! its queue, and whoever comes new waits behind it. How long the same call took when little was in flight tells
//! whether it is that, or whether the server is far away.
//!
//! Must not: know what a call is.

use std::time::Duration;

/// Answers that take less are never too long. On a busy real server 64 of a Job's writes in flight take about 120 ms
/// each, and 32 about 54, by how many the Job makes a second; the Job is as quick with 32, and slower with fewer
/// (docs/flow.md).
const LONG: Duration = Duration::from_millis(50);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    /// The shortest time that an answer took since nothing was in flight.
    least: Option<Duration>,
    /// What the last few dozen took.
    mean: Duration,
    is_congested: bool,
}

impl Congestion {
    /// So long the answer took to a call that is like the others. Half as much in flight takes half as long, so it is
    /// over when twice as much would not be too long.
    pub(super) fn took(&mut self, time: Duration) {
        let least = self.least.map_or(time, |least| least.min(time));
        self.least = Some(least);
        self.mean = (self.mean * 31 + time) / 32;
        let too_long = LONG.max(least * 4);
        self.is_congested = match self.is_congested {
            true => self.mean * 2 >= too_long,
            false => self.mean > too_long,
        };
    }

    /// Nothing is in flight: the next answers tell anew how long one takes.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_congested(&self) -> bool {
        self.is_congested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether there is congestion after so many answers that took so many milliseconds.
    fn after(congestion: &mut Congestion, answers: u32, millis: u64) -> bool {
        for _ in 0..answers {
            congestion.took(Duration::from_millis(millis));
        }
        congestion.is_congested()
    }

    #[test]
    fn answers_that_take_longer_the_more_there_are_show_it() {
        let mut near = Congestion::default();
        assert!(!after(&mut near, 1, 2) && !after(&mut near, 1_000, 49));
        assert!(after(&mut near, 1_000, 52));
        // Less is in flight now.
        assert!(after(&mut near, 1_000, 26));
        assert!(!after(&mut near, 1_000, 24));
        assert!(after(&mut near, 1_000, 60));
        near.forget();
        assert!(!near.is_congested());
    }

    #[test]
    fn a_server_that_is_far_away_is_not_congested() {
        let mut far = Congestion::default();
        assert!(!after(&mut far, 1_000, 100) && !after(&mut far, 1_000, 350));
        assert!(after(&mut far, 1_000, 450));
        assert!(!after(&mut far, 1_000, 150));
    }
}
