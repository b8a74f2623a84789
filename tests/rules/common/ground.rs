//! Provides the basis of random histories of CronJobs and TTLs: random numbers, two clocks, the fates of requests, and
//! a log.
//!
//! Must not: know the content of requests.

use std::time::Duration;

use lakh::model::{Exponential, Now, Time};

use super::world::Dice;

/// The backoff of retries.
pub(crate) const BACKOFF: Exponential = Exponential {
    base: Duration::from_secs(1),
    max: Duration::from_secs(60),
};

/// Chances of faults, in percent per occasion.
#[derive(Clone, Copy, Debug, Default)]
struct Odds {
    refused: u64,
    lost: u64,
    late: u64,
    restart: u64,
    skew: u64,
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The server carries it out and responds.
    Done,
    /// The server carries it out; the response is lost.
    AnswerLost,
    /// The server does not carry it out.
    Refused,
    /// The server may carry it out much later, when the controller has given up on it.
    Late,
}

/// The state shared by the worlds of CronJobs and TTLs. All chances come from `dice`, so a seed determines a history.
pub(crate) struct Ground {
    pub(crate) dice: Dice,
    odds: Odds,
    /// The server's time.
    pub(crate) now: Time,
    /// The lead of the controller's clock, in milliseconds.
    pub(crate) skew: i64,
    pub(crate) log: Vec<String>,
}

impl Ground {
    pub(crate) fn new(dice: Dice) -> Self {
        let mut ground = Self {
            dice,
            odds: Odds::default(),
            now: Time::from_secs(2_000_000_000),
            skew: 0,
            log: Vec::new(),
        };
        ground.odds = Odds {
            refused: ground.some(30),
            lost: ground.some(30),
            late: ground.some(20),
            restart: ground.some(4),
            skew: ground.some(3),
        };
        ground
    }

    /// A random chance below this, or zero.
    pub(crate) fn some(&mut self, most: u64) -> u64 {
        match self.dice.below(2) {
            0 => 0,
            _ => self.dice.below(most),
        }
    }

    /// The controller's time. The skew of the wall clock does not affect its timers.
    pub(crate) fn there(&self) -> Now {
        Now {
            wall: Time::from_millis(self.now.as_millis() + self.skew),
            ..Now::at(self.now)
        }
    }

    pub(crate) fn say(&mut self, what: String) {
        self.log.push(format!("{} {what}", self.now.to_rfc3339()));
    }

    /// Lets time pass: moments or days.
    pub(crate) fn pass(&mut self) {
        let most = [2000, 60_000, 600_000, 7_200_000, 200_000_000][self.dice.below(5) as usize];
        let passed = Duration::from_millis(self.dice.below(most));
        self.now = self.now + passed;
        self.say(format!("{passed:?} have passed"));
    }

    /// Returns true if the controller restarts now.
    pub(crate) fn restarts(&mut self) -> bool {
        let restarts = self.dice.percent(self.odds.restart);
        if restarts {
            self.say("the controller starts anew".to_owned());
        }
        restarts
    }

    /// May change the difference between the two clocks.
    pub(crate) fn turn_clocks(&mut self) {
        if self.dice.percent(self.odds.skew) {
            self.skew = [0, 0, -90_000, 90_000, -1500, 4000][self.dice.below(6) as usize];
            self.say(format!("the clocks differ by {} ms", self.skew));
        }
    }

    pub(crate) fn fate(&mut self) -> Fate {
        let (dice, odds) = (&mut self.dice, self.odds);
        let fate = if dice.percent(odds.refused) {
            Fate::Refused
        } else if dice.percent(odds.late) {
            Fate::Late
        } else if dice.percent(odds.lost) {
            Fate::AnswerLost
        } else {
            return Fate::Done;
        };
        self.say(format!("  {fate:?}"));
        fate
    }

    /// Ends all faults.
    pub(crate) fn calm(&mut self) {
        self.log.push("from here on all is well".to_owned());
        self.odds = Odds::default();
    }
}
