//! Parses a schedule.

use std::time::Duration;

use crate::go_duration_nanos;

use super::{
    error::ScheduleError,
    field::{DAY_OF_MONTH, DAY_OF_WEEK, Field, HOUR, MINUTE, MONTH},
    zone::Zone,
};

/// The schedule of a CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub(super) rule: Rule,
    pub(super) zone: Zone,
}

/// The two kinds of schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// At the times that the fields match.
    Fields(Fields),
    /// At this interval, in whole seconds.
    Every(Duration),
}

/// The five fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) minute: Field,
    pub(super) hour: Field,
    pub(super) day_of_month: Field,
    pub(super) month: Field,
    pub(super) day_of_week: Field,
}

/// The prefix of an interval.
const EVERY: &str = "@every ";

impl Schedule {
    /// Parses a schedule with an optional prefix `TZ=NAME` or `CRON_TZ=NAME`.
    #[doc(alias = "ParseStandard")]
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let wrong = |part, at: &str, why| Err(ScheduleError::new(part, text, at, why));
        if text.is_empty() {
            return wrong("schedule", text, "empty spec string".to_owned());
        }
        let prefixed = text.strip_prefix("TZ=").or(text.strip_prefix("CRON_TZ="));
        let (zone, rest) = match prefixed.map(|tail| (tail, tail.split_once(' '))) {
            None => (Zone::utc(), text),
            Some((_, Some((name, rest)))) => match Zone::load(name) {
                Ok(zone) => (zone, rest.trim()),
                Err(error) => {
                    let why = format!("provided bad location {name}: {error}");
                    return wrong("time zone", name, why);
                }
            },
            // The message of upstream's parser, which panics here.
            Some((tail, None)) => {
                let why = "invalid schedule format: runtime error: slice bounds out of range [:-1]";
                return wrong("time zone", tail, why.to_owned());
            }
        };
        let rule = if rest.starts_with('@') {
            descriptor(rest, text)?
        } else {
            Rule::Fields(Fields::parse(rest, text)?)
        };
        Ok(Self { rule, zone })
    }

    /// Parses the schedule of a CronJob with its `timeZone`, which a zone in the schedule overrides.
    pub fn of_cron_job(schedule: &str, time_zone: Option<&Zone>) -> Result<Self, ScheduleError> {
        let mut read = Self::parse(schedule)?;
        if let Some(zone) = time_zone
            && !names_zone(schedule)
        {
            read.zone = zone.clone();
        }
        Ok(read)
    }

    /// The time zone of the schedule.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }
}

/// Returns true if the schedule contains the letters that upstream takes for a time zone prefix.
pub fn names_zone(schedule: &str) -> bool {
    schedule.contains("TZ")
}

fn descriptor(rest: &str, text: &str) -> Result<Rule, ScheduleError> {
    if let Some(length) = rest.strip_prefix(EVERY) {
        let nanos = go_duration_nanos(length).map_err(|error| {
            let why = format!("failed to parse duration {rest}: {error}");
            ScheduleError::new("duration", text, length, why)
        })?;
        let secs = u64::try_from(nanos / 1_000_000_000).unwrap_or(0).max(1);
        return Ok(Rule::Every(Duration::from_secs(secs)));
    }
    let fields = match rest {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let why = format!("unrecognized descriptor: {rest}");
            return Err(ScheduleError::new("descriptor", text, rest, why));
        }
    };
    Fields::parse(fields, fields).map(Rule::Fields)
}

impl Fields {
    fn parse(rest: &str, text: &str) -> Result<Self, ScheduleError> {
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let [minute, hour, day_of_month, month, day_of_week] = fields[..] else {
            let why = format!(
                "expected exactly 5 fields, found {}: [{}]",
                fields.len(),
                fields.join(" ")
            );
            let kinds = [&MINUTE, &HOUR, &DAY_OF_MONTH, &MONTH, &DAY_OF_WEEK];
            // The first missing part, or the surplus.
            let part = kinds
                .get(fields.len())
                .map_or("schedule", |bounds| bounds.name);
            let at = fields
                .get(kinds.len())
                .copied()
                .unwrap_or(&rest[rest.len()..]);
            return Err(ScheduleError::new(part, text, at, why));
        };
        Ok(Self {
            minute: Field::parse(&MINUTE, minute, text)?,
            hour: Field::parse(&HOUR, hour, text)?,
            day_of_month: Field::parse(&DAY_OF_MONTH, day_of_month, text)?,
            month: Field::parse(&MONTH, month, text)?,
            day_of_week: Field::parse(&DAY_OF_WEEK, day_of_week, text)?,
        })
    }
}
