//! Simulates a world with delays around the Job machine. Writes are carried out late or not at all, and responses are
//! lost. The watch lags and reorders Pods. The controller crashes at any moment.
//!
//! The shell here is as thin as the real one: a cache that takes no older version, and turns of the machine. Read
//! first: [`World::step`], then `turn`.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use lakh::{
    decide::{CreateError, Effect, JobMachine, Outcome},
    model::{
        FailedContainer, Job, JobSpec, Limits, Now, PodFlags, PodName, PodPhase, PodRecord,
        PodTable, Slot, Time, Timeout, Uid,
    },
};

use super::{judge::Judge, server::Server};

/// A random number generator that a seed determines (SplitMix64).
#[derive(Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len() as u64) as usize)
    }
}

/// Chances of faults, in percent per occasion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Odds {
    pub(crate) refused: u64,
    pub(crate) lost: u64,
    pub(crate) pod_fails: u64,
    pub(crate) restarts: u64,
    pub(crate) crash: u64,
    pub(crate) user: u64,
    /// A Pod disappears uncounted: a user removed its finalizer, or it was released.
    pub(crate) vanish: u64,
    /// A Pod appears that the machine did not create.
    pub(crate) adopted: u64,
    /// The watch repeats an event.
    pub(crate) repeated: u64,
    /// Maximum number of changed Pods in a turn; not a chance. 0 means all.
    pub(crate) bite: u64,
    /// The wall clock is set back.
    pub(crate) clock: u64,
    pub(crate) spec: u64,
    pub(crate) gone: u64,
}

/// Maximum lag of the watch.
const MOST_LAG: Duration = Duration::from_secs(10);

/// A write in flight, or its response.
struct Flight {
    effect: Effect,
    uid: Uid,
    base: u64,
    /// The cached Pod when the machine requested the write.
    view: Option<PodRecord>,
    /// The spec that the machine knew.
    spec: JobSpec,
    /// The controller that sent it has crashed. The response is dropped.
    ghost: bool,
    answer: Option<(Outcome, Option<PodRecord>, Option<u64>)>,
}

/// The Job machine under test, its shell, the simulated server and the judge. `step` makes a random event happen;
/// `heal` ends the faults and runs everything to its end.
pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) odds: Odds,
    pub(crate) server: Server,
    pub(crate) judge: Judge,
    pub(crate) now: Now,
    pub(crate) log: Vec<String>,
    job_is_gone: bool,
    machine: JobMachine,
    limits: Limits,
    table: PodTable,
    slots: BTreeMap<Uid, Slot>,
    uids: BTreeMap<Slot, Uid>,
    buried: BTreeSet<Uid>,
    /// The resourceVersion on which the machine's next status is based.
    base: u64,
    known_job: Job,
    /// The spec that the machine knows.
    fed_spec: JobSpec,
    flights: Vec<Flight>,
    outcomes: Vec<Outcome>,
    pod_events: BTreeMap<Uid, VecDeque<Option<PodRecord>>>,
    job_events: VecDeque<Option<Job>>,
}

impl World {
    pub(crate) fn new(job: Job, limits: Limits, odds: Odds, dice: Dice) -> Self {
        Self {
            machine: JobMachine::new(&job, limits),
            judge: Judge::new(&job),
            base: job.resource_version,
            known_job: job.clone(),
            fed_spec: job.spec.clone(),
            server: Server::new(job),
            dice,
            odds,
            now: Now::at(Time::from_secs(1_000_000)),
            log: Vec::new(),
            job_is_gone: false,
            limits,
            table: PodTable::default(),
            slots: BTreeMap::new(),
            uids: BTreeMap::new(),
            buried: BTreeSet::new(),
            flights: Vec::new(),
            outcomes: Vec::new(),
            pod_events: BTreeMap::new(),
            job_events: VecDeque::new(),
        }
    }

