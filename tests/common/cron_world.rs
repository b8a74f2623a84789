//! Random news, answers and times for the CronJob machine, with a server that has the truth.
//!
//! People edit the CronJob, delete and make it anew, start Jobs by hand and take them away; Jobs end;
//! the watch lags; answers are refusals, are lost, or come of what is done much later; the controller
//! starts anew; minutes and days pass, on two clocks that disagree. What the machine asks for is held
//! against a model of a look (`cron_judge`), the server's state against what must never be. Read first:
//! [`CronWorld::step`]. What stands around the machine is as in `runtime/cron_jobs.rs`.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use lakh::{
    cronjob::{Answer, CronJobSync, Effect, Next, NotCreated, delay_after_change},
    model::{
        ChildJob, ConcurrencyPolicy, ConditionKind, CronJob, CronJobSpec, CronJobStatus,
        Exponential, JobKey, Time, Uid,
    },
    queue::WorkQueue,
};

use super::{
    cron_judge::{BEATS, Beat, Look, NAME, TrueJob, due, job_name, next_look},
    world::Dice,
};

const BACKOFF: Exponential = Exponential {
    base: Duration::from_secs(1),
    max: Duration::from_secs(60),
};

/// How long after its time a run may still not have been looked for.
const JUST: Duration = Duration::from_millis(100);

/// What may go wrong, in percent of the occasions.
#[derive(Clone, Copy, Debug, Default)]
struct Odds {
    refused: u64,
    lost: u64,
    late: u64,
    restart: u64,
    skew: u64,
    people: u64,
}

/// News that the watch has yet to tell.
#[derive(Clone, Debug)]
enum News {
    CronJob(Option<CronJob>),
    Job(Uid, Option<TrueJob>),
}

/// A call on its way, there or back.
#[derive(Clone, Debug)]
enum Flight {
    Asked(Effect),
    Answered(Effect, Answer, u64),
}

/// A look under way.
struct Turn {
    sync: CronJobSync,
    uid: Uid,
    look: Look,
    flight: Option<Flight>,
}

/// What is in the controller's memory.
struct Shell {
    cron: Option<CronJob>,
    children: BTreeMap<Uid, TrueJob>,
    turns: WorkQueue<JobKey>,
    turn: Option<Turn>,
}

/// What was made for a run.
#[derive(Clone, Debug)]
struct Made {
    job: Uid,
    /// It went when nobody could know of the run any more.
    forgotten: bool,
}

/// See the module's text.
pub(crate) struct CronWorld {
    dice: Dice,
    odds: Odds,
    /// The server's time, and how far ahead the controller's is.
    now: Time,
    skew: i64,
    cron: Option<CronJob>,
    jobs: BTreeMap<Uid, TrueJob>,
    news: [VecDeque<News>; 2],
    late: Vec<(Uid, Effect)>,
    shell: Shell,
    version: u64,
    uids: u128,
    made: BTreeMap<(Uid, Time), Made>,
    /// A run may be passed over until somebody looks again: the schedule was changed since the last look,
    /// or that one found the run's name taken.
    passes_over: bool,
    /// A Job that is too many could not be deleted.
    surplus_left: bool,
    pub(crate) log: Vec<String>,
    /// How many Jobs the machine has made.
    pub(crate) started: usize,
}

fn key() -> JobKey {
    JobKey {
        namespace: "default".into(),
        name: NAME.into(),
    }
}

fn child(job: &TrueJob) -> ChildJob {
    let complete = job.has_ended(ConditionKind::Complete);
    let at = job.end.map(|(_, at)| at);
    ChildJob {
        name: job.name.as_str().into(),
        uid: job.uid,
        scheduled: job.run,
        end: job.end.map(|(kind, _)| kind),
        complete,
        start: job.start,
        completion: at.filter(|_| complete),
    }
}

impl Shell {
    fn new(cron: Option<CronJob>, jobs: &BTreeMap<Uid, TrueJob>) -> Self {
        let owned = jobs.iter().filter(|(_, job)| job.owner.is_some());
        let mut turns = WorkQueue::new(BACKOFF);
        turns.add(key());
        Self {
            cron,
            children: owned.map(|(uid, job)| (*uid, job.clone())).collect(),
            turns,
            turn: None,
        }
    }

    fn has(&self, owner: Option<Uid>) -> bool {
        owner.is_some() && owner == self.cron.as_ref().map(|cron| cron.uid)
    }

