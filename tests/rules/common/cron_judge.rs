//! Judges the syncs of a CronJob machine with a model of its own. Schedules are runs on a line of seconds. A sync is
//! judged by the state at its start and the responses since then.
//!
//! Must not: use `lakh::cron`, or anything of `lakh::cronjob` but its types.

use std::collections::{BTreeMap, BTreeSet};

use lakh::{
    cronjob::{CallAnswer, CronJobEffect, FoundJob, NewJob, Next, NotCreated},
    model::{ConcurrencyPolicy, ConditionKind, CronJob, CronJobStatus, Time, Uid},
};

/// The name of the one CronJob.
pub(crate) const NAME: &str = "c";

/// A schedule and its runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) text: &'static str,
    pub(crate) zone: Option<&'static str>,
    rhythm: Rhythm,
}

#[derive(Debug, PartialEq, Eq)]
enum Rhythm {
    /// All seconds `period * n + offset` of the Unix epoch.
    Clock { period: i64, offset: i64 },
    /// This many seconds after the previous run.
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

/// The schedules of the random histories. Their time zones have no clock changes.
pub(crate) const BEATS: &[Beat] = &[
    beat("* * * * *", None, 60, 0),
    beat("7-59/20 * * * *", Some("UTC"), 1200, 420),
    beat("0 * * * *", None, 3600, 0),
    beat("30 */2 * * *", Some("Asia/Kolkata"), 7200, 3600),
    beat("15 9 * * *", Some("Asia/Tokyo"), 86400, 900),
    // Two runs of this schedule may fall into the same minute, and then have the same name.
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
                // There may be no run yet.
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

/// A Job on the server, or as the watch delivered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrueJob {
    pub(crate) uid: Uid,
    pub(crate) name: String,
    /// The CronJob that owns it. A Job that a user created under a run's name has none.
    pub(crate) owner: Option<Uid>,
    /// The run that the machine created it for.
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

    /// Returns true if the machine created it and it still runs.
    pub(crate) fn runs_for(&self, cron_job: Uid) -> bool {
        let ours = self.owner == Some(cron_job) && self.run.is_some();
        ours && self.end.is_none() && !self.deleting
    }
}

/// The time up to which runs are not started any more.
fn earliest(cron_job: &CronJob, last: Option<Time>, now: Time) -> Time {
    let base = last.unwrap_or(cron_job.created);
    let deadline = cron_job.spec.starting_deadline.map(|deadline| {
        let millis = i64::try_from(deadline.as_millis()).expect("small");
        Time::from_millis(now.as_millis() - millis)
    });
    deadline.map_or(base, |deadline| deadline.max(base))
}

/// The run that is due, even if it may not start.
pub(crate) fn due(cron_job: &CronJob, last: Option<Time>, now: Time) -> Option<Time> {
    Beat::of(cron_job).latest(earliest(cron_job, last, now), now)
}

/// The time of the sync for the next run.
pub(crate) fn next_look(cron_job: &CronJob, last: Option<Time>, now: Time) -> Time {
    let base = last.unwrap_or(cron_job.created);
    let run = Beat::of(cron_job).next(base, now);
    Time::from_millis(run.as_millis() + 100)
}

pub(crate) fn job_name(run: Time) -> String {
    format!("{NAME}-{}", run.as_secs() / 60)
}

/// A model of one sync: the state that the machine knows, and the effects expected of it.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    cron: CronJob,
    children: Vec<TrueJob>,
    pub(crate) now: Time,
    /// The expected status, with the next two fields.
    active: Vec<Uid>,
    last: Option<Time>,
    last_successful: Option<Time>,
    names: BTreeMap<Uid, String>,
    /// The machine has sent a read. From then on it must not delete Jobs for the history limits.
    past_history: bool,
    /// Jobs that this sync knows to be no longer active.
    over: BTreeSet<Uid>,
    /// Children missing from the status for which the machine has read the CronJob.
    asked_for: BTreeSet<Uid>,
    /// Children missing from the status that the sync has taken in.
    adopted: Vec<Uid>,
    /// A child that the sync may take in.
    stray: Option<Uid>,
    /// Jobs of the status that no event has delivered, and that the machine has read.
    sought: BTreeSet<Uid>,
    /// Another Job has the run's name.
    taken: bool,
    /// The due run needs nothing more.
    settled: bool,
    failed: bool,
    /// Jobs exceed the history limits, and may be deleted once the status covers their runs.
    later: bool,
    /// The cached CronJob was stale, so the server may already have the status to write.
    learned: bool,
    /// The machine has deleted a Job, so it writes the status in any case.
    deleted: bool,
    /// A Job beyond the history limits is still there.
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

