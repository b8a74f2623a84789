//! How many turns are given per second, so that each has something to say.
//!
//! A turn costs some microseconds whatever it brings. A thousand Jobs of which each has news every few
//! milliseconds would be given a turn for each Pod that does anything; one that waits for its next
//! turn takes in all that came meanwhile. A few Jobs never get near the limit and never wait.
//!
//! Must not: know whose turns they are.

use std::time::Duration;

use crate::model::Monotonic;

/// With a thousand busy Jobs each has a turn every fifth of a second.
const TURNS_PER_MILLISECOND: f64 = 5.0;

/// So many turns may follow each other at once after a calm.
const BURST: f64 = 100.0;

/// As short as timers go.
const REST: Duration = Duration::from_millis(1);

/// See the module's text.
#[derive(Debug)]
pub(crate) struct TurnRate {
    credit: f64,
    at: Monotonic,
    rests_until: Option<Monotonic>,
}

impl TurnRate {
    pub(crate) fn new() -> Self {
        Self {
            credit: BURST,
            at: Monotonic::default(),
            rests_until: None,
        }
    }

    /// When the next turn may be given, if not now.
    pub(crate) fn due_at(&self, now: Monotonic) -> Option<Monotonic> {
        self.rests_until.filter(|until| *until > now)
    }

    /// A turn was given.
    pub(crate) fn spend(&mut self, now: Monotonic) {
        let passed = now.since(self.at).as_secs_f64() * 1000.0;
        self.credit = (self.credit + passed * TURNS_PER_MILLISECOND).min(BURST) - 1.0;
        self.at = now;
        self.rests_until = (self.credit < 0.0).then(|| now + REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_turns_are_free_and_more_are_not() {
        let mut rate = TurnRate::new();
        let mut rests = |turns, at| {
            let now = Monotonic::from_millis(at);
            let mut rests = |_: &i32| {
                rate.spend(now);
                rate.due_at(now).is_some()
            };
            (0..turns).filter(|turn| rests(turn)).count()
        };
        assert_eq!(rests(100, 0), 0);
        assert_eq!(rests(5, 0), 5);
        // What was overdrawn is paid back first.
        assert_eq!(rests(15, 2), 10);
    }
}
