//! Drives the TTL machine with random events, responses and times, and simulates the server.
//!
//! Jobs end. Users change TTLs, delete Jobs, and create others under the same names. The watch lags. Requests are
//! refused, lose their response, or are carried out much later. The controller restarts. Minutes and days pass, on two
//! clocks that disagree. Each step of the machine is judged by the server's last response about the Job, and the end by
//! the Jobs that are left. Read first: [`TtlWorld::step`]. The shell around the machine is as in `shard/ttl.rs`.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use lakh::{
    flow::WorkQueue,
    model::{Condition, ConditionKind, Job, Time, Uid},
    ttl::{Step, concerns},
    wire::foreground_deletion,
};
use serde_json::Value;

use super::{
    ground::{BACKOFF, Fate, Ground},
    words::plain_job,
    world::Dice,
};

/// A turn in progress, between two of its steps.
#[derive(Debug)]
enum Turn {
    /// The read of the Job with this name is in flight.
    Asks(Uid, String),
    /// The response has arrived, or there is none.
    Answered(Uid, String, Option<Option<Box<Job>>>),
    /// The deletion is in flight.
    Deletes(Uid, String, Vec<u8>),
    /// The deletion has ended. It is known to be done, or its outcome is unknown.
    Deleted(Uid, bool),
}

/// The TTL machine under test, its shell, and the simulated server. `step` makes a random event happen; `rest` ends the
/// faults, lets all TTLs expire and checks the result.
pub(crate) struct TtlWorld {
    pub(crate) ground: Ground,
    /// The Jobs on the server by name.
    jobs: BTreeMap<String, Job>,
    news: VecDeque<(Uid, Option<Job>)>,
    late: Vec<(String, Vec<u8>)>,
    known: BTreeMap<Uid, Job>,
    queue: WorkQueue<Uid>,
    turn: Option<Turn>,
    uids: u128,
    version: u64,
    /// Number of Jobs that the machine has deleted.
    pub(crate) deleted: usize,
}

/// The time at which a Job expires, if ever.
fn expiry(job: &Job) -> Option<Time> {
    let ttl = job.spec.ttl_after_finished?;
    let ended = job.status.conditions.iter().find(|condition| {
        let word = condition.kind.as_str();
        condition.status == "True" && (word == "Complete" || word == "Failed")
    })?;
    let at = ended.last_transition.expect("the server's have a time");
    Some(at + ttl).filter(|_| !job.deleting)
}

impl TtlWorld {
    pub(crate) fn new(dice: Dice) -> Self {
        Self {
            ground: Ground::new(dice),
            jobs: BTreeMap::new(),
            news: VecDeque::new(),
            late: Vec::new(),
            known: BTreeMap::new(),
            queue: WorkQueue::new(BACKOFF),
            turn: None,
            uids: 0,
            version: 0,
            deleted: 0,
        }
    }

    /// Makes a random event happen.
    pub(crate) fn step(&mut self) {
        if self.ground.restarts() {
            self.restart();
        } else {
            self.ground.turn_clocks();
        }
        match self.ground.dice.below(100) {
            0..10 => self.people(),
            10..18 => self.job_goes_on(),
            18..35 => _ = self.watch(),
            35..43 => self.ground.pass(),
            43..46 => self.late_deletion(),
            _ => _ = self.controller(),
        }
    }

    fn restart(&mut self) {
        if let Some(Turn::Deletes(_, name, options)) = self.turn.take() {
            self.late.push((name, options));
        }
        self.news.clear();
        self.known.clear();
        self.queue = WorkQueue::new(BACKOFF);
        for job in self.jobs.values().cloned().collect::<Vec<_>>() {
            self.hear(job.uid, Some(job));
        }
    }

    fn watch(&mut self) -> bool {
        let Some((uid, job)) = self.news.pop_front() else {
            return false;
        };
        self.hear(uid, job);
        true
    }

    fn hear(&mut self, uid: Uid, job: Option<Job>) {
        let Some(job) = job else {
            self.known.remove(&uid);
            return;
        };
        if concerns(&job) {
            self.queue.add(uid);
        }
        self.known.insert(uid, job);
    }

    // Actions of users and Jobs.

    fn some_job(&mut self) -> Option<Job> {
        let names: Vec<String> = self.jobs.keys().cloned().collect();
        let name = self.ground.dice.pick(&names)?;
        self.jobs.get(name).cloned()
    }

