//! Time zones by name, from the IANA database that is built in, and their civil times.
//!
//! The database comes with the program, so that every machine computes the same. Names are
//! case-sensitive, as upstream's.

use jiff::{
    Timestamp,
    civil::{Date, DateTime, Time as Clock},
    tz::{TimeZone, TimeZoneDatabase},
};

use crate::model::Time;

/// A name that is no time zone.
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
    /// The zone where nothing else is said.
    pub fn utc() -> Self {
        Self {
            name: None,
            zone: TimeZone::UTC,
        }
    }

    /// The zone of this name. The empty name and `Local` are the process's own zone, as in Go; that
    /// is UTC here.
    pub fn load(name: &str) -> Result<Self, UnknownZone> {
        if matches!(name, "" | "UTC" | "Local") {
            return Ok(Self {
                name: (name == "UTC").then(|| name.to_owned()),
                zone: TimeZone::UTC,
            });
        }
        let found = TimeZoneDatabase::bundled().get(name).ok();
        // The database ignores case, and has a zone for what is unknown.
        let zone = found.filter(|zone| !zone.is_unknown() && zone.iana_name() == Some(name));
        Ok(Self {
            name: Some(name.to_owned()),
            zone: zone.ok_or_else(|| UnknownZone(name.to_owned()))?,
        })
    }

    /// What it is called, unless it is the one where nothing else is said.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Writes a time as it is here: RFC 3339 in whole seconds, `Z` where that is the same.
    pub fn to_rfc3339(&self, time: Time) -> String {
        let at = timestamp(time.as_secs());
        let offset = self.zone.to_offset(at);
        if offset.is_zero() {
            return time.to_rfc3339();
        }
        // Go cuts what an old offset has of seconds.
        let minutes = offset.seconds() / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
        format!("{}{sign}{hours:02}:{minutes:02}", offset.to_datetime(at))
    }

    /// What clocks show.
    pub(super) fn civil(&self, secs: i64) -> DateTime {
        let at = timestamp(secs);
        self.zone.to_offset(at).to_datetime(at)
    }

    /// When clocks show this: before a change of them, if twice; as far after it as it is missing,
    /// or before it, if never. Go decides so by two looks at the offset.
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