    /// Makes a random event happen.
    pub(crate) fn step(&mut self) {
        match self.dice.below(100) {
            0..20 => self.turn(),
            20..40 => self.serve(),
            40..55 => self.answer(),
            55..70 => self.watch_pod(),
            70..74 => self.watch_job(),
            74..90 => drop(self.kubelet()),
            90..94 => self.tick(),
            _ => self.trouble(),
        }
    }

    /// Ends the faults and runs everything. Returns true once nothing is left to do.
    pub(crate) fn heal(&mut self) -> bool {
        self.odds = Odds::default();
        for _ in 0..4000 {
            let busy = !self.flights.is_empty()
                || !self.job_events.is_empty()
                || self.pod_events.values().any(|events| !events.is_empty());
            for _ in 0..self.flights.len() {
                self.serve();
                self.answer();
            }
            while self.pod_events.values().any(|events| !events.is_empty()) {
                self.watch_pod();
            }
            self.watch_job();
            self.turn();
            if busy || !self.flights.is_empty() {
                continue;
            }
            if self.kubelet() {
                continue;
            }
            match self.machine.poll_timeout() {
                Some((at, why)) => {
                    self.note(|| format!("wait for {why}"));
                    let left = at.left(self.now).unwrap_or_default();
                    assert!(!left.is_zero(), "a timeout that has passed: {why}");
                    self.now = self.now + left;
                }
                None => return true,
            }
        }
        false
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        let text = format!("{} {}", self.now.wall.as_millis() % 1_000_000_000, text());
        self.log.push(text);
    }

    fn turn(&mut self) {
        for outcome in std::mem::take(&mut self.outcomes) {
            self.note(|| format!("outcome {outcome:?}"));
            self.machine.handle_outcome(outcome, self.now.monotonic);
        }
        if self.known_job.resource_version > self.base && !self.machine.is_writing_status() {
            self.note(|| "the machine learns the job".to_owned());
            self.base = self.known_job.resource_version;
            self.machine.handle_job(&self.known_job);
            if !self.machine.is_outdated() {
                self.fed_spec = self.known_job.spec.clone();
            }
        }
        let waits = self.flights.iter().any(|flight| !flight.ghost);
        if self.machine.is_outdated() && !waits {
            self.note(|| "successor".to_owned());
            self.machine = self.machine.successor(&self.known_job);
            self.judge.machine_made();
            self.fed_spec = self.known_job.spec.clone();
            self.table.mark_all();
        }
        self.hear_of_pods();
        self.machine.decide(&self.table, self.now);
        if !self.machine.is_outdated() && !self.table.is_dirty() {
            self.machine.debug_check(&self.table);
        }
        let effects: Vec<Effect> = std::iter::from_fn(|| self.machine.poll_effect()).collect();
        let timeout = self.machine.poll_timeout();
        self.check_wait(timeout);
        self.machine.decide(&self.table, self.now);
        assert_eq!(self.machine.poll_effect(), None, "a second decide");
        assert_eq!(self.machine.poll_timeout(), timeout, "a second decide");
        for effect in effects {
            self.send(effect);
        }
    }

