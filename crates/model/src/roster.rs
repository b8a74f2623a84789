//! Assigns the ranges of namespaces to the replicas that share them, from the roster in their Lease.
//!
//! A range has one owner or none. The planned owner follows from the roster alone, so all readers of a roster compute
//! the same plan. An owner keeps its ranges. A free range goes to the replica with the fewest. A replica with two more
//! than another hands one over. Rendezvous hashing breaks ties: each replica has a weight for each range. So the loss
//! of a replica moves only its own ranges. A new replica receives ranges, and none moves between the others. The
//! numbers stay even. With few ranges, hashing alone would not keep them even.
//!
//! Must not: know time, or how a roster is written.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::stable_hash;

/// One replica's entry in the roster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RosterEntry {
    /// Changes with each update of the entry: others see by it that the replica is alive.
    pub beat: u64,
    /// Other replicas may take its ranges if they see no new `beat` for this many seconds.
    pub seconds: u32,
    /// The ranges that only this replica may write.
    pub ranges: BTreeSet<u32>,
}

/// The replicas that share a Lease, by name, with the ranges that each owns. A sound roster has at most one owner per
/// range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster(pub BTreeMap<String, RosterEntry>);

impl Roster {
    /// Returns true if no range has two owners, and all are below `ranges`.
    pub fn is_sound(&self, ranges: u32) -> bool {
        let mut all = BTreeSet::new();
        let mut each = self.0.values().flat_map(|entry| &entry.ranges);
        each.all(|range| *range < ranges && all.insert(*range))
    }

    /// Returns true if the same replicas own the same ranges.
    pub fn has_same_owners(&self, other: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        let is_same = |((name, entry), (other, theirs)): (
            (&String, &RosterEntry),
            (&String, &RosterEntry),
        )| { name == other && entry.ranges == theirs.ranges };
        self.0.len() == other.0.len() && pairs.all(is_same)
    }

    /// Returns the longest duration that any entry asks for.
    pub fn seconds(&self) -> u32 {
        let each = self.0.values().map(|entry| entry.seconds);
        each.max().unwrap_or(0)
    }

    /// Returns the ranges below `ranges` that have no owner.
    pub fn free(&self, ranges: u32) -> BTreeSet<u32> {
        let is_free = |range: &u32| !self.0.values().any(|entry| entry.ranges.contains(range));
        (0..ranges).filter(is_free).collect()
    }

    /// Returns the planned ranges below `ranges` for each replica.
    pub fn allot(&self, ranges: u32) -> BTreeMap<&str, BTreeSet<u32>> {
        let entries = self.0.iter();
        let mut plan: BTreeMap<&str, BTreeSet<u32>> = entries
            .map(|(name, entry)| (name.as_str(), entry.ranges.clone()))
            .collect();
        for range in self.free(ranges) {
            let next = plan
                .iter_mut()
                .min_by_key(|(name, has)| (has.len(), Reverse(weight(name, range))));
            if let Some((_, has)) = next {
                has.insert(range);
            }
        }
        while let Some((from, to)) = uneven(&plan) {
            let moved = plan[from].iter().max_by_key(|range| weight(to, **range));
            let Some(moved) = moved.copied() else {
                break;
            };
            for (name, has) in &mut plan {
                if *name == from {
                    has.remove(&moved);
                } else if *name == to {
                    has.insert(moved);
                }
            }
        }
        plan
    }
}

/// Returns the replicas with the most and the fewest ranges, if these differ by at least two.
fn uneven<'a>(plan: &BTreeMap<&'a str, BTreeSet<u32>>) -> Option<(&'a str, &'a str)> {
    let (most, has_most) = plan.iter().max_by_key(|(_, has)| has.len())?;
    let (fewest, has_fewest) = plan.iter().min_by_key(|(_, has)| has.len())?;
    (has_most.len() > has_fewest.len() + 1).then_some((*most, *fewest))
}