    /// Takes in news, as the informers do.
    fn hear(&mut self, news: News, now: Time) {
        match news {
            News::CronJob(None) => self.cron = None,
            News::CronJob(Some(new)) => {
                let same = self.cron.as_ref().filter(|cron| cron.uid == new.uid);
                if same.is_some_and(|cron| cron.resource_version >= new.resource_version) {
                    return;
                }
                let moved = same.is_some_and(|cron| {
                    let (old, new) = (&cron.spec, &new.spec);
                    old.schedule != new.schedule || old.time_zone != new.time_zone
                });
                match moved.then(|| delay_after_change(&new, now)) {
                    Some(Ok(Next::At(due))) => {
                        assert_eq!(due, next_look(&new, new.status.last_schedule, now));
                        self.turns.add_at(key(), due);
                    }
                    Some(Err(report)) => panic!("{report:?}"),
                    _ => _ = self.turns.add(key()),
                }
                self.cron = Some(new);
            }
            News::Job(uid, job) => {
                let before = self.children.remove(&uid);
                let owner = job.as_ref().or(before.as_ref()).and_then(|job| job.owner);
                if let Some(job) = job.filter(|job| job.owner.is_some()) {
                    self.children.insert(uid, job);
                }
                if self.has(owner) {
                    self.turns.add(key());
                }
            }
        }
    }
}

impl CronWorld {
    pub(crate) fn new(mut dice: Dice) -> Self {
        let mut some = |most: u64| match dice.below(2) {
            0 => 0,
            _ => dice.below(most),
        };
        let odds = Odds {
            refused: some(30),
            lost: some(30),
            late: some(20),
            restart: some(4),
            skew: some(3),
            people: 1 + some(15),
        };
        let mut world = Self {
            dice,
            odds,
            now: Time::from_secs(2_000_000_000),
            skew: 0,
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
            log: Vec::new(),
            started: 0,
        };
        world.make_cron_job();
        world
    }

    /// The controller's time.
    fn there(&self) -> Time {
        Time::from_millis(self.now.as_millis() + self.skew)
    }

    fn say(&mut self, what: String) {
        self.log.push(format!("{} {what}", self.now.to_rfc3339()));
    }

    fn version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Something happens, anywhere.
    pub(crate) fn step(&mut self) {
        let chance = |world: &mut Self, odds: u64| world.dice.below(1000) < odds * 10;
        if chance(self, self.odds.people) {
            self.people();
        } else if chance(self, self.odds.restart) {
            self.restart();
        } else if chance(self, self.odds.skew) {
            self.skew = [0, 0, -90_000, 90_000, -1500, 4000][self.dice.below(6) as usize];
            self.say(format!("the clocks differ by {} ms", self.skew));
        }
        match self.dice.below(100) {
            0..12 => _ = self.watch(0),
            12..28 => _ = self.watch(1),
            28..38 => self.job_goes_on(),
            38..44 => self.pass(),
            44..46 => self.late_call(),
            _ => _ = self.controller(),
        }
    }

    fn pass(&mut self) {
        let most = [2000, 60_000, 600_000, 7_200_000, 200_000_000][self.dice.below(5) as usize];
        let passed = Duration::from_millis(self.dice.below(most));
        self.now = self.now + passed;
        self.say(format!("{passed:?} have passed"));
    }

    fn watch(&mut self, kind: usize) -> bool {
        let Some(news) = self.news[kind].pop_front() else {
            return false;
        };
        let now = self.there();
        self.shell.hear(news, now);
        if self.news[0].is_empty() {
            assert_eq!(self.shell.cron, self.cron, "the watch has told all");
        }
        true
    }

    fn restart(&mut self) {
        self.say("the controller starts anew".to_owned());
        if let Some(turn) = self.shell.turn.take()
            && let Some(Flight::Asked(effect)) = turn.flight
        {
            self.late.push((turn.uid, effect));
        }
        self.news = [VecDeque::new(), VecDeque::new()];
        self.shell = Shell::new(self.cron.clone(), &self.jobs);
    }

    // What people and Jobs do.

