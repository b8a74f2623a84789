//! Models the controller's shell, as thin as the real one: the state of one Job's cell, and its turn.
//!
//! Must not: decide. It handles responses and events like the store, the writes and the actor of `shard`.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    time::Duration,
};

use lakh::{
    decide::{CreateError, CreationId, Effect, JobMachine, NewPod, Outcome},
    model::{Job, JobSpec, JobStatus, Limits, Now, PodFlags, PodRecord, PodTable, Slot, Time, Uid},
    ownership::Standing,
};

use super::{
    lockstep::Lockstep,
    server::{JobVersion, PodNews},
    shared::{Pool, Shared},
};

/// Fields of a machine that do not affect its next actions here, where nothing waits after a refusal and no period
/// separates status writes. They hold times, frequencies, prepared texts, and constants.
const IDLE: &[&str] = &[
    "limits: ",
    "key: ",
    "spec: ",
    "write_latency: ",
    "text: ",
    "written_at: ",
    "closed_until: ",
    "batch: ",
    "failures: Failures ",
    "failures_stored: ",
    "failures: #",
];

/// A requested write.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Write {
    Create(Shared<NewPod>),
    Delete(Slot, Uid),
    Release(Slot, Uid),
    Status(Shared<JobStatus>, u16),
}

/// The response to a write that the server carried out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Answer {
    /// The Pod's record in the response, unless the watch has delivered that it is gone.
    Created(CreationId, Option<Shared<PodRecord>>),
    /// The Pod's version, if it still exists.
    Deleted(Slot, Uid, Option<u64>),
    Released(Slot, Uid, Option<u64>),
    Status(JobVersion),
}

/// The shell's state of one Job.
#[derive(Clone, Debug, Hash)]
pub(super) struct Cell {
    pub(super) job: Option<JobVersion>,
    /// The machine has not received this version of the Job yet.
    job_is_fresh: bool,
    gone: bool,
    pub(super) pods: Shared<PodTable>,
    outcomes: Vec<Shared<Outcome>>,
    /// There is a reason for a turn.
    pub(super) stirred: bool,
    /// The time until the next turn, if nothing happens before.
    pub(super) wake_after: Option<Duration>,
    machine: Option<Shared<Held>>,
    /// Number of controllers before this one.
    pub(super) life: u8,
}

/// The state that the turns of a Job need besides its cell.
pub(super) struct Actor {
    id: Job,
    limits: Limits,
    /// Results of turns. They follow from the inputs alone.
    turns: HashMap<u64, Turn>,
    /// Results of changes of the Pods' records. They follow from the inputs, too.
    tables: HashMap<u64, Shared<PodTable>>,
    known_machines: Pool<Held>,
    known_tables: Pool<PodTable>,
    /// Number of turns that really ran.
    pub(super) taken: u64,
    /// Number of them to which the model of the protocol applied.
    pub(super) compared: u64,
}

/// A machine, and the model that it must follow as long as the protocol alone decides.
#[derive(Clone, Debug)]
struct Held {
    machine: JobMachine,
    model: Option<Lockstep>,
}

/// The result of a turn.
#[derive(Clone)]
struct Turn {
    pods: Shared<PodTable>,
    machine: Option<Shared<Held>>,
    job_is_fresh: bool,
    gone: bool,
    wake_after: Option<Duration>,
    /// Status writes are based on the known version of the Job.
    writes: Rc<[Write]>,
}

impl Cell {
    /// Starts a controller with lists of everything on the server.
    pub(super) fn start(
        life: u8,
        job: Option<JobVersion>,
        pods: impl Iterator<Item = Shared<PodRecord>>,
    ) -> Self {
        let mut table = PodTable::default();
        for record in pods {
            table.insert(PodRecord::clone(&record));
        }
        Self {
            job_is_fresh: job.is_some(),
            job,
            gone: false,
            pods: Shared::new(table),
            outcomes: Vec::new(),
            stirred: true,
            wake_after: None,
            machine: None,
            life,
        }
    }

    /// Returns true if the machine has received the known version of the Job.
    pub(super) fn is_up_to_date(&self) -> bool {
        !self.job_is_fresh
    }

