//! Recognizes another Job controller at work on the Job. Then this one creates no Pods, as each would double what the
//! other does. It deletes Pods as always: both controllers delete the same ones.
//!
//! A sign is a status whose counts or gauges another client has written. One may be a person's, or the late write of an
//! earlier leader; the next one is not. The contest is over when Pods have been missing for some time and no sign came: a
//! controller that is quiet because there is nothing to do may still be there.
//!
//! Must not: know what Pods there are.

use std::time::Duration;

use crate::model::{Monotonic, Report, format_go_duration};

/// So many statuses of another in a row are no accident.
const SIGNS: u32 = 2;

/// In a row are those of which each comes so soon after the one before. The built-in controller writes a status when
/// Pods come or go: of Pods of a few seconds one or two for each wave (tried beside one of 1.36.2).
const IN_A_ROW: Duration = Duration::from_secs(30);

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct Contest {
    signs: u32,
    /// When the last of them was seen.
    seen: Monotonic,
    is_on: bool,
    /// Since when a Pod is missing, and no sign came.
    waits_since: Option<Monotonic>,
}

impl Contest {
    /// Another has written the status; whether it is known only now that there is a contest.
    pub(super) fn foreign_status(&mut self, now: Monotonic) -> bool {
        let is_in_a_row = self.signs > 0 && now.since(self.seen) <= IN_A_ROW;
        self.signs = if is_in_a_row { self.signs + 1 } else { 1 };
        self.seen = now;
        self.waits_since = None;
        let begins = !self.is_on && self.signs >= SIGNS;
        self.is_on |= begins;
        begins
    }

    /// Returns whether the contest goes on. It ends when a Pod was wanted for `alone_after` and no sign came.
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

    /// When it is over, if nobody else writes until then.
    pub(super) fn ends_at(&self, alone_after: Duration) -> Option<Monotonic> {
        self.waits_since.map(|since| since + alone_after)
    }
}

/// The report that this controller gives way from now on.
pub(super) fn report(alone_after: Duration) -> Report {
    let wait = format_go_duration(alone_after);
    let message = format!(
        "Another Job controller works on this Job, too: lakh creates no Pods until Pods have been missing for {wait} and \
         the other controller has not written the status"
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
    fn it_is_over_when_nobody_else_did_what_was_to_be_done() {
        let mut contest = Contest::default();
        for secs in 1..3 {
            contest.foreign_status(at(secs));
        }
        // Nothing is to be done for an hour: the other may be there.
        assert!(contest.goes_on(false, ALONE, at(3_600)));
        assert_eq!(contest.ends_at(ALONE), None);
        assert!(contest.goes_on(true, ALONE, at(3_601)));
        assert_eq!(contest.ends_at(ALONE), Some(at(3_661)));
        // It is, and writes what it has done.
        contest.foreign_status(at(3_603));
        assert!(contest.goes_on(true, ALONE, at(3_604)));
        assert!(contest.goes_on(true, ALONE, at(3_663)));
        assert!(!contest.goes_on(true, ALONE, at(3_664)));
        // From anew.
        assert!(!contest.foreign_status(at(3_665)));
    }
}
