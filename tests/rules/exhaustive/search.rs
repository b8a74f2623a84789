//! Searches all reachable situations, the nearest first.
//!
//! From each situation it also follows the course without further trouble, in which all components take turns. That
//! course must reach an end, and the judge checks each end.

use std::{collections::HashMap, collections::hash_map::Entry, fmt::Write as _, mem};

use lakh::model::Job;

use super::{
    judge,
    shell::Actor,
    world::{Config, Step, Steps, World},
};

/// No situation.
const NONE: u32 = u32::MAX;

/// The result of a search.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) states: usize,
    pub(super) transitions: u64,
    /// Situations in which nothing is left to happen by itself.
    pub(super) ends: u64,
    /// Situations in which one Pod more than allowed would be created.
    pub(super) cut: u64,
    /// The distance of the farthest situation in rounds: steps elsewhere, and turns with the inputs before them.
    pub(super) depth: u32,
    /// Number of different turns.
    pub(super) turns: u64,
    /// Number of turns to which the model of the protocol applied.
    pub(super) compared: u64,
    /// The violation, and the shortest history that leads to it.
    pub(super) violation: Option<String>,
}

struct Search<'a> {
    config: &'a Config,
    start: Job,
    actor: Actor,
    seen: HashMap<u64, u32>,
    /// For each situation, the one from which it was reached first, and the start of the steps in between in `steps`.
    came: Vec<(u32, usize)>,
    steps: Vec<Step>,
    /// For each situation, the next one without further trouble.
    goes: Vec<u32>,
    found: Found,
}

/// Searches everything that a new Job can reach, or until there is a violation.
pub(super) fn search(config: &Config, job: &Job) -> Found {
    let mut search = Search {
        config,
        start: job.clone(),
        actor: Actor::new(job.clone(), config.limits),
        seen: HashMap::new(),
        came: Vec::new(),
        steps: Vec::new(),
        goes: Vec::new(),
        found: Found::default(),
    };
    let violation = search.run().or_else(|| search.restless());
    search.found.violation = violation;
    search.found.states = search.came.len();
    search.found.turns = search.actor.taken;
    search.found.compared = search.actor.compared;
    search.found
}

