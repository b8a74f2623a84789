//! Parses lists of numbers and ranges such as `0-3,7`.
//!
//! Responsible for: parsing and lookup. Must not: know the meaning of the numbers.

use std::ops::RangeInclusive;

/// A set of numbers, kept as its list of ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ranges(Box<[RangeInclusive<u32>]>);

impl Ranges {
    /// Parses `0-3,7`. Blanks around numbers are allowed; descending ranges are not.
    pub(super) fn parse(text: &str) -> Option<Self> {
        text.split(',')
            .map(parse_range)
            .collect::<Option<_>>()
            .map(Self)
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.0.iter().any(|range| range.contains(&number))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &RangeInclusive<u32>> {
        self.0.iter()
    }
}

fn parse_range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.trim().parse().ok()?..=last.trim().parse().ok()?;
    (!range.is_empty()).then_some(range)
}

/// Error text for an invalid list of ranges.
pub(super) const RANGES_FORM: &str = "must be a list of indexes and ranges such as 0-3,7";