    fn make_cron_job(&mut self) {
        self.uids += 1;
        let beat = &BEATS[self.dice.below(BEATS.len() as u64) as usize];
        let limit = |dice: &mut Dice| Some(dice.below(4) as u32).filter(|limit| *limit < 3);
        let cron = CronJob {
            key: key(),
            uid: Uid::from_u128(self.uids),
            resource_version: self.version(),
            deleting: false,
            created: self.now.whole_secs(),
            spec: CronJobSpec {
                schedule: beat.text.to_owned(),
                time_zone: beat.zone.map(str::to_owned),
                starting_deadline: self.deadline(),
                concurrency: self.policy(),
                suspend: self.dice.percent(10),
                successful_jobs: limit(&mut self.dice),
                failed_jobs: limit(&mut self.dice),
                managed_by: None,
            },
            status: CronJobStatus::default(),
        };
        self.say(format!("{cron:?}"));
        self.news[0].push_back(News::CronJob(Some(cron.clone())));
        self.cron = Some(cron);
    }

    fn deadline(&mut self) -> Option<Duration> {
        let secs = [0, 5, 90, 1000, 5000, 100_000][self.dice.below(6) as usize];
        self.dice.percent(40).then(|| Duration::from_secs(secs))
    }

    fn policy(&mut self) -> ConcurrencyPolicy {
        use ConcurrencyPolicy::{Allow, Forbid, Replace};
        [Allow, Forbid, Replace][self.dice.below(3) as usize]
    }

    fn people(&mut self) {
        let Some(cron) = self.cron.clone() else {
            self.make_cron_job();
            return;
        };
        match self.dice.below(16) {
            0 => self.delete_cron_job(),
            1..3 => self.make_job(&cron),
            3..6 => {
                let jobs: Vec<Uid> = self.jobs.keys().copied().collect();
                if let Some(uid) = self.dice.pick(&jobs).copied() {
                    self.remove_job(uid, true);
                }
            }
            _ => self.edit(cron.spec),
        }
    }

    fn delete_cron_job(&mut self) {
        let Some(cron) = &mut self.cron else { return };
        if !cron.deleting && self.dice.percent(30) {
            self.version += 1;
            cron.deleting = true;
            cron.resource_version = self.version;
            self.news[0].push_back(News::CronJob(Some(cron.clone())));
            self.say("the CronJob is to go".to_owned());
        } else {
            self.cron = None;
            self.news[0].push_back(News::CronJob(None));
            self.say("the CronJob is gone".to_owned());
        }
    }

    /// A Job made by hand: of the CronJob, or somebody's under the name of the next run.
    fn make_job(&mut self, cron: &CronJob) {
        self.uids += 1;
        let (name, owner) = match self.dice.percent(60) {
            true => (format!("by-hand-{}", self.uids), Some(cron.uid)),
            false => (job_name(Beat::of(cron).after(self.now)), None),
        };
        if self.jobs.values().all(|job| job.name != name) {
            self.add_job(name, owner, None);
        }
    }

    fn add_job(&mut self, name: String, owner: Option<Uid>, run: Option<Time>) -> Uid {
        self.uids += 1;
        let job = TrueJob {
            uid: Uid::from_u128(self.uids),
            name,
            owner,
            run,
            start: None,
            end: None,
            deleting: false,
            version: self.version(),
        };
        self.say(format!("made: {} {}", job.name, job.uid.as_u128()));
        let uid = job.uid;
        self.tell_job(uid, Some(job));
        uid
    }

    fn tell_job(&mut self, uid: Uid, job: Option<TrueJob>) {
        match &job {
            Some(job) => drop(self.jobs.insert(uid, job.clone())),
            None => drop(self.jobs.remove(&uid)),
        }
        self.news[1].push_back(News::Job(uid, job));
    }

    /// A Job is deleted: it goes at once, or somebody's finalizer keeps it for a while.
    fn remove_job(&mut self, uid: Uid, forgotten: bool) {
        let Some(mut job) = self.jobs.get(&uid).cloned() else {
            return;
        };
        for made in self.made.values_mut().filter(|made| made.job == uid) {
            made.forgotten |= forgotten;
        }
        if !job.deleting && self.dice.percent(25) {
            self.say(format!("to go: {}", job.name));
            job.deleting = true;
            job.version = self.version();
            self.tell_job(uid, Some(job));
        } else {
            self.say(format!("gone: {}", job.name));
            self.tell_job(uid, None);
        }
    }