    fn slot(&self, uid: Uid) -> Option<(Slot, &PodRecord)> {
        self.pods.iter().find(|(_, pod)| pod.uid == uid)
    }

    /// Changes the Pods' records. `what` identifies the change.
    fn change_pods(
        &mut self,
        actor: &mut Actor,
        what: impl Hash,
        change: impl FnOnce(&mut PodTable),
    ) {
        let mut hasher = DefaultHasher::new();
        (&self.pods, what).hash(&mut hasher);
        let table = actor.tables.entry(hasher.finish()).or_insert_with(|| {
            let mut pods = PodTable::clone(&self.pods);
            change(&mut pods);
            actor.known_tables.kept(Shared::new(pods))
        });
        self.pods = table.clone();
        self.stirred |= self.pods.is_dirty();
    }

    /// Returns true if the cache is newer than this event.
    pub(super) fn knows_pod(&self, (uid, record): &PodNews) -> bool {
        let Some(record) = record else { return false };
        self.slot(*uid)
            .is_some_and(|(_, known)| known.resource_version > record.resource_version)
    }

    pub(super) fn watch_pod(&mut self, actor: &mut Actor, (uid, record): PodNews) {
        let place = self.slot(uid).map(|(slot, _)| slot);
        let what = (uid, record.clone());
        self.change_pods(actor, what, |pods| match (place, record) {
            (Some(slot), Some(record)) => pods.replace(slot, PodRecord::clone(&record)),
            (None, Some(record)) => {
                pods.insert(PodRecord::clone(&record));
            }
            (Some(slot), None) => pods.remove(slot),
            (None, None) => {}
        });
    }

    /// Returns true if the cache is at least as new as this event.
    pub(super) fn knows_job(&self, news: Option<&JobVersion>) -> bool {
        let known = self.job.as_ref();
        news.is_some_and(|news| known.is_some_and(|known| known.number >= news.number))
    }

    pub(super) fn watch_job(&mut self, news: Option<JobVersion>) {
        match news {
            Some(version) => {
                self.job = Some(version);
                self.job_is_fresh = true;
            }
            None => self.gone = true,
        }
        self.stirred = true;
    }

    /// Applies the response to a write.
    pub(super) fn answered(&mut self, actor: &mut Actor, answer: Answer) {
        let outcome = match answer {
            Answer::Created(id, record) => {
                if let Some(record) = record
                    && self.slot(record.uid).is_none()
                {
                    self.change_pods(actor, &record, |pods| {
                        pods.insert(PodRecord::clone(&record));
                    });
                }
                Outcome::PodCreated(id)
            }
            Answer::Deleted(slot, uid, version) => {
                self.written(actor, (slot, uid, version), PodFlags::DELETING, true);
                Outcome::PodDeleted(slot)
            }
            Answer::Released(slot, uid, version) => {
                // Only the watch reports that a Pod is gone.
                if version.is_some() {
                    self.written(actor, (slot, uid, version), PodFlags::FINALIZER, false);
                }
                Outcome::FinalizerRemoved(slot)
            }
            Answer::Status(version) => {
                if let Some(known) = &mut self.job
                    && known.number < version.number
                {
                    let status = version.job.status.clone();
                    let job = Job {
                        status,
                        ..Job::clone(&known.job)
                    };
                    *known = JobVersion {
                        number: version.number,
                        job: Shared::new(job),
                    };
                }
                Outcome::StatusWritten
            }
        };
        self.hear(outcome);
    }

    /// Applies the failure of a write, or its unknown outcome.
    pub(super) fn failed(&mut self, write: &Write, refused: bool) {
        self.hear(match write {
            Write::Create(new) => {
                let error = match refused {
                    true => CreateError::Refused,
                    false => CreateError::Unknown,
                };
                Outcome::PodNotCreated(new.id(), error)
            }
            Write::Delete(slot, _) => Outcome::PodNotDeleted(*slot),
            Write::Release(slot, _) => Outcome::FinalizerNotRemoved(*slot),
            Write::Status(..) => Outcome::StatusNotWritten,
        });
    }

