//! Loads time zones by name from the built-in IANA database, and converts times.
//!
//! The database is compiled in, so that every machine computes the same times. Names are case-sensitive, as upstream's.

use jiff::{
    Timestamp,
    civil::{Date, DateTime, Time as Clock},
    tz::{TimeZone, TimeZoneDatabase},
};

use crate::Time;

/// No time zone has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone {0}")]
pub struct UnknownZone(pub String);

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: Option<String>,
    zone: TimeZone,
}

impl Zone {
    /// The default zone.
    pub fn utc() -> Self {
        Self {
            name: None,
            zone: TimeZone::UTC,
        }
    }

    /// Loads the zone of this name. In Go, the empty name and `Local` mean the process's own zone; here that is UTC.
    pub fn load(name: &str) -> Result<Self, UnknownZone> {
        if matches!(name, "" | "UTC" | "Local") {
            return Ok(Self {
                name: (name == "UTC").then(|| name.to_owned()),
                zone: TimeZone::UTC,
            });
        }
        let found = TimeZoneDatabase::bundled().get(name).ok();
        // The database ignores case, and has a zone for unknown names.
        let zone = found.filter(|zone| !zone.is_unknown() && zone.iana_name() == Some(name));
        Ok(Self {
            name: Some(name.to_owned()),
            zone: zone.ok_or_else(|| UnknownZone(name.to_owned()))?,
        })
    }

    /// Its name, unless it is the default zone.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Formats a time in this zone: RFC 3339 in whole seconds, with `Z` if the offset is zero.
    pub fn to_rfc3339(&self, time: Time) -> String {
        let at = timestamp(time.as_secs());
        let offset = self.zone.to_offset(at);
        if offset.is_zero() {
            return time.to_rfc3339();
        }
        // Go truncates the seconds of historical offsets.
        let minutes = offset.seconds() / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
        format!("{}{sign}{hours:02}:{minutes:02}", offset.to_datetime(at))
    }

    /// The civil time at a point in time.
    pub(super) fn civil(&self, secs: i64) -> DateTime {
        let at = timestamp(secs);
        self.zone.to_offset(at).to_datetime(at)
    }

    /// The point in time at which clocks show a civil time. Around a clock change they may show it twice or never. Then
    /// the offset from before or after the change applies: as in Go, two lookups of the offset decide.
    pub(super) fn at(&self, date: Date, clock: Clock) -> i64 {
        let local = jiff::tz::Offset::UTC
            .to_timestamp(date.to_datetime(clock))
            .map_or(i64::MAX, Timestamp::as_second);
        let guess = local - self.offset(local);
        local - self.offset(guess)
    }

    fn offset(&self, secs: i64) -> i64 {
        i64::from(self.zone.to_offset(timestamp(secs)).seconds())
    }
}

fn timestamp(secs: i64) -> Timestamp {
    Timestamp::from_second(secs).unwrap_or(Timestamp::MAX)
}
