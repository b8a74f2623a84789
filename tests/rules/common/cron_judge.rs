//! Judges the looks of a CronJob machine, by a model of its own: schedules are beats on a line of
//! seconds, and a look is judged by what was known when it began and what it has heard since.
//!
//! Must not: use `lakh::cron`, or anything of `lakh::cronjob` but its words.

use std::collections::{BTreeMap, BTreeSet};

use lakh::{
    cronjob::{CallAnswer, CronJobEffect, FoundJob, NewJob, Next, NotCreated},
    model::{ConcurrencyPolicy, ConditionKind, CronJob, CronJobStatus, Time, Uid},
};

/// The name of the one CronJob.
pub(crate) const NAME: &str = "c";

/// A schedule, and when it runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) text: &'static str,
    pub(crate) zone: Option<&'static str>,
    rhythm: Rhythm,
}

#[derive(Debug, PartialEq, Eq)]
enum Rhythm {
    /// At all seconds `period * n + offset` of the Unix epoch.
    Clock { period: i64, offset: i64 },
    /// So many seconds after the run before.
    Every(i64),
}

const fn beat(text: &'static str, zone: Option<&'static str>, period: i64, offset: i64) -> Beat {
    Beat {
        text,
        zone,
        rhythm: Rhythm::Clock { period, offset },
    }
}

const fn every(text: &'static str, zone: Option<&'static str>, secs: i64) -> Beat {
    Beat {
        text,
        zone,
        rhythm: Rhythm::Every(secs),
    }
}

/// The schedules of the random histories; the clocks of these zones never change.
pub(crate) const BEATS: &[Beat] = &[
    beat("* * * * *", None, 60, 0),
    beat("7-59/20 * * * *", Some("UTC"), 1200, 420),
    beat("0 * * * *", None, 3600, 0),
    beat("30 */2 * * *", Some("Asia/Kolkata"), 7200, 3600),
    beat("15 9 * * *", Some("Asia/Tokyo"), 86400, 900),
    // Two runs of this one may be of the same minute, and then have one name.
    every("@every 40s", None, 40),
    every("@every 90s", Some("Asia/Tokyo"), 90),
    every("@every 1h30m", None, 5400),
];

impl Beat {
    pub(crate) fn of(cron_job: &CronJob) -> &'static Self {
        let (text, zone) = (&cron_job.spec.schedule, &cron_job.spec.time_zone);
        let same = |beat: &&Self| beat.text == text && beat.zone == zone.as_deref();
        BEATS.iter().find(same).expect("a schedule of ours")
    }

    /// The latest run after `base` that is not after `now`.
    pub(crate) fn latest(&self, base: Time, now: Time) -> Option<Time> {
        let run = match self.rhythm {
            Rhythm::Clock { period, offset } => {
                (now.as_secs() - offset).div_euclid(period) * period + offset
            }
            Rhythm::Every(secs) => {
                let passed = now.as_secs() - base.as_secs();
                // The run before may be none.
                if passed < secs {
                    return None;
                }
                base.as_secs() + passed / secs * secs
            }
        };
        Some(Time::from_secs(run)).filter(|run| *run > base)
    }

    /// The first run after `base` and after `now`.
    pub(crate) fn next(&self, base: Time, now: Time) -> Time {
        let latest = self.latest(base, now).unwrap_or(base).as_secs();
        Time::from_secs(match self.rhythm {
            Rhythm::Clock { period, offset } => {
                let from = latest.max(now.as_secs());
                ((from - offset).div_euclid(period) + 1) * period + offset
            }
            Rhythm::Every(secs) => latest + secs,
        })
    }
}

/// A Job as the server has it, or as the watch told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrueJob {
    pub(crate) uid: Uid,
    pub(crate) name: String,
    /// The CronJob that it belongs to; none of a Job that somebody made under a run's name.
    pub(crate) owner: Option<Uid>,
    /// The run that the machine made it for.
    pub(crate) run: Option<Time>,
    pub(crate) start: Option<Time>,
    pub(crate) end: Option<(ConditionKind, Time)>,
    pub(crate) deleting: bool,
    pub(crate) version: u64,
}