    /// Replaces the known CronJob.
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

    /// Returns this Job if it exceeds the history limits and may still be deleted.
    fn surplus(&self, uid: Uid) -> Option<&TrueJob> {
        let job = self.children.iter().find(|job| job.uid == uid);
        job.filter(|job| !self.past_history && self.is_surplus(job))
    }

    /// The active Job of this name, without those that `but_for` excludes.
    fn under_way(&self, name: &str, but_for: impl Fn(&Uid) -> bool) -> Option<Uid> {
        let named = |uid: &&Uid| self.names.get(uid).is_some_and(|known| known == name);
        let mut named = self.active.iter().filter(named);
        named.find(|uid| !but_for(uid)).copied()
    }

    /// Returns true if this Job exceeds the history limit for its outcome.
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

    /// Returns true if Jobs beyond the history limits stay until the next sync. A deletion failed, or a run is in the
    /// future because the clock was set back.
    pub(crate) fn leaves_surplus(&self) -> bool {
        self.surplus_left || self.later && !self.written
    }

    /// Returns true if a Job of a user had the name of the due run.
    pub(crate) fn name_was_taken(&self) -> bool {
        self.taken
    }

    /// Returns true if a Job belongs to a run that the server's status may not cover.
    fn is_untold(&self, job: &TrueJob) -> bool {
        let told = self.cron.status.last_schedule.unwrap_or(self.cron.created);
        job.run.is_some_and(|run| run > told)
    }

    /// The run to start now.
    fn to_start(&self) -> Option<Time> {
        let spec = &self.cron.spec;
        let run = due(&self.cron, self.last, self.now)?;
        let under_way = self.under_way(&job_name(run), |_| false).is_some();
        let forbidden = spec.concurrency == ConcurrencyPolicy::Forbid && !self.active.is_empty();
        let stays = spec.suspend || self.cron.deleting || under_way || forbidden;
        (!stays).then_some(run)
    }

    /// Returns true if the machine knows a Job that runs.
    fn knows(&self, job: &TrueJob) -> bool {
        let listed = self.children.iter().any(|child| child.uid == job.uid);
        listed || self.names.contains_key(&job.uid)
    }

    /// Checks an effect of the machine.
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
            // After a failure the sync may not have checked all of its Jobs.
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

    /// Returns true if the status must change.
    fn is_news(&self) -> bool {
        let known = &self.cron.status;
        let active: Vec<Uid> = known.active.iter().map(|job| job.uid).collect();
        let times = (known.last_schedule, known.last_successful);
        let same = active == self.active && times == (self.last, self.last_successful);
        !same || self.deleted
    }

    /// Applies the response to a request of the machine.
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
            // The machine does not check whether another Job has the name by now.
            self.sought.insert(named);
            self.failed |= job.is_none() && !gone;
            if gone {
                self.no_longer_active(named);
            }
        } else {
            // The Job was to be replaced. It is not in the way if another Job has its name.
            self.failed |= job.is_none();
            if job.is_some_and(|(uid, _)| uid != named) {
                self.no_longer_active(named);
            }
        }
    }

    /// Checks the end of the sync.
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
