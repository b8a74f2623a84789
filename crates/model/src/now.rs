//! Models points in time on the wall clock and the monotonic clock, and timeouts. Nothing here reads a clock.
//!
//! The wall clock ([`Time`]) has the date; people and time servers set it. The monotonic clock ([`Monotonic`]) only
//! measures durations and is never set. Dates are displayed and compared on the wall clock. Waits of a given length use
//! the monotonic clock. The types do not mix.

use std::{ops, time::Duration};

use super::Time;

/// Milliseconds of the monotonic clock; its zero lies near the program's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(u64);

impl Monotonic {
    /// Later than any reading of the clock.
    pub const MAX: Self = Self(u64::MAX);

    /// A time from milliseconds since the clock's start.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// A time from whole seconds since the clock's start.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// The duration since the clock's start.
    pub const fn since_start(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// The duration since `earlier`; zero if it lies ahead.
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

/// A simultaneous reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The date, to be written or compared with a written date.
    pub wall: Time,
    /// The base of waits.
    pub monotonic: Monotonic,
}

impl Now {
    /// A monotonic clock that began with the Unix epoch and a wall clock that was never set since. For tests: no real
    /// clocks agree so.
    pub const fn at(wall: Time) -> Self {
        let monotonic = match wall.as_millis() {
            millis @ 0.. => Monotonic(millis.cast_unsigned()),
            _ => Monotonic(0),
        };
        Self { wall, monotonic }
    }
}

/// The reading of both clocks after a delay, if neither is set.
impl ops::Add<Duration> for Now {
    type Output = Self;

    fn add(self, delay: Duration) -> Self {
        Self {
            wall: self.wall + delay,
            monotonic: self.monotonic + delay,
        }
    }
}

/// The deadline of a wait: it ends when the first of the clocks reaches its time. The default never ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeout {
    /// The deadline on the monotonic clock.
    pub monotonic: Option<Monotonic>,
    /// The deadline on the wall clock. Setting that clock moves the end of the wait.
    pub wall: Option<Time>,
}

impl Timeout {
    /// The time left if no clock is set; none if the wait never ends.
    pub fn left(self, now: Now) -> Option<Duration> {
        let monotonic = self.monotonic.map(|at| at.since(now.monotonic));
        let wall = self.wall.map(|at| at.since(now.wall));
        monotonic.into_iter().chain(wall).min()
    }

    /// The earlier of two timeouts, on each clock.
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
