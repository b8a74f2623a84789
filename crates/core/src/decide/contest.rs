//! Detects another Job controller at work on the same Job. While it is there, this controller creates no Pods, because
//! each would double one of the other's. It deletes Pods as usual: both controllers delete the same ones.
//!
//! The sign is a status write by another client that changes counts or gauges. One may come from a user or be the late
//! write of an earlier leader; the next one is not. The contest is over when Pods have been missing for some time
//! without a sign: a controller that is idle because nothing needs doing may still be there.
//!
//! Must not: know which Pods exist.

use std::time::Duration;

use crate::model::{Monotonic, Report, format_go_duration};

/// This many consecutive foreign status writes are no accident.
const SIGNS: u32 = 2;

/// Foreign status writes within this interval count as consecutive. The built-in controller writes a status when Pods
/// come or go: for Pods that run a few seconds, one or two per wave (tested beside version 1.36.2).
const IN_A_ROW: Duration = Duration::from_secs(30);

/// Counts foreign status writes of a Job, and decides when a contest begins and ends. Feed it each foreign write, and
/// ask [`Contest::goes_on`] before Pods are created.
#[derive(Clone, Debug, Default)]
pub(super) struct Contest {
    signs: u32,
    /// When the last sign was seen.
    seen: Monotonic,
    is_on: bool,
    /// Since when a Pod has been missing without a sign.
    waits_since: Option<Monotonic>,
}

impl Contest {
    /// Records a foreign status write. Returns true if the contest begins with it.
    pub(super) fn foreign_status(&mut self, now: Monotonic) -> bool {
        let is_in_a_row = self.signs > 0 && now.since(self.seen) <= IN_A_ROW;
        self.signs = if is_in_a_row { self.signs + 1 } else { 1 };
        self.seen = now;
        self.waits_since = None;
        let begins = !self.is_on && self.signs >= SIGNS;
        self.is_on |= begins;
        begins
    }

    /// Returns true while the contest goes on. It ends when a Pod was wanted for `alone_after` without a sign.
    pub(super) fn goes_on(&mut self, wants: bool, alone_after: Duration, now: Monotonic) -> bool {
        if !self.is_on {
            return false;
        }
        if !wants {
            self.waits_since = None;
            return true;
        }
        let since = *self.waits_since.get_or_insert(now);
        if now.since(since) >= alone_after {
            *self = Self::default();
        }
        self.is_on
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Returns when the contest ends if no other sign comes.
    pub(super) fn ends_at(&self, alone_after: Duration) -> Option<Monotonic> {
        self.waits_since.map(|since| since + alone_after)
    }
}

/// Returns the report that this controller creates no Pods from now on.
pub(super) fn report(alone_after: Duration) -> Report {
    let wait = format_go_duration(alone_after);
    let message = format!(
        "Another controller also writes the status of this Job. lakh creates no Pods until Pods have been missing for {wait} \
         without a status write of the other controller. Stop the other controller, or set spec.managedBy"
    );
    Report::warning("AnotherController", &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Duration = Duration::from_secs(60);

    fn at(secs: u64) -> Monotonic {
        Monotonic::from_secs(secs)
    }

    #[test]
    fn two_in_a_row_are_a_contest_and_one_is_not() {
        let mut contest = Contest::default();
        let begins = |contest: &mut Contest, secs: &[u64]| {
            let begins = secs.iter().map(|secs| contest.foreign_status(at(*secs)));
            begins.collect::<Vec<_>>()
        };
        assert_eq!(begins(&mut contest, &[0, 31, 62]), [false; 3]);
        assert!(!contest.goes_on(true, ALONE, at(62)));
        assert_eq!(begins(&mut contest, &[92, 93]), [true, false]);
        assert!(contest.goes_on(true, ALONE, at(93)));
    }

    #[test]
    fn a_contest_ends_when_the_other_controller_is_idle() {
        let mut contest = Contest::default();
        for secs in 1..3 {
            contest.foreign_status(at(secs));
        }
        // Nothing needs doing for an hour: the other controller may still be there.
        assert!(contest.goes_on(false, ALONE, at(3_600)));
        assert_eq!(contest.ends_at(ALONE), None);
        assert!(contest.goes_on(true, ALONE, at(3_601)));
        assert_eq!(contest.ends_at(ALONE), Some(at(3_661)));
        // It is there, and writes a status.
        contest.foreign_status(at(3_603));
        assert!(contest.goes_on(true, ALONE, at(3_604)));
        assert!(contest.goes_on(true, ALONE, at(3_663)));
        assert!(!contest.goes_on(true, ALONE, at(3_664)));
        // The count starts anew.
        assert!(!contest.foreign_status(at(3_665)));
    }
}