    /// Checks that no wait exceeds its maximum, whatever the clock does. Waits for a time of day are exempt.
    fn check_wait(&self, timeout: Option<(Timeout, &'static str)>) {
        let Some((at, why)) = timeout else { return };
        let most = match why {
            "status write"
            | "pod creation retry"
            | "pod deletion retry"
            | "finalizer removal retry" => self.limits.retry_backoff.max,
            // Upstream forgets a creation after five minutes.
            "lost creations" => Duration::from_secs(300),
            _ => return,
        };
        let wait = at.left(self.now).unwrap_or(Duration::MAX);
        assert!(wait <= most, "{why} waits for {wait:?}");
    }

    /// Passes the changed Pods to the machine, or a few of them. The others wait for its next turns.
    fn hear_of_pods(&mut self) {
        let most = match self.odds.bite {
            0 => u64::MAX,
            bite => 1 + self.dice.below(bite),
        };
        for _ in 0..most {
            let Some((slot, pod)) = self.table.take_dirty() else {
                break;
            };
            self.machine.handle_pod(slot, pod);
        }
    }

    fn send(&mut self, effect: Effect) {
        self.note(|| format!("effect {effect:?}"));
        let uid = match &effect {
            Effect::DeletePod(slot)
            | Effect::RemoveFinalizer(slot)
            | Effect::RemoveFinalizerIfUnchanged(slot) => self.uids[slot],
            Effect::CreatePod(new) => {
                self.judge.asked_for_pod(self.base);
                let name = PodName::new(&self.server.job.key.name, &self.server.name_of(new));
                let known = self.table.iter().find(|(_, pod)| pod.name == name);
                assert_eq!(known, None, "{new:?} has the name of a Pod that is known");
                Uid::default()
            }
            Effect::WriteStatus(_) => Uid::default(),
            Effect::MakeGangObject(_) => unreachable!("nobody told of gangs"),
            Effect::Report(report) => {
                self.judge.report(&self.server.job, report);
                return;
            }
            Effect::PolicyApplied(action) => {
                self.judge.policy_applied(*action);
                return;
            }
        };
        let view = self.slots.get(&uid).and_then(|slot| self.table.get(*slot));
        let view = view.cloned();
        self.flights.push(Flight {
            effect,
            uid,
            base: self.base,
            spec: self.fed_spec.clone(),
            view,
            ghost: false,
            answer: None,
        });
    }

    /// The server carries out or refuses a waiting write. The write or its response may be lost.
    fn serve(&mut self) {
        let waiting: Vec<usize> = (0..self.flights.len())
            .filter(|at| self.flights[*at].answer.is_none())
            .collect();
        let Some(at) = self.dice.pick(&waiting).copied() else {
            return;
        };
        let refused = self.dice.percent(self.odds.refused);
        let lost = self.dice.percent(self.odds.lost);
        if lost {
            self.judge.answer_lost();
        }
        let vain = lost && self.dice.percent(50);
        let happens = !(refused || vain);
        let flight = self.flights.swap_remove(at);
        let (outcome, record, version) = self.carry_out(&flight, happens);
        let outcome = match (&flight.effect, outcome) {
            (_, yes) if happens && !lost => yes,
            (Effect::CreatePod(new), Outcome::PodCreated(_)) => {
                let error = match refused {
                    true => CreateError::Refused,
                    false => CreateError::Unknown,
                };
                Outcome::PodNotCreated(new.id(), error)
            }
            (Effect::DeletePod(slot), _) => Outcome::PodNotDeleted(*slot),
            (Effect::RemoveFinalizer(slot) | Effect::RemoveFinalizerIfUnchanged(slot), _) => {
                Outcome::FinalizerNotRemoved(*slot)
            }
            (Effect::WriteStatus(_), _) => Outcome::StatusNotWritten,
            (_, other) => other,
        };
        self.log.push(format!(
            "  served happens={happens} lost={lost} {} {outcome:?}",
            flight.uid
        ));
        if flight.ghost {
            return;
        }
        let record = record.filter(|_| happens && !lost);
        self.flights.push(Flight {
            answer: Some((outcome, record, version)),
            ..flight
        });
    }

    fn carry_out(
        &mut self,
        flight: &Flight,
        happens: bool,
    ) -> (Outcome, Option<PodRecord>, Option<u64>) {
        let uid = flight.uid;
        match &flight.effect {
            Effect::CreatePod(new) => {
                if !happens {
                    return (Outcome::PodCreated(new.id()), None, None);
                }
                let before = self.server.pods.len();
                match self.server.create(new, self.now.wall) {
                    Ok(uid) => {
                        if self.server.pods.len() > before {
                            self.judge.created(&self.server, new, uid, flight.ghost);
                            self.publish(uid);
                        }
                        let record = self.server.pods[&uid].record.clone();
                        (Outcome::PodCreated(new.id()), Some(record), None)
                    }
                    Err(error) => (Outcome::PodNotCreated(new.id(), error), None, None),
                }
            }
            Effect::DeletePod(slot) => {
                let mut record = None;
                if happens && self.server.pods.contains_key(&uid) {
                    self.judge.stopped(&self.server, uid);
                    self.server.delete(uid, self.now.wall);
                    record = self.publish(uid);
                }
                (Outcome::PodDeleted(*slot), record, None)
            }
            Effect::RemoveFinalizer(slot) | Effect::RemoveFinalizerIfUnchanged(slot) => {
                let mut record = None;
                if happens && self.server.pods.contains_key(&uid) {
                    if let Some(view) = flight.view.as_ref().filter(|_| !self.job_is_gone) {
                        self.judge.released(&self.server, &flight.spec, view);
                    }
                    self.server.remove_finalizer(uid);
                    record = self.publish(uid);
                }
                (Outcome::FinalizerRemoved(*slot), record, None)
            }
            Effect::WriteStatus(status) => {
                if !happens || self.job_is_gone {
                    return (Outcome::StatusNotWritten, None, None);
                }
                let old = self.server.job.status.clone();
                match self.server.write_status(status, flight.base) {
                    Ok(()) => {
                        self.judge.status(&self.server, &flight.spec, &old);
                        self.publish_job();
                        let version = self.server.job.resource_version;
                        (Outcome::StatusWritten, None, Some(version))
                    }
                    Err(conflict) => {
                        assert_eq!(conflict, "conflict", "{old:#?} to {status:#?}");
                        (Outcome::StatusNotWritten, None, None)
                    }
                }
            }
            Effect::MakeGangObject(_) => unreachable!("nobody told of gangs"),
            Effect::Report(_) | Effect::PolicyApplied(_) => unreachable!("it is not sent"),
        }
    }

    /// Puts a Pod's new version into the watch, and returns it for the response.
    fn publish(&mut self, uid: Uid) -> Option<PodRecord> {
        let record = self.server.pods.get(&uid).map(|pod| pod.record.clone());
        self.pod_events
            .entry(uid)
            .or_default()
            .push_back(record.clone());
        record
    }

    fn publish_job(&mut self) {
        self.job_events.push_back(Some(self.server.job.clone()));
    }

    /// Delivers a response, and stores its object in the cache.
    fn answer(&mut self) {
        let answered: Vec<usize> = (0..self.flights.len())
            .filter(|at| self.flights[*at].answer.is_some())
            .collect();
        let Some(at) = self.dice.pick(&answered).copied() else {
            return;
        };
        let flight = self.flights.swap_remove(at);
        let Some((outcome, record, version)) = flight.answer else {
            return;
        };
        if let Some(record) = record {
            self.store(record);
        }
        if let (Outcome::StatusWritten, Some(version)) = (&outcome, version) {
            self.base = self.base.max(version);
        }
        self.outcomes.push(outcome);
    }

    fn store(&mut self, record: PodRecord) {
        if self.buried.contains(&record.uid) {
            return;
        }
        match self.slots.get(&record.uid) {
            Some(slot) => {
                let known = self.table.get(*slot).map_or(0, |pod| pod.resource_version);
                if record.resource_version >= known {
                    self.table.replace(*slot, record);
                }
            }
            None => {
                let uid = record.uid;
                let slot = self.table.insert(record);
                self.slots.insert(uid, slot);
                self.uids.insert(slot, uid);
            }
        }
    }

    fn watch_pod(&mut self) {
        let waiting: Vec<Uid> = self
            .pod_events
            .iter()
            .filter(|(_, events)| !events.is_empty())
            .map(|(uid, _)| *uid)
            .collect();
        let Some(uid) = self.dice.pick(&waiting).copied() else {
            return;
        };
        let event = self.pod_events.get_mut(&uid).and_then(VecDeque::pop_front);
        match event.flatten() {
            Some(record) => {
                if self.repeats() {
                    let events = self.pod_events.entry(uid).or_default();
                    events.push_back(Some(record.clone()));
                }
                self.store(record);
            }
            None => {
                self.buried.insert(uid);
                if let Some(slot) = self.slots.remove(&uid) {
                    self.table.remove(slot);
                }
            }
        }
    }

    /// Returns true if the watch repeats an event.
    fn repeats(&mut self) -> bool {
        self.odds.repeated > 0 && self.dice.percent(self.odds.repeated)
    }

    fn watch_job(&mut self) {
        match self.job_events.pop_front() {
            Some(Some(job)) if job.resource_version < self.known_job.resource_version => {}
            Some(Some(job)) => {
                if self.repeats() {
                    self.job_events.push_back(Some(job.clone()));
                }
                self.known_job = job;
            }
            Some(None) => self.machine.handle_job_gone(),
            None => {}
        }
    }

    /// Advances a Pod. Returns true if there was one to advance.
    fn kubelet(&mut self) -> bool {
        let living: Vec<Uid> = self
            .server
            .pods
            .iter()
            .filter(|(_, pod)| !pod.record.phase.is_terminal())
            .map(|(uid, _)| *uid)
            .collect();
        let Some(uid) = self.dice.pick(&living).copied() else {
            return false;
        };
        let record = self.server.pods[&uid].record.clone();
        let fails = self.dice.percent(self.odds.pod_fails);
        let restarts = self.dice.percent(self.odds.restarts);
        let end = match fails {
            true => PodPhase::Failed,
            false => PodPhase::Succeeded,
        };
        if record.has(PodFlags::DELETING) && !record.has(PodFlags::ASSIGNED) {
            // The Pod garbage collector ends this Pod, since no kubelet will.
            self.end(uid, PodPhase::Failed);
        } else if record.has(PodFlags::DELETING) {
            self.end(uid, end);
        } else if !record.has(PodFlags::ASSIGNED) {
            self.server
                .change(uid, |pod| pod.record.flags.set(PodFlags::ASSIGNED, true));
        } else if record.phase == PodPhase::Pending {
            self.server
                .change(uid, |pod| pod.record.phase = PodPhase::Running);
        } else if restarts {
            self.server.change(uid, |pod| pod.record.restarts += 1);
        } else if !record.has(PodFlags::READY) && self.dice.percent(60) {
            self.server
                .change(uid, |pod| pod.record.flags.set(PodFlags::READY, true));
        } else {
            self.end(uid, end);
        }
        self.log.push(format!("  pod {uid} gets on"));
        self.publish(uid);
        true
    }

    fn end(&mut self, uid: Uid, phase: PodPhase) {
        let code = 1 + i32::try_from(self.dice.below(12)).expect("small");
        if phase == PodPhase::Failed {
            let container = FailedContainer {
                name: "main".into(),
                exit_code: code.min(5),
            };
            self.server
                .change(uid, |pod| pod.facts.containers.push(container));
        }
        self.judge
            .ended(&self.server.job.spec, &self.server.pods[&uid], phase);
        self.server.end(uid, phase, self.now.wall);
    }

    fn tick(&mut self) {
        let next = self.machine.poll_timeout();
        let next = next.and_then(|(at, _)| at.left(self.now));
        let some = Duration::from_millis(self.dice.below(3000));
        let passes = match next {
            Some(left) if self.dice.percent(60) => left,
            Some(_) | None => some,
        };
        // The watch lags by seconds, never by the minute or more after which a creation counts as lost.
        if passes > MOST_LAG {
            while self.pod_events.values().any(|events| !events.is_empty()) {
                self.watch_pod();
            }
        }
        self.now = self.now + passes;
    }

    fn trouble(&mut self) {
        let odds = self.odds.clone();
        if self.dice.percent(odds.crash) {
            self.crash();
        }
        let pods: Vec<Uid> = self.server.pods.keys().copied().collect();
        if self.dice.percent(odds.user)
            && let Some(uid) = self.dice.pick(&pods).copied()
        {
            self.note(|| format!("somebody deletes {uid}"));
            self.judge.deleted_by_somebody(uid);
            self.server.delete(uid, self.now.wall);
            let disrupts = self.dice.percent(50);
            self.server.change(uid, |pod| {
                if disrupts && !pod.record.phase.is_terminal() {
                    let condition = ("DisruptionTarget".into(), "True".into());
                    pod.facts.conditions.push(condition);
                }
            });
            self.publish(uid);
        }
        if self.dice.percent(odds.vanish)
            && let Some(uid) = self.dice.pick(&pods).copied()
        {
            self.note(|| format!("{uid} vanishes"));
            self.judge.vanished();
            self.server.pods.remove(&uid);
            self.publish(uid);
        }
        let job = &self.server.job;
        let takes_more = !self.job_is_gone && !job.status.is_finished() && !job.deleting;
        if takes_more && odds.adopted > 0 && self.dice.percent(odds.adopted) {
            let index = u32::try_from(self.dice.below(14)).expect("small");
            let index = Some(index).filter(|_| self.server.job.spec.is_indexed());
            let uid = self.server.adopt(index, self.now.wall);
            self.note(|| format!("{uid} is adopted"));
            self.judge.adopted(uid, index);
            self.publish(uid);
        }
        if self.dice.percent(odds.spec) && !self.job_is_gone {
            self.change_spec();
        }
        if odds.clock > 0 && self.dice.percent(odds.clock) {
            let step = i64::try_from(self.dice.below(4000)).expect("small");
            self.now.wall = Time::from_millis(self.now.wall.as_millis() - step * 1000);
            self.note(|| format!("the time of day is set back by {step} s"));
        }
        if self.dice.percent(odds.gone) && !self.job_is_gone {
            self.note(|| "the job is gone".to_owned());
            self.job_is_gone = true;
            self.job_events.push_back(None);
        }
    }

    fn change_spec(&mut self) {
        if self.server.job.status.is_finished() {
            return;
        }
        let choice = self.dice.below(10);
        let number = u32::try_from(self.dice.below(6)).expect("small");
        let deletes = self.dice.percent(5);
        self.server.change_job(|job| {
            let spec = &mut job.spec;
            let elastic = spec.is_indexed() && spec.completions == Some(spec.parallelism);
            match choice {
                0..5 => spec.suspend = !spec.suspend,
                _ if elastic => {
                    spec.parallelism = number;
                    spec.completions = Some(number);
                }
                _ => spec.parallelism = number,
            }
            job.deleting |= deletes;
        });
        self.judge.spec_changed(&self.server.job);
        let job = self.server.job.clone();
        self.note(|| format!("somebody changes the job: {:?}", job.spec));
        self.publish_job();
    }

    /// Crashes the controller. Another one starts from the server's state. Writes in flight may still arrive.
    fn crash(&mut self) {
        self.note(|| "crash".to_owned());
        self.judge.crashed();
        self.flights.retain(|flight| flight.answer.is_none());
        for flight in &mut self.flights {
            flight.ghost = true;
        }
        self.outcomes.clear();
        self.pod_events.clear();
        self.job_events.clear();
        self.buried.clear();
        self.slots.clear();
        self.uids.clear();
        self.table = PodTable::default();
        let records: Vec<PodRecord> = self
            .server
            .pods
            .values()
            .map(|pod| pod.record.clone())
            .collect();
        for record in records {
            self.store(record);
        }
        self.known_job = self.server.job.clone();
        self.base = self.known_job.resource_version;
        self.fed_spec = self.known_job.spec.clone();
        self.machine = JobMachine::new(&self.known_job, self.limits);
        self.judge.machine_made();
        if self.job_is_gone {
            self.machine.handle_job_gone();
        }
    }

    /// Starts another controller when nothing is left to do, and checks that it finds nothing.
    pub(crate) fn look_again(&mut self) {
        self.crash();
        self.turn();
        assert!(self.flights.is_empty(), "a new look finds something to do");
        let again = self.machine.poll_timeout();
        assert_eq!(again, None, "a new look waits for something");
    }

    pub(crate) fn is_job_gone(&self) -> bool {
        self.job_is_gone
    }
}