    fn written(
        &mut self,
        actor: &mut Actor,
        what: (Slot, Uid, Option<u64>),
        flag: PodFlags,
        on: bool,
    ) {
        let (slot, uid, version) = what;
        if self.pods.get(slot).is_none_or(|pod| pod.uid != uid) {
            return;
        }
        self.change_pods(actor, (what, on), |pods| {
            pods.update(slot, |pod| {
                pod.resource_version = pod.resource_version.max(version.unwrap_or(0));
                pod.flags.set(flag, on);
            });
        });
    }

    fn hear(&mut self, outcome: Outcome) {
        self.outcomes.push(Shared::new(outcome));
        self.stirred = true;
    }

    /// Runs a turn. Returns its requests, or an error if the machine panics or violates the model.
    pub(super) fn turn(
        &mut self,
        actor: &mut Actor,
        in_flight: bool,
        now: Time,
    ) -> Result<Vec<Write>, String> {
        let mut hasher = DefaultHasher::new();
        let job = self.job.as_ref().map(|version| &version.job);
        (job, self.job_is_fresh, self.gone, &self.pods).hash(&mut hasher);
        (&self.outcomes, &self.machine, self.life).hash(&mut hasher);
        (in_flight, now).hash(&mut hasher);
        let key = hasher.finish();
        let turn = match actor.turns.get(&key) {
            Some(turn) => turn.clone(),
            None => {
                let run = || actor.turn(self, in_flight, now);
                let turn = catch_unwind(AssertUnwindSafe(run)).map_err(|cause| {
                    let text = cause.downcast_ref::<String>().cloned();
                    text.unwrap_or_else(|| "the machine panicked".to_owned())
                })??;
                actor.taken += 1;
                let held = turn.machine.as_ref();
                actor.compared += u64::from(held.is_some_and(|held| held.model.is_some()));
                let turn = actor.kept(turn);
                actor.turns.insert(key, turn.clone());
                turn
            }
        };
        self.stirred = false;
        // Without a machine there are no outcomes, since no write is in flight.
        self.outcomes.clear();
        self.pods = turn.pods;
        self.machine = turn.machine;
        self.job_is_fresh = turn.job_is_fresh;
        self.gone = turn.gone;
        self.wake_after = turn.wake_after;
        if self.wake_after.is_some_and(|left| left.is_zero()) {
            return Err("a timeout that has passed".to_owned());
        }
        let base = self.job.as_ref().map_or(0, |version| version.number);
        let mut writes = turn.writes.to_vec();
        for write in &mut writes {
            if let Write::Status(_, on) = write {
                *on = base;
            }
        }
        Ok(writes)
    }

    fn standing(&self) -> Standing {
        let job = self.job.as_ref().map(|version| &*version.job);
        Standing::of(job, false, self.gone)
    }
}

impl Held {
    fn new(machine: JobMachine, job: &Job) -> Self {
        Self {
            machine,
            model: Lockstep::new(job),
        }
    }

    /// Advances the model as long as it applies.
    fn follow(&mut self, step: impl FnOnce(Lockstep) -> Option<Lockstep>) {
        self.model = self.model.take().and_then(step);
    }

    /// Checks the machine's requests against the model.
    fn ask(&mut self, writes: &[Write]) -> Result<(), String> {
        if let Some(model) = self.model.take() {
            self.model = model.ask(writes)?;
        }
        Ok(())
    }
}

impl Actor {
    pub(super) fn new(id: Job, limits: Limits) -> Self {
        Self {
            id,
            limits,
            turns: HashMap::new(),
            tables: HashMap::new(),
            known_machines: Pool::default(),
            known_tables: Pool::default(),
            taken: 0,
            compared: 0,
        }
    }

