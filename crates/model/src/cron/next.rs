//! Computes the next time of a schedule.
//!
//! The search proceeds from the largest unit to the smallest: months and days by civil date, hours and minutes by
//! elapsed time. This is upstream's search, and clock changes show it. It steps over an hour that a change by 30
//! minutes splits, and over a midnight that does not exist. A walk over all minutes would find such times. Upstream
//! does not run them, and neither does lakh.

use jiff::{
    ToSpan as _,
    civil::{Date, DateTime, Time as Clock},
};

use crate::Time;

use super::{
    parse::{Fields, Rule, Schedule},
    zone::Zone,
};

/// The number of years that the search looks ahead.
const YEARS: i16 = 5;

/// Times beyond this year do not exist in the library; the search must stay clear of it.
const LAST_YEAR: i16 = 9990;

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;

impl Schedule {
    /// The first time after `after`, in whole seconds, if there is one in the next five years.
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
    /// Returns true if a day matches. If neither day field is a star, one match suffices.
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

/// A search in progress.
struct Search<'a> {
    fields: &'a Fields,
    zone: &'a Zone,
    /// Its current time, in seconds since the epoch.
    at: i64,
    /// Set once the search has left its start time. From then on it is at the beginning of a unit.
    aligned: bool,
}

impl Search<'_> {
    fn run(mut self) -> Option<i64> {
        let last_year = self.now().year().saturating_add(YEARS);
        if last_year > LAST_YEAR {
            return None;
        }
        // On entering a new year, month, day or hour, the search restarts with the largest unit.
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

    /// Moves to a civil time.
    fn go(&mut self, date: Date, clock: Clock) {
        self.at = self.zone.at(date, clock);
    }

    /// Moves from the start time to the beginning of its unit, once.
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
            // A clock change removed midnight.
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
        // Only a search that began within a minute gets here. It continues with the next minute.
        self.aligned = true;
        self.at += MINUTE - second;
        false
    }
}