impl TrueJob {
    pub(crate) fn has_ended(&self, kind: ConditionKind) -> bool {
        self.end.is_some_and(|(end, _)| end == kind)
    }

    /// Whether the machine made it and it is to run on.
    pub(crate) fn runs_for(&self, cron_job: Uid) -> bool {
        let ours = self.owner == Some(cron_job) && self.run.is_some();
        ours && self.end.is_none() && !self.deleting
    }
}

/// When a run is too late: those before are not started.
fn earliest(cron_job: &CronJob, last: Option<Time>, now: Time) -> Time {
    let base = last.unwrap_or(cron_job.created);
    let deadline = cron_job.spec.starting_deadline.map(|deadline| {
        let millis = i64::try_from(deadline.as_millis()).expect("small");
        Time::from_millis(now.as_millis() - millis)
    });
    deadline.map_or(base, |deadline| deadline.max(base))
}

/// The run that is due, whatever stands against it.
pub(crate) fn due(cron_job: &CronJob, last: Option<Time>, now: Time) -> Option<Time> {
    Beat::of(cron_job).latest(earliest(cron_job, last, now), now)
}

/// When to look for the next run.
pub(crate) fn next_look(cron_job: &CronJob, last: Option<Time>, now: Time) -> Time {
    let base = last.unwrap_or(cron_job.created);
    let run = Beat::of(cron_job).next(base, now);
    Time::from_millis(run.as_millis() + 100)
}

pub(crate) fn job_name(run: Time) -> String {
    format!("{NAME}-{}", run.as_secs() / 60)
}

/// One look: what the machine knows, and what is to be expected of it.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    cron: CronJob,
    children: Vec<TrueJob>,
    pub(crate) now: Time,
    /// What the status is to be.
    active: Vec<Uid>,
    last: Option<Time>,
    last_successful: Option<Time>,
    names: BTreeMap<Uid, String>,
    /// It has asked for something: no Job is deleted any more for being one too many.
    past_history: bool,
    /// No longer under way, as this look has learned.
    over: BTreeSet<Uid>,
    /// Children that the CronJob was asked for, of those that the status does not name.
    asked_for: BTreeSet<Uid>,
    /// Children that the status does not name, and that were taken in.
    adopted: Vec<Uid>,
    /// One that may be.
    stray: Option<Uid>,
    /// Jobs that the status names and no watch has told of: those that were asked for.
    sought: BTreeSet<Uid>,
    /// Another Job has the run's name.
    taken: bool,
    /// What the run has come to.
    settled: bool,
    failed: bool,
    /// Jobs are too many, and to be deleted once the status tells of their runs.
    later: bool,
    /// What it knew of the CronJob was old: what was to be written may be there by now.
    learned: bool,
    /// It has deleted a Job: it writes the status, whatever is in it.
    deleted: bool,
    /// A Job that is more than is to be kept is still there.
    surplus_left: bool,
    written: bool,
}

impl Look {
    pub(crate) fn new(cron: CronJob, children: Vec<TrueJob>, now: Time) -> Self {
        let mut look = Self {
            last_successful: None,
            active: Vec::new(),
            last: None,
            names: BTreeMap::new(),
            past_history: false,
            over: BTreeSet::new(),
            asked_for: BTreeSet::new(),
            stray: None,
            adopted: Vec::new(),
            sought: BTreeSet::new(),
            taken: false,
            settled: false,
            failed: false,
            later: false,
            learned: false,
            deleted: false,
            surplus_left: false,
            written: false,
            children,
            now,
            cron: cron.clone(),
        };
        let ended = look.children.iter().filter(|job| job.end.is_some());
        look.over = ended.map(|job| job.uid).collect();
        let mut children = look.children.iter();
        look.later = children.any(|job| look.is_surplus(job) && look.is_untold(job));
        look.learn(cron);
        look
    }