impl Search<'_> {
    fn run(&mut self) -> Option<String> {
        let first = World::new(self.config, &self.start);
        self.number(&first, NONE, &[]);
        let mut layer = vec![(0, first)];
        while !layer.is_empty() {
            let mut next = Vec::new();
            for (at, world) in mem::take(&mut layer) {
                if let Some(violation) = self.look(at, &world, &mut next) {
                    return Some(violation);
                }
            }
            self.found.depth += u32::from(!next.is_empty());
            layer = next;
        }
        None
    }

    fn look(&mut self, at: u32, world: &World, next: &mut Vec<(u32, World)>) -> Option<String> {
        let steps = world.steps(self.config);
        self.found.cut += u64::from(steps.cut);
        if steps.benign.is_empty() && !steps.cut {
            self.found.ends += 1;
            if let Err(text) = judge::end(world, &self.config.spec) {
                return Some(self.tell(at, &[], &text));
            }
        }
        self.each(at, world, &steps, &mut Vec::new(), true, next)
    }

    /// Takes each of the steps. `way` has the steps since situation `at`; `plain` is true if they happened without
    /// trouble, in turns.
    fn each(
        &mut self,
        at: u32,
        world: &World,
        steps: &Steps,
        way: &mut Vec<Step>,
        plain: bool,
        next: &mut Vec<(u32, World)>,
    ) -> Option<String> {
        let by_itself = steps.benign.first();
        for step in steps.benign.iter().chain(&steps.trouble) {
            let plain = plain && by_itself == Some(step);
            self.found.transitions += 1;
            way.push(*step);
            let mut after = world.clone();
            if let Err(text) = after.take(*step, self.config, &mut self.actor) {
                return Some(self.tell(at, way, &text));
            }
            if after.cell.stirred {
                // Nothing else happens before the controller's turn, so this situation is not kept.
                let steps = after.steps(self.config);
                if let Some(violation) = self.each(at, &after, &steps, way, plain, next) {
                    return Some(violation);
                }
            } else {
                let (to, new) = self.number(&after, at, way);
                if plain {
                    self.goes[at as usize] = to;
                }
                if new {
                    next.push((to, after));
                }
            }
            way.pop();
        }
        None
    }

    /// Returns the number of a situation, and true if it is new.
    fn number(&mut self, world: &World, from: u32, way: &[Step]) -> (u32, bool) {
        match self.seen.entry(world.digest()) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(new) => {
                let at = u32::try_from(self.came.len()).expect("fewer than 2^32");
                new.insert(at);
                self.came.push((from, self.steps.len()));
                self.steps.extend(way);
                self.goes.push(NONE);
                (at, true)
            }
        }
    }

    /// The first situation that reaches no end without further trouble.
    fn restless(&self) -> Option<String> {
        const ON_THE_WAY: u8 = 1;
        const ENDS: u8 = 2;
        let mut marks = vec![0_u8; self.goes.len()];
        for start in 0..self.goes.len() {
            let mut way = Vec::new();
            let mut at = start;
            while marks[at] == 0 {
                marks[at] = ON_THE_WAY;
                way.push(at);
                match self.goes[at] {
                    NONE => break,
                    to => at = to as usize,
                }
            }
            if marks[at] == ON_THE_WAY && self.goes[at] != NONE {
                let start = u32::try_from(start).expect("a number of ours");
                return Some(self.tell_restless(start));
            }
            way.into_iter().for_each(|at| marks[at] = ENDS);
        }
        None
    }

    fn way_to(&self, at: u32) -> Vec<Step> {
        let mut parts = Vec::new();
        let mut at = at as usize;
        while at != NONE as usize {
            let (from, begin) = self.came[at];
            let end = self
                .came
                .get(at + 1)
                .map_or(self.steps.len(), |next| next.1);
            parts.push(&self.steps[begin..end]);
            at = from as usize;
        }
        parts.into_iter().rev().flatten().copied().collect()
    }

    /// Formats the history that leads to a situation, and some more steps.
    fn tell(&self, at: u32, more: &[Step], wrong: &str) -> String {
        let mut tale = Tale::new(self.config, &self.start, wrong);
        for step in self.way_to(at).iter().chain(more) {
            tale.tell(*step);
        }
        tale.text
    }

    fn tell_restless(&self, start: u32) -> String {
        let wrong = "what goes on by itself comes to no end";
        let mut tale = Tale::new(self.config, &self.start, wrong);
        for step in self.way_to(start) {
            tale.tell(step);
        }
        tale.text.push_str("  and by itself:\n");
        for _ in 0..40 {
            let steps = tale.world.steps(self.config).benign;
            let Some(step) = steps.first() else { break };
            tale.tell(*step);
        }
        tale.text
    }
}

/// A history, formatted step by step.
struct Tale<'a> {
    config: &'a Config,
    actor: Actor,
    world: World,
    told: u32,
    text: String,
}

impl<'a> Tale<'a> {
    fn new(config: &'a Config, start: &Job, wrong: &str) -> Self {
        Self {
            config,
            actor: Actor::new(start.clone(), config.limits),
            world: World::new(config, start),
            told: 0,
            text: format!("{wrong}\n"),
        }
    }

    /// Takes a step and formats it; of a turn also the requests.
    fn tell(&mut self, step: Step) {
        self.told += 1;
        let text = self.world.describe(step, self.config);
        writeln!(self.text, "{:>4} {text}", self.told).expect("writing to a string");
        let before: Vec<String> = self.world.told_flights().collect();
        // The violation is at the start of the text.
        let _ = self.world.take(step, self.config, &mut self.actor);
        if step == Step::Turn {
            for asked in self.world.told_flights() {
                if !before.contains(&asked) {
                    writeln!(self.text, "       asks: {asked}").expect("writing to a string");
                }
            }
        }
    }
}
