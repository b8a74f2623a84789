//! Runs one replica's part in sharing ranges: tracks the other replicas, and composes its own roster entry.
//!
//! Replicas that share hold their Lease together, under one name, and each renews its entry in the Lease's roster. A
//! range changes its owner only there, in an update at the resourceVersion that was read. Either its owner hands it
//! over once no write to it is in flight. Or the owner's entry is removed, because it did not change for as long as it
//! asked for. An owner may write until its renew deadline, which passes earlier, as a leader's does. So no range ever
//! has two owners.
//!
//! Must not: read a clock, or decide when to write.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::model::Monotonic;

use super::{Roster, RosterEntry};

/// The roster as last read, and the ranges of this replica. It owns a range after its own update of the roster was
/// stored, until it hands the range over or loses the Lease.
#[derive(Debug)]
pub(super) struct Sharing {
    replica: String,
    ranges: u32,
    /// The lease duration in its own entry, in seconds.
    seconds: u32,
    /// Never repeats. If another client removed the entry and it came back with an old number, other replicas would
    /// consider this one dead.
    beat: u64,
    seen: Roster,
    /// Since when each entry is unchanged.
    since: BTreeMap<String, Monotonic>,
    /// The ranges it owns by its own last update.
    led: BTreeSet<u32>,
    /// The ranges it hands over: none of them is written any more.
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

    /// Returns the number of replicas.
    pub(super) fn replicas(&self) -> u32 {
        u32::try_from(self.seen.0.len()).unwrap_or(u32::MAX)
    }

    /// Returns true if the roster of a Lease is usable.
    pub(super) fn is_sound(&self, roster: Option<&Roster>) -> bool {
        roster.is_some_and(|roster| roster.is_sound(self.ranges))
    }

    /// Applies the roster as read; `None` if the Lease does not belong to these replicas.
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
        // The replica loses every range that the roster does not list for it, whichever client changed that.
        let own = self.seen.0.get(&self.replica);
        let has = |range: &u32| own.is_some_and(|own| own.ranges.contains(range));
        self.led.retain(has);
        self.given.retain(has);
    }

    /// Handles a successful update of this replica, and the roster that it stored.
    pub(super) fn written(&mut self, roster: Option<&Roster>, at: Monotonic) {
        self.see(roster, at);
        let own = self.seen.0.get(&self.replica);
        self.led = own.map(|own| own.ranges.clone()).unwrap_or_default();
    }

    /// Gives up all ranges: the renew deadline has passed, or another client holds the Lease.
    pub(super) fn lose(&mut self) {
        self.led.clear();
    }

    /// Returns true if a roster has other replicas or owners than the last one read.
    pub(super) fn is_news(&self, roster: Option<&Roster>) -> bool {
        roster.is_none_or(|roster| !roster.has_same_owners(&self.seen))
    }

    /// Returns the entries of replicas that may be alive.
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

    /// Returns the next roster to write: with this replica's entry, without the ranges that it hands over, and with the
    /// free ranges that it should own.
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
            // A range that is handed over returns only in a later update: other replicas must see it free once.
            own.ranges.extend(taken.difference(&self.given));
        }
        next
    }

    fn allotted(&self, roster: &Roster) -> BTreeSet<u32> {
        let mut plan = roster.allot(self.ranges);
        plan.remove(self.replica.as_str()).unwrap_or_default()
    }

    /// Returns the roster without this replica; `None` if no other replica may be alive.
    pub(super) fn others(&self, at: Monotonic) -> Option<Roster> {
        let mut others = self.living(at);
        others.0.remove(&self.replica);
        Some(others).filter(|others| !others.0.is_empty())
    }

    /// Returns true if this replica owns the range.
    pub(super) fn has(&self, range: u32) -> bool {
        self.led.contains(&range) && !self.given.contains(&range)
    }

    /// Returns the ranges that it owns and others should own.
    pub(super) fn surplus(&self, at: Monotonic) -> BTreeSet<u32> {
        let allotted = self.allotted(&self.living(at));
        let has = self.led.difference(&self.given);
        has.filter(|range| !allotted.contains(range))
            .copied()
            .collect()
    }

    /// Hands over a range that is not written any more: another replica may own it.
    pub(super) fn give_up(&mut self, range: u32) {
        if self.led.contains(&range) {
            self.given.insert(range);
        }
    }
}

#[cfg(test)]
mod tests;
