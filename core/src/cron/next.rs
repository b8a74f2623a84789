//! The next time of a schedule.
//!
//! The search goes from the largest unit to the smallest: months and days by the civil date, hours and minutes by
//! elapsed time. That is upstream's way, and it shows where clocks change: the search steps over an hour that a
//! change by 30 minutes cuts in two, and over a midnight that does not exist. A walk over all minutes would find
//! such times; upstream does not run them, and neither does lakh.

use jiff::{
    ToSpan as _,
    civil::{Date, DateTime, Time as Clock},
};

use crate::model::Time;

use super::{
    parse::{Fields, Rule, Schedule},
    zone::Zone,
};

/// How many years ahead a time is looked for.
const YEARS: i16 = 5;

/// Beyond it there are no times; the search must not come near.
const LAST_YEAR: i16 = 9990;

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;

impl Schedule {
    /// The first time after `after`, if there is one in the next five years: a whole second.
    #[doc(alias = "SpecSchedule")]
    pub fn next(&self, after: Time) -> Option<Time> {
        match &self.rule {
            Rule::Every(delay) => Some(after.whole_secs() + *delay),
            Rule::Fields(fields) => {
                let search = Search {
                    fields,
                    zone: &self.zone,
                    at: after.as_secs() + 1,
                    aligned: false,
                };
                search.run().map(Time::from_secs)
            }
        }
    }
}

impl Fields {
    /// Whether a day is meant: one of the two day fields suffices where neither is a star.
    fn has_day(&self, date: Date) -> bool {
        let of_month = self.day_of_month.has_civil(date.day());
        let of_week = date.weekday().to_sunday_zero_offset();
        let of_week = self.day_of_week.has_civil(of_week);
        if self.day_of_month.star || self.day_of_week.star {
            of_month && of_week
        } else {
            of_month || of_week
        }
    }
}

/// A search under way.
struct Search<'a> {
    fields: &'a Fields,
    zone: &'a Zone,
    /// Where it stands, in seconds since the epoch.
    at: i64,
    /// Whether it has left the time that it began with: from then on it stands at the beginning of
    /// a unit.
    aligned: bool,
}

impl Search<'_> {
    fn run(mut self) -> Option<i64> {
        let last_year = self.now().year().saturating_add(YEARS);
        if last_year > LAST_YEAR {
            return None;
        }
        // Whoever comes into a new year, month, day or hour begins with the largest unit again.
        while self.now().year() <= last_year {
            if self.find_month() && self.find_day() && self.find_hour() && self.find_minute() {
                return Some(self.at);
            }
        }
        None
    }

    fn now(&self) -> DateTime {
        self.zone.civil(self.at)
    }

    /// Goes to a civil time; says so of the first such step.
    fn go(&mut self, date: Date, clock: Clock) {
        self.at = self.zone.at(date, clock);
    }

    /// Leaves the time that it began with, for the beginning of its unit.
    fn align(&mut self, to: impl FnOnce(&mut Self)) {
        if !std::mem::replace(&mut self.aligned, true) {
            to(self);
        }
    }

    fn find_month(&mut self) -> bool {
        while !self.fields.month.has_civil(self.now().month()) {
            self.align(|search| {
                let date = search.now().date().first_of_month();
                search.go(date, Clock::midnight());
            });
            let now = self.now();
            let Ok(next) = now.date().checked_add(1.month()) else {
                return false;
            };
            self.go(next, now.time());
            if self.now().month() == 1 {
                return false;
            }
        }
        true
    }

    fn find_day(&mut self) -> bool {
        while !self.fields.has_day(self.now().date()) {
            self.align(|search| {
                let date = search.now().date();
                search.go(date, Clock::midnight());
            });
            let now = self.now();
            let Ok(next) = now.date().tomorrow() else {
                return false;
            };
            self.go(next, now.time());
            // Where a change of clocks took midnight away.
            match i64::from(self.now().hour()) {
                0 => {}
                hour @ 13.. => self.at += (24 - hour) * HOUR,
                hour => self.at -= hour * HOUR,
            }
            if self.now().day() == 1 {
                return false;
            }
        }
        true
    }

    fn find_hour(&mut self) -> bool {
        while !self.fields.hour.has_civil(self.now().hour()) {
            self.align(|search| {
                let now = search.now();
                search.go(now.date(), Clock::constant(now.hour(), 0, 0, 0));
            });
            self.at += HOUR;
            if self.now().hour() == 0 {
                return false;
            }
        }
        true
    }

    fn find_minute(&mut self) -> bool {
        while !self.fields.minute.has_civil(self.now().minute()) {
            self.align(|search| search.at -= search.at.rem_euclid(MINUTE));
            self.at += MINUTE;
            if self.now().minute() == 0 {
                return false;
            }
        }
        let second = i64::from(self.now().second());
        if second == 0 {
            return true;
        }
        // Only a search that began in the middle of a minute: it goes on with the next one.
        self.aligned = true;
        self.at += MINUTE - second;
        false
    }
}
