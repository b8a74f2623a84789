//! A replica's part in the sharing of ranges: what it knows of the others, and what it says of itself.
//!
//! Replicas that share hold their Lease together, under one name, and each renews its entry in the Lease's roster. A
//! range changes hands only there, in an update on top of the version that was read: its owner gives it up, once
//! nothing of it is under way, or is taken out as nobody has seen its entry change for as long as it asked to be left
//! alone. An owner may write until its renew deadline, which is over before that, as a leader's is. So no range is
//! ever two replicas'.
//!
//! Must not: read a clock, or decide when to write.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::model::Monotonic;

use super::roster::{Roster, RosterEntry};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Sharing {
    replica: String,
    ranges: u32,
    /// What others are asked for.
    seconds: u32,
    /// Never the same again: by a number of before somebody took its entry out, others would take it for dead.
    beat: u64,
    seen: Roster,
    /// Since when each entry has been so.
    since: BTreeMap<String, Monotonic>,
    /// What it has by its own last update.
    led: BTreeSet<u32>,
    /// What it gives up: nothing of it is written any more.
    given: BTreeSet<u32>,
}

impl Sharing {
    pub(super) fn new(replica: String, ranges: u32, lease_duration: Duration) -> Self {
        Self {
            replica,
            ranges,
            seconds: u32::try_from(lease_duration.as_secs()).unwrap_or(u32::MAX),
            beat: 0,
            seen: Roster::default(),
            since: BTreeMap::new(),
            led: BTreeSet::new(),
            given: BTreeSet::new(),
        }
    }

    pub(super) fn replica(&self) -> &str {
        &self.replica
    }

    /// How many replicas there are.
    pub(super) fn replicas(&self) -> u32 {
        u32::try_from(self.seen.0.len()).unwrap_or(u32::MAX)
    }

    /// Whether what a Lease says can be gone by.
    pub(super) fn is_sound(&self, roster: Option<&Roster>) -> bool {
        roster.is_some_and(|roster| roster.is_sound(self.ranges))
    }

    /// The roster as it is, if the Lease is these replicas' at all.
    pub(super) fn see(&mut self, roster: Option<&Roster>, at: Monotonic) {
        let roster = roster.cloned().unwrap_or_default();
        let seen = std::mem::replace(&mut self.seen, roster);
        let before = std::mem::take(&mut self.since);
        for (name, entry) in &self.seen.0 {
            let same = seen.0.get(name).is_some_and(|seen| seen.beat == entry.beat);
            let since = before.get(name).filter(|_| same);
            let since = since.copied().unwrap_or(at);
            self.since.insert(name.clone(), since);
        }
        // What the roster does not say is so no more, whoever changed that.
        let own = self.seen.0.get(&self.replica);
        let has = |range: &u32| own.is_some_and(|own| own.ranges.contains(range));
        self.led.retain(has);
        self.given.retain(has);
    }

    /// An update of this replica was taken, and this came of it.
    pub(super) fn written(&mut self, roster: Option<&Roster>, at: Monotonic) {
        self.see(roster, at);
        let own = self.seen.0.get(&self.replica);
        self.led = own.map(|own| own.ranges.clone()).unwrap_or_default();
    }

    /// The renew deadline is over, or the Lease is somebody else's.
    pub(super) fn lose(&mut self) {
        self.led.clear();
    }

    /// Whether a roster that was heard of has other replicas, or others as owners.
    pub(super) fn is_news(&self, roster: Option<&Roster>) -> bool {
        roster.is_none_or(|roster| !roster.has_same_owners(&self.seen))
    }

    /// The entries of those who may live.
    fn living(&self, at: Monotonic) -> Roster {
        let is_dead = |name: &String, entry: &RosterEntry| {
            let since = self.since.get(name).copied().unwrap_or(at);
            let patience = Duration::from_secs(entry.seconds.max(self.seconds).into());
            *name != self.replica && at.since(since) >= patience
        };
        let mut living = self.seen.clone();
        living.0.retain(|name, entry| !is_dead(name, entry));
        living
    }

    /// The roster as it is to be written next: with this replica in it, what it gives up free, and its own what is
    /// free and should be.
    pub(super) fn next(&mut self, at: Monotonic) -> Roster {
        self.beat += 1;
        let mut next = self.living(at);
        let mut own = next.0.remove(&self.replica).unwrap_or_default();
        own.beat = self.beat;
        own.seconds = self.seconds;
        own.ranges.retain(|range| !self.given.contains(range));
        next.0.insert(self.replica.clone(), own);
        let free = next.free(self.ranges);
        let taken: BTreeSet<u32> = self.allotted(&next).intersection(&free).copied().collect();
        if let Some(own) = next.0.get_mut(&self.replica) {
            // What is given up comes back by another update: those who know of it must see it once.
            own.ranges.extend(taken.difference(&self.given));
        }
        next
    }

    fn allotted(&self, roster: &Roster) -> BTreeSet<u32> {
        let mut plan = roster.allot(self.ranges);
        plan.remove(self.replica.as_str()).unwrap_or_default()
    }

    /// The roster without this replica; nothing, if no other is left that may live.
    pub(super) fn others(&self, at: Monotonic) -> Option<Roster> {
        let mut others = self.living(at);
        others.0.remove(&self.replica);
        Some(others).filter(|others| !others.0.is_empty())
    }

    /// Whether a range is this replica's.
    pub(super) fn has(&self, range: u32) -> bool {
        self.led.contains(&range) && !self.given.contains(&range)
    }

    /// What it has and others should have.
    pub(super) fn surplus(&self, at: Monotonic) -> BTreeSet<u32> {
        let allotted = self.allotted(&self.living(at));
        let has = self.led.difference(&self.given);
        has.filter(|range| !allotted.contains(range))
            .copied()
            .collect()
    }

    /// Nothing of a range is written any more: another may have it.
    pub(super) fn give_up(&mut self, range: u32) {
        if self.led.contains(&range) {
            self.given.insert(range);
        }
    }
}

#[cfg(test)]
mod tests;
