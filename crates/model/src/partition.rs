//! Maps namespaces to ranges. All replicas that share the work must compute the same mapping.
//!
//! Must not: know which replica owns a range.

use super::stable_hash;

/// A division of all namespaces into ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The number of ranges.
    pub ranges: u32,
    /// The mapping from a namespace's hash to its range.
    pub by: Division,
}

/// The mapping from a hash to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// The remainder of the hash. Similar names fall into different ranges.
    Remainder,
    /// The interval that contains the hash. API servers can select by intervals (KEP-5866) with the same 64-bit FNV-1a.
    /// Its upper bits barely depend on the last letters: names that differ only there share a range.
    Interval,
}

impl Partition {
    /// The range of a namespace.
    pub fn range_of(&self, namespace: &str) -> usize {
        let hash = stable_hash(namespace.bytes());
        let ranges = u64::from(self.ranges.max(1));
        let range = match self.by {
            Division::Remainder => u128::from(hash % ranges),
            Division::Interval => (u128::from(hash) * u128::from(ranges)) >> 64,
        };
        usize::try_from(range).unwrap_or(0)
    }

    /// The `shardSelector` for a list or watch of the given ranges, which must be ascending. None for a division that a
    /// server cannot select by.
    pub fn selector(&self, ranges: impl IntoIterator<Item = usize>) -> Option<String> {
        if self.by != Division::Interval {
            return None;
        }
        let mut intervals: Vec<(u128, u128)> = Vec::new();
        for range in ranges {
            let (start, end) = (self.start(range), self.start(range + 1));
            match intervals.last_mut() {
                Some((_, last)) if *last == start => *last = end,
                _ => intervals.push((start, end)),
            }
        }
        if intervals.is_empty() {
            // No selector matches nothing; this one is as good.
            intervals.push((0, 1));
        }
        let texts = intervals.iter().map(|(start, end)| {
            format!("shardRange(object.metadata.namespace, '0x{start:016x}', '0x{end:016x}')")
        });
        Some(texts.collect::<Vec<_>>().join(" || "))
    }

    /// The lowest hash that belongs to this range or a later one.
    fn start(&self, range: usize) -> u128 {
        ((range as u128) << 64).div_ceil(u128::from(self.ranges.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(by: Division, ranges: u32) -> Partition {
        Partition { ranges, by }
    }

    #[test]
    fn remainders_scatter_names_that_are_alike_and_intervals_do_not() {
        let names: Vec<String> = (0..8).map(|number| format!("team-{number}")).collect();
        let ranges = |partition: Partition| -> std::collections::BTreeSet<usize> {
            names.iter().map(|name| partition.range_of(name)).collect()
        };
        assert!(ranges(by(Division::Remainder, 8)).len() > 4);
        assert_eq!(ranges(by(Division::Interval, 8)).len(), 1);
    }

    #[test]
    fn namespaces_are_shared_out_and_stay_where_they_are() {
        let mut counts = [0; 4];
        let four = by(Division::Remainder, 4);
        for number in 0..400 {
            counts[four.range_of(&format!("team-{number}"))] += 1;
        }
        assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
        assert_eq!(by(Division::Remainder, 1).range_of("default"), 0);
        assert_eq!(four.range_of("default"), four.range_of("default"));
    }

    #[test]
    fn each_hash_is_in_the_interval_of_its_range() {
        for ranges in [1, 2, 3, 7, 12, 64] {
            let partition = by(Division::Interval, ranges);
            assert_eq!(partition.start(0), 0);
            assert_eq!(partition.start(ranges as usize), 1 << 64);
            let mut counts = vec![0; ranges as usize];
            for number in 0..2_000 {
                let name = format!("{number}-of-many-namespaces");
                let (hash, range) = (
                    u128::from(stable_hash(name.bytes())),
                    partition.range_of(&name),
                );
                assert!((partition.start(range)..partition.start(range + 1)).contains(&hash));
                counts[range] += 1;
            }
            assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        }
    }

    #[test]
    fn a_selector_names_as_few_intervals_as_there_are() {
        let partition = by(Division::Interval, 4);
        let range = |start: &str, end: &str| {
            format!("shardRange(object.metadata.namespace, '0x{start}', '0x{end}')")
        };
        let (first, rest) = (
            range("0000000000000000", "4000000000000000"),
            range("8000000000000000", "10000000000000000"),
        );
        assert_eq!(
            partition.selector([0, 2, 3]),
            Some(format!("{first} || {rest}"))
        );
        let all = range("0000000000000000", "10000000000000000");
        assert_eq!(partition.selector(0..4), Some(all));
        let none = range("0000000000000000", "0000000000000001");
        assert_eq!(partition.selector([]), Some(none));
        assert_eq!(by(Division::Remainder, 4).selector(0..4), None);
    }
}