    /// This is what is known of the CronJob from now on.
    fn learn(&mut self, cron: CronJob) {
        let status = &cron.status;
        let under_way = status
            .active
            .iter()
            .filter(|job| !self.over.contains(&job.uid));
        self.active = under_way.map(|job| job.uid).collect();
        for stray in &self.adopted {
            if !self.active.contains(stray) {
                self.active.push(*stray);
            }
        }
        let names = status.active.iter();
        self.names
            .extend(names.map(|job| (job.uid, job.name.to_string())));
        let runs = self.children.iter().filter(|job| job.end.is_some());
        let runs = runs.filter_map(|job| job.run);
        let runs = runs.filter(|run| *run <= self.now && *run > cron.created);
        self.last = runs.max().max(self.last).max(status.last_schedule);
        let complete = self.children.iter().filter_map(|job| match job.end {
            Some((ConditionKind::Complete, at)) => Some(at),
            _ => None,
        });
        self.last_successful = complete.max().max(status.last_successful);
        self.cron = cron;
    }

    /// This Job, if it is one too many.
    fn surplus(&self, uid: Uid) -> Option<&TrueJob> {
        let job = self.children.iter().find(|job| job.uid == uid);
        job.filter(|job| !self.past_history && self.is_surplus(job))
    }

    /// The Job of this name that is under way, but for some.
    fn under_way(&self, name: &str, but_for: impl Fn(&Uid) -> bool) -> Option<Uid> {
        let named = |uid: &&Uid| self.names.get(uid).is_some_and(|known| known == name);
        let mut named = self.active.iter().filter(named);
        named.find(|uid| !but_for(uid)).copied()
    }

    /// Whether so many Jobs that ended so are to go that this one is among them.
    fn is_surplus(&self, job: &TrueJob) -> bool {
        let Some((kind, _)) = job.end else {
            return false;
        };
        let limit = match kind {
            ConditionKind::Complete => self.cron.spec.successful_jobs,
            _ => self.cron.spec.failed_jobs,
        };
        let rank = |job: &TrueJob| (job.start.is_none(), job.start, job.name.clone());
        let alike = self.children.iter().filter(|other| other.has_ended(kind));
        let newer = alike.filter(|other| rank(other) > rank(job)).count();
        limit.is_some_and(|limit| newer >= limit as usize)
    }

    /// Whether Jobs that are too many stay until somebody looks again: a deletion failed, or a run has not
    /// come yet by a clock that went back.
    pub(crate) fn leaves_surplus(&self) -> bool {
        self.surplus_left || self.later && !self.written
    }

    /// Whether somebody's Job had the name of the run that was due.
    pub(crate) fn name_was_taken(&self) -> bool {
        self.taken
    }

    /// Whether a Job is of a run that the server's status may not tell of.
    fn is_untold(&self, job: &TrueJob) -> bool {
        let told = self.cron.status.last_schedule.unwrap_or(self.cron.created);
        job.run.is_some_and(|run| run > told)
    }

    /// The run that is to start now.
    fn to_start(&self) -> Option<Time> {
        let spec = &self.cron.spec;
        let run = due(&self.cron, self.last, self.now)?;
        let under_way = self.under_way(&job_name(run), |_| false).is_some();
        let forbidden = spec.concurrency == ConcurrencyPolicy::Forbid && !self.active.is_empty();
        let stays = spec.suspend || self.cron.deleting || under_way || forbidden;
        (!stays).then_some(run)
    }

    /// What is known of a Job that runs.
    fn knows(&self, job: &TrueJob) -> bool {
        let listed = self.children.iter().any(|child| child.uid == job.uid);
        listed || self.names.contains_key(&job.uid)
    }

