//! Parses one field of a schedule into a set of numbers.
//!
//! The set is a `u64` with a bit per number. A field also has a *star* flag: it is written as `*` or `?`. The flag
//! decides how the two day fields combine.

use super::error::ScheduleError;

/// The bounds of a field, its name and the names of its numbers.
#[doc(alias = "bounds")]
#[derive(Debug)]
pub(super) struct FieldBounds {
    pub(super) name: &'static str,
    pub(super) min: u32,
    pub(super) max: u32,
    /// Names of the numbers, starting with the name of `min`.
    pub(super) names: &'static [&'static str],
}

impl FieldBounds {
    const fn new(
        name: &'static str,
        (min, max): (u32, u32),
        names: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            min,
            max,
            names,
        }
    }
}

pub(super) const MINUTE: FieldBounds = FieldBounds::new("minute", (0, 59), &[]);

pub(super) const HOUR: FieldBounds = FieldBounds::new("hour", (0, 23), &[]);

pub(super) const DAY_OF_MONTH: FieldBounds = FieldBounds::new("day of month", (1, 31), &[]);

pub(super) const MONTH: FieldBounds = FieldBounds::new(
    "month",
    (1, 12),
    &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
);

pub(super) const DAY_OF_WEEK: FieldBounds = FieldBounds::new(
    "day of week",
    (0, 6),
    &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
);

/// The set of numbers that a field matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) bits: u64,
    pub(super) star: bool,
}

impl Field {
    /// Returns true if the field matches a number.
    pub(super) fn has(self, number: u32) -> bool {
        self.bits >> number & 1 == 1
    }

    /// Returns true if the field matches a component of a date or time of day.
    pub(super) fn has_civil(self, number: i8) -> bool {
        self.has(u32::from(number.unsigned_abs()))
    }

    /// Parses a list of ranges. `text` is the whole schedule, for positions in errors.
    pub(super) fn parse(
        bounds: &FieldBounds,
        field: &str,
        text: &str,
    ) -> Result<Self, ScheduleError> {
        let mut all = Self::default();
        for item in field.split(',').filter(|item| !item.is_empty()) {
            let one = Reader { bounds, text, item }.range()?;
            all.bits |= one.bits;
            all.star |= one.star;
        }
        Ok(all)
    }

    /// The numbers from `first` to `last` in steps of `step`.
    fn each(first: u32, last: u32, step: u32) -> u64 {
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        (first..=last)
            .step_by(step)
            .fold(0, |bits, number| bits | 1 << number)
    }
}

/// Parses one item of a list.
struct Reader<'a> {
    bounds: &'a FieldBounds,
    text: &'a str,
    item: &'a str,
}

impl<'a> Reader<'a> {
    fn wrong(&self, at: &str, message: String) -> ScheduleError {
        ScheduleError::new(self.bounds.name, self.text, at, message)
    }

    /// Parses `*`, `N` or `N-M`, each with an optional `/step`. The order of the checks is upstream's.
    fn range(&self) -> Result<Field, ScheduleError> {
        let FieldBounds { min, max, .. } = *self.bounds;
        let item = self.item;
        let mut halves = item.split('/');
        let base = halves.next().unwrap_or_default();
        let (step, surplus) = (halves.next(), halves.next());
        let mut ends = base.split('-');
        let low = ends.next().unwrap_or_default();
        let (high, too_many) = (ends.next(), ends.next());
        let mut star = matches!(low, "*" | "?");
        let (first, mut last) = match (star, high) {
            // Like upstream, this ignores the text behind a hyphen.
            (true, _) => (min, max),
            (false, None) => {
                let only = self.number_or_name(low)?;
                (only, only)
            }
            (false, Some(high)) => {
                let first = self.number_or_name(low)?;
                if let Some(rest) = too_many {
                    return Err(self.wrong(rest, format!("too many hyphens: {item}")));
                }
                (first, self.number_or_name(high)?)
            }
        };
        if let Some(rest) = surplus {
            return Err(self.wrong(rest, format!("too many slashes: {item}")));
        }
        let every = step.map_or(Ok(1), |step| self.number(step))?;
        if step.is_some() {
            if high.is_none() {
                last = max;
            }
            star &= every <= 1;
        }
        if first < min {
            let why = format!("beginning of range ({first}) below minimum ({min}): {item}");
            return Err(self.wrong(low, why));
        }
        if last > max {
            let why = format!("end of range ({last}) above maximum ({max}): {item}");
            return Err(self.wrong(high.unwrap_or(low), why));
        }
        if first > last {
            let why = format!("beginning of range ({first}) beyond end of range ({last}): {item}");
            return Err(self.wrong(low, why));
        }
        if every == 0 {
            let why = format!("step of range should be a positive number: {item}");
            return Err(self.wrong(step.unwrap_or(item), why));
        }
        let bits = Field::each(first, last, every);
        Ok(Field { bits, star })
    }

    fn number_or_name(&self, text: &str) -> Result<u32, ScheduleError> {
        let names = self.bounds.names.iter().zip(self.bounds.min..);
        let named = |(name, _): &(&&str, u32)| text.eq_ignore_ascii_case(name);
        match names.into_iter().find(named) {
            Some((_, number)) => Ok(number),
            None => self.number(text),
        }
    }

    /// Parses a number as Go's Atoi does, including a sign.
    fn number(&self, text: &str) -> Result<u32, ScheduleError> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let reason = match text.parse::<i64>() {
            Ok(number) if number < 0 => {
                let why = format!("negative number ({number}) not allowed: {text}");
                return Err(self.wrong(text, why));
            }
            // Larger numbers exceed every range and step alike.
            Ok(number) => return Ok(u32::try_from(number).unwrap_or(u32::MAX)),
            Err(_) if !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) => {
                "value out of range"
            }
            Err(_) => "invalid syntax",
        };
        let why =
            format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {reason}");
        Err(self.wrong(text, why))
    }
}
