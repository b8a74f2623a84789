//! Points in time by the two clocks, and timeouts; nothing here reads a clock.
//!
//! The wall clock ([`Time`]) has the date; people and time servers set it. The monotonic clock ([`Monotonic`]) only
//! measures durations; nobody sets it. Dates are shown and compared by the first, waits of a given length go by the
//! second. The types do not mix.

use std::{ops, time::Duration};

use super::Time;

/// Milliseconds of the monotonic clock, since some time at the program's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(u64);

impl Monotonic {
    /// Later than any clock will show.
    pub const MAX: Self = Self(u64::MAX);

    /// A time from milliseconds since the clock's start.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// A time from whole seconds since the clock's start.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// How long ago the clock's start was.
    pub const fn since_start(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl ops::Add<Duration> for Monotonic {
    type Output = Self;

    fn add(self, delay: Duration) -> Self {
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(delay))
    }
}

/// What both clocks show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time of day, for what is written, or compared with what was written.
    pub wall: Time,
    /// For waits.
    pub monotonic: Monotonic,
}

impl Now {
    /// A monotonic clock that began with the Unix epoch and a wall clock that nobody has set since. For tests:
    /// there is no such pair.
    pub const fn at(wall: Time) -> Self {
        let monotonic = match wall.as_millis() {
            millis @ 0.. => Monotonic(millis.cast_unsigned()),
            _ => Monotonic(0),
        };
        Self { wall, monotonic }
    }
}

/// Both clocks after so long, if nobody sets one.
impl ops::Add<Duration> for Now {
    type Output = Self;

    fn add(self, delay: Duration) -> Self {
        Self {
            wall: self.wall + delay,
            monotonic: self.monotonic + delay,
        }
    }
}

/// When a wait is over: when one clock shows its time here, whichever is the first. The default is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeout {
    /// By the monotonic clock.
    pub monotonic: Option<Monotonic>,
    /// By the wall clock: earlier or later than expected, if that is set meanwhile.
    pub wall: Option<Time>,
}

impl Timeout {
    /// How long it still takes, if nobody sets a clock; none if it is for ever.
    pub fn left(self, now: Now) -> Option<Duration> {
        let monotonic = self.monotonic.map(|at| at.since(now.monotonic));
        let wall = self.wall.map(|at| at.since(now.wall));
        monotonic.into_iter().chain(wall).min()
    }

    /// What comes first of this and another, by each of the clocks.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            monotonic: first(self.monotonic, other.monotonic),
            wall: first(self.wall, other.wall),
        }
    }
}

fn first<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

impl From<Monotonic> for Timeout {
    fn from(at: Monotonic) -> Self {
        Self {
            monotonic: Some(at),
            wall: None,
        }
    }
}

impl From<Time> for Timeout {
    fn from(at: Time) -> Self {
        Self {
            monotonic: None,
            wall: Some(at),
        }
    }
}

impl<T: Into<Self>> From<Option<T>> for Timeout {
    fn from(at: Option<T>) -> Self {
        at.map_or_else(Self::default, T::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_goes_by_its_own_clock() {
        let now = Now::at(Time::from_secs(10_000));
        let wall = Timeout::from(now.wall + Duration::from_secs(9));
        let both = wall.or((now.monotonic + Duration::from_secs(5)).into());
        let left = |timeout: Timeout, now| timeout.left(now).map(|left| left.as_secs());
        assert_eq!((left(wall, now), left(both, now)), (Some(9), Some(5)));
        let set_back = Now {
            wall: Time::from_secs(9_000),
            ..now
        };
        assert_eq!(
            (left(wall, set_back), left(both, set_back)),
            (Some(1009), Some(5))
        );
        let set_on = Now {
            wall: Time::from_secs(11_000),
            ..now
        };
        assert_eq!(left(both, set_on), Some(0));
        assert_eq!(left(Timeout::default(), now), None);
    }
}