    fn ttl(&mut self) -> Option<Duration> {
        let secs = [0, 0, 7, 3600, 100_000][self.ground.dice.below(5) as usize];
        self.ground
            .dice
            .percent(75)
            .then(|| Duration::from_secs(secs))
    }

    fn people(&mut self) {
        match self.ground.dice.below(10) {
            0..4 => {
                let name = ["a", "b", "c"][self.ground.dice.below(3) as usize];
                if !self.jobs.contains_key(name) {
                    self.uids += 1;
                    let mut job = plain_job();
                    job.key.name = name.into();
                    job.uid = Uid::from_u128(self.uids);
                    job.spec.ttl_after_finished = self.ttl();
                    self.put(job);
                }
            }
            4..9 => {
                let ttl = self.ttl();
                if let Some(mut job) = self.some_job() {
                    job.spec.ttl_after_finished = ttl;
                    self.put(job);
                }
            }
            _ => {
                if let Some(job) = self.some_job() {
                    self.remove(job);
                }
            }
        }
    }

    fn put(&mut self, mut job: Job) {
        self.version += 1;
        job.resource_version = self.version;
        let (name, ttl) = (job.key.name.to_string(), job.spec.ttl_after_finished);
        let conditions = job.status.conditions.iter();
        let kinds: Vec<_> = conditions.map(|condition| &*condition.kind).collect();
        let text = format!(
            "{name} {} {ttl:?} {kinds:?} {}",
            job.uid.as_u128(),
            job.deleting
        );
        self.ground.say(text);
        self.news.push_back((job.uid, Some(job.clone())));
        self.jobs.insert(name, job);
    }

    /// Deletes a Job. It goes at once, or its Pods or a finalizer keep it for a while.
    fn remove(&mut self, mut job: Job) {
        if !job.deleting && self.ground.dice.percent(50) {
            job.deleting = true;
            self.put(job);
        } else {
            self.ground.say(format!("gone: {}", job.key.name));
            self.jobs.remove(job.key.name.as_str());
            self.news.push_back((job.uid, None));
        }
    }

    /// Brings a Job closer to its end, or finally removes it.
    fn job_goes_on(&mut self) {
        use ConditionKind::{Complete, Failed, FailureTarget, SuccessCriteriaMet, Suspended};
        let Some(mut job) = self.some_job() else {
            return;
        };
        if job.deleting {
            self.remove(job);
            return;
        }
        if has_ended(&job) {
            return;
        }
        let kinds = [
            Complete,
            Failed,
            FailureTarget,
            SuccessCriteriaMet,
            Suspended,
        ];
        let kind = kinds[self.ground.dice.below(5) as usize];
        let at = self.ground.now.whole_secs();
        let mut condition = Condition::new_true(kind, "", "", at);
        if self.ground.dice.percent(20) {
            condition.status = "False".into();
        }
        let conditions = &mut job.status.conditions;
        conditions.retain(|known| !known.is(kind));
        conditions.push(condition);
        self.put(job);
    }

    // The controller and its requests.

    /// Runs one step of the controller. Returns true if there was one to run.
    fn controller(&mut self) -> bool {
        let now = self.ground.there();
        match self.turn.take() {
            None => {
                let Some(uid) = self.queue.take(now) else {
                    return false;
                };
                let known = self.known.get(&uid).cloned();
                let name = known.as_ref().map(|job| job.key.name.to_string());
                self.go_on(
                    uid,
                    name.unwrap_or_default(),
                    Step::after_look(known.as_ref(), now.wall),
                );
            }
            Some(Turn::Asks(uid, name)) => {
                let answer = self.jobs.get(&name).cloned().map(Box::new);
                let came = self.ground.fate() == Fate::Done;
                self.turn = Some(Turn::Answered(uid, name, came.then_some(answer)));
            }
            Some(Turn::Answered(uid, name, answer)) => {
                // Another Job under this name has turns of its own.
                let own = |fresh: Option<Box<Job>>| fresh.filter(|job| job.uid == uid);
                let step = match answer.map(own) {
                    Some(fresh) => {
                        let step = Step::after_answer(fresh.as_deref(), now.wall);
                        self.judge(fresh.as_deref(), step, now.wall);
                        step
                    }
                    None => Step::Retry,
                };
                self.go_on(uid, name, step);
            }
            Some(Turn::Deletes(uid, name, options)) => {
                let known = self.delete(&name, options);
                self.turn = Some(Turn::Deleted(uid, known));
            }
            Some(Turn::Deleted(uid, true)) => self.end(uid, None),
            Some(Turn::Deleted(uid, false)) => self.fail(uid),
        }
        true
    }

