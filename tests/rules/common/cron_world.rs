//! Drives the CronJob machine with random events, responses and times, and simulates the server.
//!
//! Users edit, delete and recreate the CronJob, create Jobs by hand and delete them (`cron_people`). Jobs end, and the
//! watch lags. Requests are refused, lose their response, or are carried out much later (`cron_server`). The controller
//! restarts (`cron_shell`). Minutes and days pass, on two clocks that disagree. The machine's requests are checked
//! against a model of a sync (`cron_judge`). The server's state is checked against invariants, and at the end against
//! the expected state (`cron_rest`). Read first: [`CronWorld::step`].

use std::collections::{BTreeMap, VecDeque};

use lakh::{
    cronjob::{CallAnswer, CronJobEffect, CronJobSync, Next},
    model::{CronJob, CronJobStatus, Now, Time, Uid},
};

use super::{
    cron_judge::{Look, TrueJob},
    cron_shell::{Flight, News, Shell, Turn, child, key},
    ground::Ground,
    world::Dice,
};

/// The Job created for a run.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) job: Uid,
    /// It was removed when no controller could know of the run any more.
    pub(super) forgotten: bool,
}

/// The CronJob machine under test, its shell, and the simulated server. `step` makes a random event happen; `rest` ends
/// the faults, runs everything to its end and checks the result.
pub(crate) struct CronWorld {
    pub(crate) ground: Ground,
    /// The chance of a user action in a step, in percent.
    pub(super) people: u64,
    pub(super) cron: Option<CronJob>,
    pub(super) jobs: BTreeMap<Uid, TrueJob>,
    pub(super) news: [VecDeque<News>; 2],
    pub(super) late: Vec<(Uid, CronJobEffect)>,
    pub(super) shell: Shell,
    pub(super) version: u64,
    pub(super) uids: u128,
    pub(super) made: BTreeMap<(Uid, Time), Made>,
    /// A run may be skipped until the next sync. Either the schedule has changed since the last sync, or that sync
    /// found the run's name taken.
    pub(super) passes_over: bool,
    /// A Job beyond the history limits could not be deleted.
    pub(super) surplus_left: bool,
    /// Number of Jobs that the machine has created.
    pub(crate) started: usize,
}

impl CronWorld {
    pub(crate) fn new(dice: Dice) -> Self {
        let mut ground = Ground::new(dice);
        let mut world = Self {
            people: 1 + ground.some(15),
            ground,
            cron: None,
            jobs: BTreeMap::new(),
            news: [VecDeque::new(), VecDeque::new()],
            late: Vec::new(),
            shell: Shell::new(None, &BTreeMap::new()),
            version: 0,
            uids: 0,
            made: BTreeMap::new(),
            passes_over: false,
            surplus_left: false,
            started: 0,
        };
        world.make_cron_job();
        world
    }

    pub(super) fn version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Makes a random event happen.
    pub(crate) fn step(&mut self) {
        if self.ground.dice.percent(self.people) {
            self.people();
        } else if self.ground.restarts() {
            self.restart();
        } else {
            self.ground.turn_clocks();
        }
        match self.ground.dice.below(100) {
            0..12 => _ = self.watch(0),
            12..28 => _ = self.watch(1),
            28..38 => self.job_goes_on(),
            38..44 => self.ground.pass(),
            44..46 => self.late_call(),
            _ => _ = self.controller(),
        }
    }

    pub(super) fn watch(&mut self, kind: usize) -> bool {
        let Some(news) = self.news[kind].pop_front() else {
            return false;
        };
        let now = self.ground.there();
        self.shell.hear(news, now.wall);
        if self.news[0].is_empty() {
            assert_eq!(self.shell.cron, self.cron, "the watch has told all");
        }
        true
    }

    pub(super) fn restart(&mut self) {
        self.ground.say("the controller starts anew".to_owned());
        if let Some(turn) = self.shell.turn.take()
            && let Some(Flight::Asked(effect)) = turn.flight
        {
            self.late.push((turn.uid, effect));
        }
        self.news = [VecDeque::new(), VecDeque::new()];
        self.shell = Shell::new(self.cron.clone(), &self.jobs);
    }

    /// Runs one step of the controller. Returns true if there was one to run.
    pub(super) fn controller(&mut self) -> bool {
        let now = self.ground.there();
        let Some(mut turn) = self.shell.turn.take() else {
            return self.begin(now);
        };
        match turn.flight.take() {
            None => match turn.sync.poll() {
                CronJobEffect::Over(next) => {
                    turn.look.over(next);
                    self.end_turn(next, &turn.look);
                    return true;
                }
                CronJobEffect::Report(report) => {
                    self.ground
                        .say(format!("  {}: {}", report.reason, report.message));
                }
                effect => {
                    self.ground.say(format!("  {effect:?}"));
                    turn.look.asked(&effect, &self.jobs);
                    turn.flight = Some(Flight::Asked(effect));
                }
            },
            Some(Flight::Asked(effect)) => turn.flight = Some(self.call(turn.uid, effect)),
            Some(Flight::Answered(effect, answer, version)) => {
                if let (CronJobEffect::WriteStatus(status, on), CallAnswer::StatusWritten) =
                    (&effect, &answer)
                {
                    self.status_written(turn.uid, status, *on, version);
                }
                turn.look.answered(&effect, &answer);
                turn.sync.handle(answer);
            }
        }
        self.shell.turn = Some(turn);
        true
    }

    pub(super) fn begin(&mut self, now: Now) -> bool {
        let Some(key) = self.shell.turns.take(now) else {
            return false;
        };
        let Some(cron) = self.shell.cron.clone() else {
            self.shell.turns.forget(&key);
            self.shell.turns.done(&key);
            return true;
        };
        let children: Vec<TrueJob> = self.shell.children.values().cloned().collect();
        self.ground.say(format!(
            "a look, {} Jobs, {:?}",
            children.len(),
            cron.status
        ));
        let jobs = children.iter().map(child).collect();
        self.passes_over &= Some(&cron.spec) != self.cron.as_ref().map(|cron| &cron.spec);
        self.shell.turn = Some(Turn {
            sync: CronJobSync::new(cron.clone(), jobs, now.wall),
            uid: cron.uid,
            look: Look::new(cron, children, now.wall),
            flight: None,
        });
        true
    }

    pub(super) fn end_turn(&mut self, next: Next, look: &Look) {
        self.ground.say(format!("  {next:?}"));
        self.surplus_left = look.leaves_surplus();
        self.passes_over |= look.name_was_taken();
        let (turns, key) = (&mut self.shell.turns, key());
        match next {
            Next::Nothing => turns.forget(&key),
            Next::At(due) => {
                turns.forget(&key);
                turns.add_at(key.clone(), due.into());
            }
            Next::Retry => {
                turns.add_rate_limited(key.clone(), self.ground.there().monotonic);
            }
        }
        turns.done(&key);
    }

    pub(super) fn status_written(
        &mut self,
        uid: Uid,
        status: &CronJobStatus,
        on: u64,
        version: u64,
    ) {
        if let Some(cron) = &mut self.shell.cron
            && cron.uid == uid
            && cron.resource_version == on
        {
            cron.status = status.clone();
            cron.resource_version = version;
        }
    }
}