/// Returns the rendezvous weight of a replica for a range.
fn weight(replica: &str, range: u32) -> u64 {
    let hash = stable_hash(replica.bytes().chain(range.to_le_bytes()));
    // The final mix of splitmix64: the last bytes hardly affect the upper bits of FNV.
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(roster: &Roster) -> BTreeMap<u32, String> {
        let entries = roster.0.iter();
        let each = entries.flat_map(|(name, entry)| entry.ranges.iter().map(move |it| (*it, name)));
        each.map(|(range, name)| (range, name.clone())).collect()
    }

    /// The roster after all replicas have handed over and taken their planned ranges.
    fn settled(roster: &Roster, ranges: u32) -> Roster {
        let mut settled = roster.clone();
        for (name, has) in roster.allot(ranges) {
            let entry = settled.0.get_mut(name).expect("no new ones");
            entry.ranges = has;
        }
        settled
    }

    fn with(roster: &Roster, name: &str) -> Roster {
        let mut more = roster.clone();
        more.0.insert(name.to_owned(), RosterEntry::default());
        more
    }

    fn is_even(roster: &Roster) -> bool {
        let counts = roster.0.values().map(|entry| entry.ranges.len());
        let (least, most) = (counts.clone().min(), counts.max());
        least
            .zip(most)
            .is_some_and(|(least, most)| most - least <= 1)
    }

    #[test]
    fn each_range_has_one_owner_and_ranges_are_balanced() {
        for ranges in 2..40 {
            let mut roster = Roster::default();
            for number in 0..12 {
                roster = settled(&with(&roster, &format!("host-{number}_{ranges}")), ranges);
                assert!(roster.is_sound(ranges) && is_even(&roster), "{roster:?}");
                assert_eq!(owners(&roster).len(), ranges as usize);
            }
        }
    }

    #[test]
    fn only_a_joining_replica_gains_ranges() {
        for ranges in 2..40 {
            let mut roster = Roster::default();
            for number in 0..12 {
                let name = format!("host-{number}_{ranges}");
                let next = settled(&with(&roster, &name), ranges);
                let before = owners(&roster);
                for (range, owner) in owners(&next) {
                    assert!(
                        owner == name || before[&range] == owner,
                        "{before:?} {next:?}"
                    );
                }
                roster = next;
            }
        }
    }

    #[test]
    fn the_loss_of_a_replica_moves_its_ranges_and_no_others() {
        for ranges in 2..40 {
            let all: Vec<String> = (0..7).map(|it| format!("host-{it}_{ranges}")).collect();
            let full = all.iter().fold(Roster::default(), |roster, name| {
                settled(&with(&roster, name), ranges)
            });
            for lost in &all {
                let mut rest = full.clone();
                rest.0.remove(lost);
                let next = settled(&rest, ranges);
                assert!(is_even(&next) && next.free(ranges).is_empty());
                let after = owners(&next);
                for (range, owner) in owners(&full) {
                    assert!(
                        owner == *lost || after[&range] == owner,
                        "{full:?} {next:?}"
                    );
                }
            }
        }
    }

    /// At any state of the replicas' handovers the result is even, with at most as many moves as there are ranges.
    #[test]
    fn step_by_step_it_comes_to_the_same_balance() {
        for seed in 0..200_u64 {
            let below = |step: u64, bound: usize| {
                let bytes = seed.to_le_bytes().into_iter().chain(step.to_le_bytes());
                (stable_hash(bytes) >> 8) as usize % bound
            };
            let ranges = 2 + below(0, 20) as u32;
            let mut roster = settled(&with(&Roster::default(), "first"), ranges);
            for name in ["second", "third"] {
                roster = with(&roster, name);
            }
            let mut steps = 0;
            loop {
                // One of the replicas with pending handovers does one.
                let plan = settled(&roster, ranges);
                let (mut gives, mut takes) = (Vec::new(), Vec::new());
                let free = roster.free(ranges);
                for (name, entry) in &roster.0 {
                    let should = &plan.0[name].ranges;
                    gives.extend(
                        entry
                            .ranges
                            .difference(should)
                            .map(|it| (name.clone(), *it)),
                    );
                    takes.extend(should.intersection(&free).map(|it| (name.clone(), *it)));
                }
                let count = gives.len() + takes.len();
                if count == 0 {
                    break;
                }
                steps += 1;
                assert!(steps <= 2 * u64::from(ranges), "{roster:?}");
                let chosen = below(steps, count);
                let (name, range) = gives.iter().chain(&takes).nth(chosen).expect("one of them");
                let has = &mut roster.0.get_mut(name).expect("it is there").ranges;
                if chosen < gives.len() {
                    has.remove(range);
                } else {
                    has.insert(*range);
                }
                assert!(roster.is_sound(ranges));
            }
            assert!(
                is_even(&roster) && roster.free(ranges).is_empty(),
                "{roster:?}"
            );
        }
    }

    #[test]
    fn a_range_of_two_or_one_too_many_is_not_sound() {
        let mut roster = with(&with(&Roster::default(), "one"), "two");
        for entry in roster.0.values_mut() {
            entry.ranges = BTreeSet::from([3]);
        }
        assert!(!roster.is_sound(4));
        roster.0.remove("two");
        assert!(roster.is_sound(4) && !roster.is_sound(3));
    }
}