    fn go_on(&mut self, uid: Uid, name: String, step: Step) {
        self.ground.say(format!("  {}: {step:?}", uid.as_u128()));
        match step {
            Step::Leave => self.end(uid, None),
            Step::LookAt(at) => self.end(uid, Some(at)),
            Step::GetFresh => self.turn = Some(Turn::Asks(uid, name)),
            Step::Delete { .. } => {
                self.turn = Some(Turn::Deletes(uid, name, foreground_deletion(uid)));
            }
            Step::Retry => self.fail(uid),
        }
    }

    fn end(&mut self, uid: Uid, due: Option<Time>) {
        self.queue.forget(&uid);
        if let Some(due) = due {
            self.queue.add_at(uid, due.into());
        }
        self.queue.done(&uid);
    }

    fn fail(&mut self, uid: Uid) {
        let now = self.ground.there();
        self.queue.add_rate_limited(uid, now.monotonic);
        self.queue.done(&uid);
    }

    /// Checks the step that follows a response.
    fn judge(&self, fresh: Option<&Job>, step: Step, now: Time) {
        let want = match fresh.and_then(expiry) {
            None => Step::Leave,
            Some(at) if now < at => Step::LookAt(at),
            Some(expired) => Step::Delete { expired },
        };
        assert_eq!(step, want, "{fresh:?}");
    }

    /// Sends a deletion. It may not be carried out, or lose its response. Returns true if it is known to be done.
    fn delete(&mut self, name: &str, options: Vec<u8>) -> bool {
        match self.ground.fate() {
            Fate::Refused => false,
            Fate::Late => {
                self.late.push((name.to_owned(), options));
                false
            }
            Fate::AnswerLost => {
                self.serve(name, &options);
                false
            }
            Fate::Done => self.serve(name, &options),
        }
    }

    /// Carries out a deletion long after the controller has given up on it.
    fn late_deletion(&mut self) {
        if !self.late.is_empty() {
            let at = self.ground.dice.below(self.late.len() as u64) as usize;
            let (name, options) = self.late.swap_remove(at);
            self.serve(&name, &options);
        }
    }

    fn serve(&mut self, name: &str, options: &[u8]) -> bool {
        let options: Value = serde_json::from_slice(options).expect("JSON");
        assert_eq!(options["propagationPolicy"], "Foreground");
        let Some(job) = self.jobs.get(name).cloned() else {
            return false;
        };
        let meant = options["preconditions"]["uid"].as_str();
        if meant.is_some_and(|uid| uid != job.uid.to_string()) {
            return false;
        }
        assert!(has_ended(&job), "deleted before its end: {job:?}");
        if !job.deleting {
            self.deleted += 1;
            self.remove(job);
        }
        true
    }

    // The end.

    /// Ends the faults and user actions, lets all TTLs expire, and checks the Jobs that are left.
    pub(crate) fn rest(&mut self) {
        self.ground.calm();
        self.settle();
        // Failures are retried within a minute, even if the wall clock was set back.
        self.ground.now = self.ground.now + BACKOFF.max;
        self.settle();
        self.check_left(self.ground.there().wall);
        while let Some(left) = self.queue.next_due().left(self.ground.there()) {
            self.ground.now = self.ground.now + left;
            self.settle();
        }
        self.check_left(Time::from_millis(i64::MAX));
    }

    /// Checks that no expired Job is left.
    fn check_left(&self, now: Time) {
        let mut jobs = self.jobs.values();
        let left = jobs.find(|job| expiry(job).is_some_and(|at| at <= now));
        assert!(left.is_none(), "it is still there: {left:?}");
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            if !(self.watch() || self.controller()) {
                return;
            }
        }
        panic!("no rest");
    }
}

fn has_ended(job: &Job) -> bool {
    let ends = |kind| {
        job.status
            .conditions
            .iter()
            .any(|known| known.is(kind) && known.is_true())
    };
    ends(ConditionKind::Complete) || ends(ConditionKind::Failed)
}