    /// The machine asks for something.
    pub(crate) fn asked(&mut self, effect: &CronJobEffect, jobs: &BTreeMap<Uid, TrueJob>) {
        assert!(
            !self.failed || matches!(effect, CronJobEffect::WriteStatus(..)),
            "it failed"
        );
        self.past_history |= matches!(effect, CronJobEffect::GetCronJob | CronJobEffect::GetJob(_));
        match effect {
            CronJobEffect::DeleteJob(uid, name) => self.deletes(*uid, name),
            CronJobEffect::CreateJob(job) => self.creates(job, jobs),
            CronJobEffect::WriteStatus(status, version) => {
                assert_eq!(
                    *version, self.cron.resource_version,
                    "on top of what is known"
                );
                self.check_status(status);
                assert!(
                    self.failed || self.learned || self.is_news(),
                    "there is nothing to write"
                );
                self.written = true;
            }
            CronJobEffect::GetCronJob
            | CronJobEffect::GetJob(_)
            | CronJobEffect::Report(_)
            | CronJobEffect::Over(_) => {}
        }
    }

    fn deletes(&self, uid: Uid, name: &str) {
        if let Some(job) = self.surplus(uid) {
            assert_eq!(job.name, name);
            assert!(!self.is_untold(job), "it could start again: {name}");
            return;
        }
        let replace = self.cron.spec.concurrency == ConcurrencyPolicy::Replace;
        let under_way = self.active.contains(&uid) && self.names[&uid] == name;
        let makes_place = replace && under_way && self.to_start().is_some();
        assert!(makes_place, "{name} is neither surplus nor in the way");
    }

    fn creates(&self, job: &NewJob, jobs: &BTreeMap<Uid, TrueJob>) {
        assert_eq!(Some(job.scheduled), self.to_start(), "{job:?}");
        assert!(job.scheduled <= self.now && !self.settled);
        assert_eq!(job.name, job_name(job.scheduled));
        assert_eq!(Time::parse_rfc3339(&job.timestamp), Some(job.scheduled));
        if self.cron.spec.concurrency == ConcurrencyPolicy::Allow {
            return;
        }
        let beside = jobs
            .values()
            .find(|other| other.runs_for(self.cron.uid) && self.knows(other));
        assert_eq!(beside, None, "it runs beside {}", job.name);
        assert!(self.active.is_empty());
    }

    fn check_status(&self, status: &CronJobStatus) {
        let active: Vec<Uid> = status.active.iter().map(|job| job.uid).collect();
        if self.failed {
            // It did not come to look at all of its Jobs.
            let missing = self.active.iter().find(|job| !active.contains(job));
            assert_eq!(missing, None, "active");
            assert!(status.last_schedule <= self.last);
            assert!(status.last_successful <= self.last_successful);
            return;
        }
        assert_eq!(active, self.active, "active");
        assert_eq!(status.last_schedule, self.last, "lastScheduleTime");
        assert_eq!(
            status.last_successful, self.last_successful,
            "lastSuccessfulTime"
        );
    }

    /// Whether the status is to be another one.
    fn is_news(&self) -> bool {
        let known = &self.cron.status;
        let active: Vec<Uid> = known.active.iter().map(|job| job.uid).collect();
        let times = (known.last_schedule, known.last_successful);
        let same = active == self.active && times == (self.last, self.last_successful);
        !same || self.deleted
    }

