//! What random histories of CronJobs and of TTLs stand on: dice, two clocks, what becomes of calls, and the
//! story so far.
//!
//! Must not: know what the calls are.

use std::time::Duration;

use lakh::model::{Exponential, Now, Time};

use super::world::Dice;

/// How soon what failed is tried again.
pub(crate) const BACKOFF: Exponential = Exponential {
    base: Duration::from_secs(1),
    max: Duration::from_secs(60),
};

/// What may go wrong, in percent of the occasions.
#[derive(Clone, Copy, Debug, Default)]
struct Odds {
    refused: u64,
    lost: u64,
    late: u64,
    restart: u64,
    skew: u64,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is done, and answered.
    Done,
    /// It is done; nobody hears of it.
    AnswerLost,
    /// It is not done.
    Refused,
    /// It may be done much later; whoever made it has given up by then.
    Late,
}

/// See the module's text.
pub(crate) struct Ground {
    pub(crate) dice: Dice,
    odds: Odds,
    /// The server's time.
    pub(crate) now: Time,
    /// How far ahead the controller's is, in milliseconds.
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

    /// Some chance below this, or none at all.
    pub(crate) fn some(&mut self, most: u64) -> u64 {
        match self.dice.below(2) {
            0 => 0,
            _ => self.dice.below(most),
        }
    }

    /// The controller's time. Its waits go on whatever is done to its clock.
    pub(crate) fn there(&self) -> Now {
        Now {
            wall: Time::from_millis(self.now.as_millis() + self.skew),
            ..Now::at(self.now)
        }
    }

    pub(crate) fn say(&mut self, what: String) {
        self.log.push(format!("{} {what}", self.now.to_rfc3339()));
    }

    /// Time passes: a moment or days.
    pub(crate) fn pass(&mut self) {
        let most = [2000, 60_000, 600_000, 7_200_000, 200_000_000][self.dice.below(5) as usize];
        let passed = Duration::from_millis(self.dice.below(most));
        self.now = self.now + passed;
        self.say(format!("{passed:?} have passed"));
    }

    /// Whether the controller starts anew now.
    pub(crate) fn restarts(&mut self) -> bool {
        let restarts = self.dice.percent(self.odds.restart);
        if restarts {
            self.say("the controller starts anew".to_owned());
        }
        restarts
    }

    /// The two clocks may come to differ in another way.
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

    /// Nothing goes wrong any more.
    pub(crate) fn calm(&mut self) {
        self.log.push("from here on all is well".to_owned());
        self.odds = Odds::default();
    }
}
