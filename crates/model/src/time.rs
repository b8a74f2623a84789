//! Models a date as a value; nothing here reads a clock.
//!
//! Kubernetes writes times as RFC 3339 in whole seconds ([`Time::to_rfc3339`]). lakh keeps milliseconds internally, so
//! that short delays can be scheduled.

use std::{ops, time::Duration};

/// Milliseconds since the Unix epoch, wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// A time from milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// A time from whole seconds since the Unix epoch.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down: the resolution of API times.
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The same time, rounded down to the API's resolution.
    #[must_use]
    pub const fn whole_secs(self) -> Self {
        Self::from_secs(self.as_secs())
    }

    /// The duration since `earlier`; zero if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Parses an RFC 3339 time such as `2026-11-21T03:20:00Z`; fractions below a millisecond are cut.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let timestamp: jiff::Timestamp = text.parse().ok()?;
        Some(Self(timestamp.as_millisecond()))
    }

    /// Formats the time as API objects carry it: RFC 3339 in UTC, whole seconds.
    pub fn to_rfc3339(self) -> String {
        match jiff::Timestamp::from_second(self.as_secs()) {
            Ok(timestamp) => timestamp.to_string(),
            Err(_) => jiff::Timestamp::MAX.to_string(),
        }
    }

    /// Formats the time as a Kubernetes `MicroTime`: RFC 3339 in UTC, with six fractional digits.
    pub fn to_rfc3339_micros(self) -> String {
        let timestamp = jiff::Timestamp::from_millisecond(self.0);
        format!("{:.6}", timestamp.unwrap_or(jiff::Timestamp::MAX))
    }
}

impl ops::Add<Duration> for Time {
    type Output = Self;

    fn add(self, delay: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_times_are_whole_seconds_in_utc() {
        let time = Time::from_millis(1_795_231_200_999);
        assert_eq!(time.to_rfc3339(), "2026-11-21T03:20:00Z");
        assert_eq!(
            Time::parse_rfc3339("2026-11-21T04:20:00+01:00"),
            Some(Time::from_secs(time.as_secs()))
        );
        assert_eq!(Time::parse_rfc3339("yesterday"), None);
    }

    #[test]
    fn a_time_that_lies_ahead_is_zero_long_ago() {
        assert_eq!(Time::from_secs(5).since(Time::from_secs(9)), Duration::ZERO);
    }
}