    fn turn(&self, cell: &Cell, in_flight: bool, now: Time) -> Result<Turn, String> {
        let now = Now::at(now);
        let mut pods = PodTable::clone(&cell.pods);
        let mut turn = Turn {
            pods: cell.pods.clone(),
            machine: None,
            job_is_fresh: cell.job_is_fresh,
            gone: cell.gone,
            wake_after: None,
            writes: Rc::default(),
        };
        let mut is_new = false;
        let mut outcomes = cell.outcomes.as_slice();
        let mut held = match &cell.machine {
            Some(held) => Held::clone(held),
            None => {
                if in_flight || !needs_machine(cell, &mut pods, &mut turn) {
                    turn.pods = Shared::new(pods);
                    return Ok(turn);
                }
                is_new = true;
                outcomes = &[];
                Held::new(
                    JobMachine::new(&self.job(cell), self.limits),
                    &self.job(cell),
                )
            }
        };
        for outcome in outcomes {
            let machine = &mut held.machine;
            machine.handle_outcome(Outcome::clone(outcome), now.monotonic);
            held.follow(|model| model.hear(outcome));
        }
        if let Some(version) = &cell.job
            && cell.job_is_fresh
            && !held.machine.is_writing_status()
        {
            held.machine.handle_job(&version.job);
            turn.job_is_fresh = false;
            if held.machine.is_outdated() && !cell.gone {
                if in_flight {
                    turn.job_is_fresh = true;
                    turn.machine = Some(Shared::without(held, IDLE));
                    return Ok(turn);
                }
                held = Held::new(held.machine.successor(&version.job), &version.job);
                is_new = true;
            }
            held.follow(|model| (!version.job.deleting).then_some(model));
        }
        if turn.gone {
            held.machine.handle_job_gone();
            held.model = None;
        }
        if is_new {
            pods.mark_all();
        }
        while let Some((slot, pod)) = pods.take_dirty() {
            held.machine.handle_pod(slot, pod);
            held.follow(|model| model.see(slot, pod));
        }
        let machine = &mut held.machine;
        machine.decide(&pods, now);
        if !machine.is_outdated() {
            machine.debug_check(&pods);
        }
        let effects = std::iter::from_fn(|| machine.poll_effect());
        turn.writes = effects.filter_map(|effect| write(&pods, effect)).collect();
        held.ask(&turn.writes)?;
        let timeout = held.machine.poll_timeout();
        turn.wake_after = timeout.map(|(at, _)| at.left(now).unwrap_or_default());
        let job = cell.job.as_ref();
        let over = turn.gone || job.is_some_and(|version| version.job.status.is_finished());
        let idle = turn.wake_after.is_none() && turn.writes.is_empty();
        if !(over && idle && !in_flight) {
            turn.machine = Some(Shared::without(held, IDLE));
        }
        turn.pods = Shared::new(pods);
        Ok(turn)
    }

    /// The same result, with values from the pools.
    fn kept(&mut self, turn: Turn) -> Turn {
        Turn {
            pods: self.known_tables.kept(turn.pods),
            machine: turn
                .machine
                .map(|machine| self.known_machines.kept(machine)),
            ..turn
        }
    }

    /// The Job. Pods of a Job that is gone get an empty one.
    fn job(&self, cell: &Cell) -> Job {
        match &cell.job {
            Some(version) => Job::clone(&version.job),
            None => Job {
                deleting: true,
                spec: JobSpec::default(),
                status: JobStatus::default(),
                ..self.id.clone()
            },
        }
    }
}

/// Returns true if there is work for a Job without a machine.
fn needs_machine(cell: &Cell, pods: &mut PodTable, turn: &mut Turn) -> bool {
    let standing = cell.standing();
    if standing == Standing::AtWork {
        return true;
    }
    let mut needed = false;
    while let Some((_, pod)) = pods.take_dirty() {
        // A live read would not find the Job, since a controller starts with everything that exists.
        let is_gone = pod.is_some_and(|pod| standing.is_doubted_by(pod));
        needed |= is_gone || pod.is_some_and(|pod| standing.frees(pod));
        turn.gone |= is_gone;
    }
    needed
}

fn write(pods: &PodTable, effect: Effect) -> Option<Write> {
    let uid = |slot| pods.get(slot).map(|pod| (slot, pod.uid));
    let write = match effect {
        Effect::CreatePod(new) => Write::Create(Shared::new(new)),
        Effect::DeletePod(slot) => uid(slot).map(|(slot, uid)| Write::Delete(slot, uid))?,
        Effect::RemoveFinalizer(slot) | Effect::RemoveFinalizerIfUnchanged(slot) => {
            uid(slot).map(|(slot, uid)| Write::Release(slot, uid))?
        }
        Effect::WriteStatus(status) => Write::Status(Shared::new(*status), 0),
        Effect::MakeGangObject(_) => unreachable!("nobody told of gangs"),
        Effect::Report(_) | Effect::PolicyApplied(_) => return None,
    };
    Some(write)
}