    /// The machine has an answer.
    pub(crate) fn answered(&mut self, effect: &CronJobEffect, answer: &CallAnswer) {
        match (effect, answer) {
            (CronJobEffect::GetCronJob, CallAnswer::CronJob(fresh)) => {
                let mut strays = self.children.iter().filter(|job| {
                    let named = job.end.is_some() || self.active.contains(&job.uid);
                    !named && !self.asked_for.contains(&job.uid)
                });
                let stray = strays.next().expect("some Job is not in the status");
                let (stray, is_run) = (stray.uid, stray.run.is_some());
                self.asked_for.insert(stray);
                if fresh.status.active.iter().any(|job| job.uid == stray) {
                    self.learn((**fresh).clone());
                    self.learned = true;
                } else {
                    self.stray = Some(stray).filter(|_| is_run);
                }
            }
            (CronJobEffect::GetJob(name), answer) => self.heard_of(name, answer),
            (CronJobEffect::DeleteJob(uid, _), CallAnswer::Deleted) => self.deleted(*uid),
            (CronJobEffect::DeleteJob(uid, _), _) => match self.surplus(*uid) {
                Some(_) => self.surplus_left = true,
                None => self.failed = true,
            },
            (CronJobEffect::CreateJob(job), CallAnswer::Created { uid, .. }) => {
                self.active.push(*uid);
                self.last = Some(job.scheduled);
                self.settled = true;
            }
            (CronJobEffect::CreateJob(_), CallAnswer::NotCreated(NotCreated::NameTaken)) => {
                self.taken = true
            }
            (CronJobEffect::WriteStatus(..), CallAnswer::StatusWritten) => {}
            _ => self.failed = true,
        }
    }

    fn deleted(&mut self, uid: Uid) {
        self.deleted = true;
        self.no_longer_active(uid);
    }

    fn no_longer_active(&mut self, uid: Uid) {
        self.over.insert(uid);
        self.active.retain(|job| *job != uid);
    }

    fn heard_of(&mut self, name: &str, answer: &CallAnswer) {
        let job = match answer {
            CallAnswer::Job(FoundJob {
                uid, controller, ..
            }) => Some((*uid, *controller == Some(self.cron.uid))),
            _ => None,
        };
        let gone = matches!(answer, CallAnswer::NotFound(_));
        if self.taken {
            self.settled = job.is_some();
            self.failed |= job.is_none();
            let Some((uid, true)) = job else { return };
            if !self.active.contains(&uid) {
                self.active.push(uid);
                self.last = due(&self.cron, self.last, self.now);
            }
            return;
        }
        let stray = self.stray.take();
        if let Some(stray) = self.children.iter().find(|job| Some(job.uid) == stray) {
            self.failed |= job.is_none() && !gone;
            if job == Some((stray.uid, true)) {
                self.active.push(stray.uid);
                self.adopted.push(stray.uid);
                self.names.insert(stray.uid, stray.name.clone());
                self.last = self.last.max(stray.run.filter(|run| *run <= self.now));
            }
            return;
        }
        let known = |uid: &Uid| {
            self.sought.contains(uid) || self.children.iter().any(|job| job.uid == *uid)
        };
        let missing = self.under_way(name, known);
        let named = missing.or_else(|| self.under_way(name, |_| false));
        let named = named.expect("a Job that the status names");
        if missing.is_some() {
            // That the name is another Job's by now is not asked.
            self.sought.insert(named);
            self.failed |= job.is_none() && !gone;
            if gone {
                self.no_longer_active(named);
            }
        } else {
            // It was to be replaced, and is not in the way if another Job has its name.
            self.failed |= job.is_none();
            if job.is_some_and(|(uid, _)| uid != named) {
                self.no_longer_active(named);
            }
        }
    }

    /// The look is over.
    pub(crate) fn over(&self, next: Next) {
        if self.failed {
            assert_eq!(next, Next::Retry, "something failed");
            return;
        }
        assert!(
            self.written || !self.is_news(),
            "the status was not written"
        );
        if self.later && self.written {
            assert_eq!(next, Next::At(self.now));
            return;
        }
        if self.cron.spec.suspend || self.cron.deleting {
            assert_eq!(next, Next::Nothing);
            return;
        }
        assert!(
            self.settled || self.to_start().is_none(),
            "a run was not started"
        );
        let due = next_look(&self.cron, self.last, self.now);
        assert_eq!(next, Next::At(due), "the next run");
    }
}
