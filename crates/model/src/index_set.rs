//! Stores a set of completion indexes and converts it from and to its text form in a Job's status (`0-2,4,6,7`).
//!
//! Parses as upstream's `parseIndexesFromString` does (docs/rules/jobs.md, 3.6). It is lenient, because a controller
//! reads statuses that other clients wrote. The API server has its own strict parser.

use std::{fmt, iter, ops::Range};

use roaring::RoaringBitmap;

/// Completion indexes as a compressed bitmap.
#[derive(Clone, Debug, Default, PartialEq)]
#[doc(alias = "orderedIntervals")]
pub struct IndexSet(RoaringBitmap);

impl Eq for IndexSet {}

impl IndexSet {
    /// All indexes below `end`.
    pub fn below(end: u32) -> Self {
        let mut bits = RoaringBitmap::new();
        bits.insert_range(0..end);
        Self(bits)
    }

    /// Parses the status text of a Job with `completions` indexes. An item that is no number or interval is skipped.
    /// Parsing stops at the first item that starts beyond the last index. An interval that runs past it is clipped.
    pub fn parse(text: &str, completions: u32) -> Self {
        let mut bits = RoaringBitmap::new();
        for item in text.split(',') {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
                continue;
            };
            if first >= completions {
                break;
            }
            bits.insert_range(first..=last.min(completions - 1));
        }
        Self(bits)
    }

    /// Adds an index. Returns true if it was new.
    pub fn insert(&mut self, index: u32) -> bool {
        self.0.insert(index)
    }

    /// Removes an index. Returns true if it was present.
    pub fn remove(&mut self, index: u32) -> bool {
        self.0.remove(index)
    }

    /// Returns true if the index is in the set.
    pub fn contains(&self, index: u32) -> bool {
        self.0.contains(index)
    }

    /// The number of indexes.
    pub fn len(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest index.
    pub fn min(&self) -> Option<u32> {
        self.0.min()
    }

    /// The number of indexes up to and including this one.
    pub fn rank(&self, index: u32) -> u32 {
        u32::try_from(self.0.rank(index)).unwrap_or(u32::MAX)
    }

    /// The number of indexes within a range. Reads only the part of the bitmap that covers the range.
    pub fn count_in(&self, range: Range<u32>) -> u32 {
        u32::try_from(self.0.range_cardinality(range)).unwrap_or(u32::MAX)
    }

    /// The lowest index at or above this one.
    pub fn first_from(&self, index: u32) -> Option<u32> {
        self.0.range(index..).next()
    }

    /// The highest index below this one.
    pub fn last_below(&self, index: u32) -> Option<u32> {
        self.0.range(..index).next_back()
    }

    /// Returns true if no index is in both sets.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.0.is_disjoint(&other.0)
    }

    /// The indexes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter()
    }

    /// Adds every index of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.0 |= &other.0;
    }

    /// Removes every index of `other`.
    pub fn subtract(&mut self, other: &Self) {
        self.0 -= &other.0;
    }

    /// The number of indexes in both sets.
    pub fn intersection_len(&self, other: &Self) -> u32 {
        u32::try_from(self.0.intersection_len(&other.0)).unwrap_or(u32::MAX)
    }
}

impl FromIterator<u32> for IndexSet {
    fn from_iter<T: IntoIterator<Item = u32>>(indexes: T) -> Self {
        Self(indexes.into_iter().collect())
    }
}

impl fmt::Display for IndexSet {
    /// Ascending, no spaces; a run of two is `5,6`, a longer run `5-7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bitmap yields a run of bits at a time, but breaks runs at the boundaries of its containers.
        let mut indexes = self.0.iter();
        let mut pieces = iter::from_fn(|| indexes.next_range()).peekable();
        let mut separator = "";
        while let Some(piece) = pieces.next() {
            let (start, mut end) = piece.into_inner();
            while let Some(more) = pieces.next_if(|more| *more.start() == end + 1) {
                end = *more.end();
            }
            match end - start {
                0 => write!(f, "{separator}{start}")?,
                1 => write!(f, "{separator}{start},{end}")?,
                _ => write!(f, "{separator}{start}-{end}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, completions: u32, expect: &str) {
        assert_eq!(
            IndexSet::parse(text, completions).to_string(),
            expect,
            "{text} of {completions}"
        );
    }

    #[test]
    fn reads_leniently_and_writes_the_shortest_form() {
        check("", 5, "");
        check("0", 5, "0");
        check("0-2,4,6,7", 7, "0-2,4,6");
        check("0-2,4,6,7", 8, "0-2,4,6,7");
        check("0,1-foo,bar", 4, "0");
        check("0,1,2", 9, "0-2");
        check("5,6", 9, "5,6");
        check("5-6", 9, "5,6");
        check("2,4,5,7-9", 20, "2,4,5,7-9");
        check("0-1,2-3", 9, "0-3");
        check("3-99", 5, "3,4");
        check("9,0", 5, "");
        check("4294967295", u32::MAX, "");
    }

    #[test]
    fn a_part_of_a_set_is_looked_at_by_itself() {
        let set = IndexSet::parse("3-9,70000,70001", 100_000);
        for (range, count) in [(0..3, 0), (0..4, 1), (5..70_001, 6), (9..9, 0)] {
            assert_eq!(set.count_in(range.clone()), count, "{range:?}");
        }
        assert_eq!(
            (set.first_from(9), set.first_from(10)),
            (Some(9), Some(70_000))
        );
        assert_eq!((set.last_below(70_000), set.last_below(3)), (Some(9), None));
        assert_eq!(set.first_from(70_002), None);
    }

    #[test]
    fn a_full_set_is_one_run() {
        let set = IndexSet::below(100_000);
        assert_eq!(set.to_string(), "0-99999");
        assert_eq!(set.len(), 100_000);
        check("65534-65537,65539", 70_000, "65534-65537,65539");
        check("65535,65536", 70_000, "65535,65536");
    }
}