    fn edit(&mut self, mut spec: CronJobSpec) {
        match self.dice.below(8) {
            0..3 => spec.suspend = !spec.suspend,
            3 => spec.concurrency = self.policy(),
            4 => spec.starting_deadline = self.deadline(),
            5 => spec.successful_jobs = Some(self.dice.below(3) as u32),
            6 => spec.failed_jobs = Some(self.dice.below(3) as u32),
            _ => {
                let beat = &BEATS[self.dice.below(BEATS.len() as u64) as usize];
                spec.schedule = beat.text.to_owned();
                spec.time_zone = beat.zone.map(str::to_owned);
                self.passes_over = true;
            }
        }
        self.change(|cron| cron.spec = spec);
    }

    fn change(&mut self, change: impl FnOnce(&mut CronJob)) {
        let version = self.version();
        let Some(cron) = &mut self.cron else { return };
        change(cron);
        cron.resource_version = version;
        let news = News::CronJob(Some(cron.clone()));
        self.news[0].push_back(news);
        self.say(format!(
            "now {:?}",
            self.cron.as_ref().map(|cron| &cron.spec)
        ));
    }

    /// A Job starts, ends, or goes at last; Jobs whose CronJob is no more go, too.
    fn job_goes_on(&mut self) {
        let jobs: Vec<Uid> = self.jobs.keys().copied().collect();
        let Some(uid) = self.dice.pick(&jobs).copied() else {
            return;
        };
        let mut job = self.jobs[&uid].clone();
        let owner = self.cron.as_ref().map(|cron| cron.uid);
        if job.deleting || job.owner.is_some() && job.owner != owner && self.dice.percent(50) {
            self.remove_job(uid, true);
            return;
        }
        if job.end.is_some() {
            return;
        }
        job.version = self.version();
        if job.start.is_none() {
            job.start = Some(self.now.whole_secs());
        } else {
            let kind = match self.dice.percent(60) {
                true => ConditionKind::Complete,
                false => ConditionKind::Failed,
            };
            job.end = Some((kind, self.now.whole_secs()));
            self.say(format!("ended: {} {kind:?}", job.name));
        }
        self.tell_job(uid, Some(job));
    }

    // The controller and its calls.

