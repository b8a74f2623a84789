//! How many turns are given per second, so that each has something to say.
//!
//! A turn costs some microseconds whatever it brings. A thousand Jobs of which each has news every few
//! milliseconds would be given a turn for each Pod that does anything; one that waits for its next
//! turn takes in all that came meanwhile. A few Jobs never get near the limit and never wait.
//!
//! Must not: know whose turns they are.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock::instant;

/// With a thousand busy Jobs each has a turn every fifth of a second.
const TURNS_PER_MILLISECOND: f64 = 5.0;

/// So many turns may follow each other at once after a calm.
const BURST: f64 = 100.0;

/// As short as timers go.
const REST: Duration = Duration::from_millis(1);

/// See the module's text.
#[derive(Debug)]
pub(super) struct Breath(Mutex<Credit>);

#[derive(Debug)]
struct Credit {
    turns: f64,
    at: Instant,
}

impl Breath {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Credit {
            turns: BURST,
            at: instant(),
        }))
    }

    /// A turn was given. Waits if there were too many of late.
    pub(super) async fn take(&self) {
        let is_spent = self.0.lock().spend(instant());
        if is_spent {
            tokio::time::sleep(REST).await;
        }
    }
}

impl Credit {
    /// Takes one turn off the credit; whether there is none left.
    fn spend(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64() * 1000.0;
        self.turns = (self.turns + passed * TURNS_PER_MILLISECOND).min(BURST) - 1.0;
        self.at = now;
        self.turns < 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_turns_are_free_and_more_are_not() {
        let start = instant();
        let mut credit = Credit {
            turns: BURST,
            at: start,
        };
        let spent = |credit: &mut Credit, turns, after| {
            (0..turns).filter(|_| credit.spend(start + after)).count()
        };
        assert_eq!(spent(&mut credit, 100, Duration::ZERO), 0);
        assert_eq!(spent(&mut credit, 5, Duration::ZERO), 5);
        // What was overdrawn is paid back first.
        assert_eq!(spent(&mut credit, 15, Duration::from_millis(2)), 10);
    }
}