    /// One step of the controller's; whether there was one to make.
    fn controller(&mut self) -> bool {
        let now = self.there();
        let Some(mut turn) = self.shell.turn.take() else {
            return self.begin(now);
        };
        match turn.flight.take() {
            None => match turn.sync.poll() {
                Effect::Over(next) => {
                    turn.look.over(next);
                    self.end_turn(next, &turn.look);
                    return true;
                }
                Effect::Report(report) => {
                    self.say(format!("  {}: {}", report.reason, report.message));
                }
                effect => {
                    self.say(format!("  {effect:?}"));
                    turn.look.asked(&effect, &self.jobs);
                    turn.flight = Some(Flight::Asked(effect));
                }
            },
            Some(Flight::Asked(effect)) => turn.flight = Some(self.call(turn.uid, effect)),
            Some(Flight::Answered(effect, answer, version)) => {
                if let (Effect::WriteStatus(status, on), Answer::StatusWritten) = (&effect, &answer)
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

    fn begin(&mut self, now: Time) -> bool {
        let Some(key) = self.shell.turns.take(now) else {
            return false;
        };
        let Some(cron) = self.shell.cron.clone() else {
            self.shell.turns.forget(&key);
            self.shell.turns.done(&key);
            return true;
        };
        let children: Vec<TrueJob> = self.shell.children.values().cloned().collect();
        self.say(format!(
            "a look, {} Jobs, {:?}",
            children.len(),
            cron.status
        ));
        let jobs = children.iter().map(child).collect();
        self.passes_over &= Some(&cron.spec) != self.cron.as_ref().map(|cron| &cron.spec);
        self.shell.turn = Some(Turn {
            sync: CronJobSync::new(cron.clone(), jobs, now),
            uid: cron.uid,
            look: Look::new(cron, children, now),
            flight: None,
        });
        true
    }

    fn end_turn(&mut self, next: Next, look: &Look) {
        self.say(format!("  {next:?}"));
        self.surplus_left = look.leaves_surplus();
        self.passes_over |= look.name_was_taken();
        let (turns, key) = (&mut self.shell.turns, key());
        match next {
            Next::Nothing => turns.forget(&key),
            Next::At(due) => {
                turns.forget(&key);
                turns.add_at(key.clone(), due);
            }
            Next::Retry => {
                let now = Time::from_millis(self.now.as_millis() + self.skew);
                turns.add_rate_limited(key.clone(), now);
            }
        }
        turns.done(&key);
    }

    fn status_written(&mut self, uid: Uid, status: &CronJobStatus, on: u64, version: u64) {
        if let Some(cron) = &mut self.shell.cron
            && cron.uid == uid
            && cron.resource_version == on
        {
            cron.status = status.clone();
            cron.resource_version = version;
        }
    }

    /// A call comes to the server, or does not, or its answer is lost.
    fn call(&mut self, uid: Uid, effect: Effect) -> Flight {
        let no_answer = match effect {
            Effect::CreateJob(_) => Answer::NotCreated(NotCreated::Other("no".to_owned())),
            _ => Answer::Failed("no".to_owned()),
        };
        if self.dice.percent(self.odds.refused) {
            self.say("  refused".to_owned());
            return Flight::Answered(effect, no_answer, 0);
        }
        if self.dice.percent(self.odds.late) {
            self.say("  no answer, nothing done yet".to_owned());
            self.late.push((uid, effect.clone()));
            return Flight::Answered(effect, no_answer, 0);
        }
        let (answer, version) = self.serve(uid, &effect);
        if self.dice.percent(self.odds.lost) {
            self.say("  the answer is lost".to_owned());
            return Flight::Answered(effect, no_answer, 0);
        }
        Flight::Answered(effect, answer, version)
    }

    /// A call comes long after whoever made it has given up.
    fn late_call(&mut self) {
        if !self.late.is_empty() {
            let at = self.dice.below(self.late.len() as u64) as usize;
            let (uid, effect) = self.late.swap_remove(at);
            self.say(format!("  late: {effect:?}"));
            if let Effect::CreateJob(job) = &effect
                && let Some(made) = self.made.get_mut(&(uid, job.scheduled))
            {
                // Nobody can help it.
                made.forgotten = true;
            }
            self.serve(uid, &effect);
        }
    }

    /// What the server does, and its answer; with the version of what was written.
    fn serve(&mut self, by: Uid, effect: &Effect) -> (Answer, u64) {
        let not_found = || Answer::NotFound("not found".to_owned());
        let by_name = |world: &Self, name: &str| {
            let mut jobs = world.jobs.values();
            jobs.find(|job| job.name == name).cloned()
        };
        let answer = match effect {
            Effect::GetCronJob => match &self.cron {
                Some(cron) => Answer::CronJob(Box::new(cron.clone())),
                None => not_found(),
            },
            Effect::GetJob(name) => match by_name(self, name) {
                Some(job) => Answer::Job {
                    uid: job.uid,
                    resource_version: job.version,
                    controller: job.owner,
                },
                None => not_found(),
            },
            Effect::DeleteJob(uid, name) => match by_name(self, name) {
                Some(job) if job.uid != *uid => Answer::Failed("conflict".to_owned()),
                Some(job) => {
                    // A Job that makes place may be one that no status told of.
                    let status = self.cron.as_ref().map(|cron| &cron.status);
                    let last = status.and_then(|status| status.last_schedule);
                    self.remove_job(job.uid, last < job.run);
                    Answer::Deleted
                }
                None => not_found(),
            },
            Effect::CreateJob(job) => match by_name(self, &job.name) {
                Some(_) => Answer::NotCreated(NotCreated::NameTaken),
                None => {
                    let uid = self.add_job(job.name.to_string(), Some(by), Some(job.scheduled));
                    self.started += 1;
                    self.check_started(by, job.scheduled, uid);
                    Answer::Created {
                        uid,
                        resource_version: self.jobs[&uid].version,
                    }
                }
            },
            Effect::WriteStatus(status, version) => return self.write(by, status, *version),
            Effect::Report(_) | Effect::Over(_) => unreachable!("these are no calls"),
        };
        (answer, 0)
    }

    fn write(&mut self, by: Uid, status: &CronJobStatus, version: u64) -> (Answer, u64) {
        let known = self.cron.as_ref();
        let known = known.filter(|cron| cron.uid == by && cron.resource_version == version);
        let Some(known) = known else {
            return (Answer::Failed("conflict".to_owned()), 0);
        };
        let before = &known.status;
        assert!(before.last_schedule <= status.last_schedule, "it goes back");
        assert!(
            before.last_successful <= status.last_successful,
            "it goes back"
        );
        self.change(|cron| cron.status = status.clone());
        (Answer::StatusWritten, self.version)
    }

    /// No run starts twice, unless somebody took away what nobody could know of any more.
    fn check_started(&mut self, cron: Uid, run: Time, job: Uid) {
        let forgotten = false;
        let before = self.made.insert((cron, run), Made { job, forgotten });
        assert!(
            before.is_none_or(|made| made.forgotten),
            "a run starts twice"
        );
    }

    // The end.

    /// Nothing fails and nobody meddles any more: what must be in the end.
    pub(crate) fn rest(&mut self) {
        self.log.push("from here on all is well".to_owned());
        self.odds = Odds::default();
        while !self.late.is_empty() {
            self.late_call();
        }
        // Whatever failed is tried again within a minute, by a clock that may have gone back; then no run is
        // to be just due.
        self.settle();
        self.now = self.now + BACKOFF.max + Duration::from_secs(200);
        self.settle();
        if self.is_just_due() {
            self.now = self.now + JUST;
            self.settle();
        }
        self.check_rest(self.passes_over, self.surplus_left);
        // Any news of the CronJob is a look.
        self.change(|_| ());
        self.settle();
        self.check_rest(false, false);
        let (version, started) = (self.version, self.started);
        self.change(|_| ());
        self.settle();
        assert_eq!(
            (self.version, self.started),
            (version + 1, started),
            "no end"
        );
    }

    /// A run is looked for a moment after its time, not before.
    fn is_just_due(&self) -> bool {
        let now = self.there();
        let before =
            Time::from_millis(now.as_millis() - i64::try_from(JUST.as_millis()).expect("small"));
        let cron = self.cron.as_ref();
        cron.is_some_and(|cron| Beat::of(cron).after(before) <= now)
    }

    fn settle(&mut self) {
        for _ in 0..100_000 {
            if !(self.watch(0) || self.watch(1) || self.controller()) {
                return;
            }
        }
        panic!("no rest");
    }

    fn check_rest(&self, passes_over: bool, surplus_left: bool) {
        let Some(cron) = &self.cron else { return };
        let (spec, status) = (&cron.spec, &cron.status);
        let active: Vec<Uid> = status.active.iter().map(|job| job.uid).collect();
        for job in self.jobs.values().filter(|job| job.runs_for(cron.uid)) {
            assert!(active.contains(&job.uid), "runs and is not active: {job:?}");
        }
        for active in &status.active {
            let job = self.jobs.get(&active.uid);
            let runs = job.is_some_and(|job| job.end.is_none());
            // Whose the name of one that is gone is by now, is not asked.
            let named = self.jobs.values().any(|job| job.name == active.name);
            let taken = job.is_none() && named;
            assert!(runs || taken, "active and does not run: {active:?}");
        }
        let own = || self.jobs.values().filter(|job| job.owner == Some(cron.uid));
        for (kind, limit) in [
            (ConditionKind::Complete, spec.successful_jobs),
            (ConditionKind::Failed, spec.failed_jobs),
        ] {
            let over = |job: &&TrueJob| job.run.is_none_or(|run| run <= self.there());
            let kept = own().filter(|job| job.has_ended(kind) && !job.deleting);
            let kept = kept.filter(over);
            let kept = kept.count();
            let many = limit.is_some_and(|limit| kept > limit as usize);
            assert!(!many || surplus_left, "{kept} {kind:?} are kept");
        }
        let complete = own().filter(|job| job.has_ended(ConditionKind::Complete));
        let ended = complete.filter_map(|job| job.end.map(|(_, at)| at)).max();
        assert!(status.last_successful >= ended, "lastSuccessfulTime");
        // Whoever had the CronJob's name before may have made the Job of that run.
        let mut runs = self.made.keys().map(|(_, run)| *run);
        let last = status.last_schedule;
        let is_run = last.is_none_or(|last| runs.any(|run| run == last));
        assert!(is_run, "lastScheduleTime of no run");
        let Some(run) = due(cron, status.last_schedule, self.there()) else {
            return;
        };
        let forbidden = spec.concurrency == ConcurrencyPolicy::Forbid && !active.is_empty();
        let taken = self.jobs.values().any(|job| job.name == job_name(run));
        let waits = spec.suspend || cron.deleting || forbidden || taken || passes_over;
        assert!(waits, "{run:?} was not started");
    }
}
