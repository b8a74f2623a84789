//! One sync of a CronJob, step by step, in upstream's order (docs/rules/cronjobs.md, 6).
//!
//! Must not: keep anything for the next one.

use std::collections::VecDeque;

use crate::{
    cron::{Due, Missed, Schedule, Zone, names_zone},
    model::{ActiveJob, ChildJob, ConcurrencyPolicy, CronJob, Report, Time, Uid},
};

use super::{
    alphabet::{CallAnswer, CronJobEffect, NewJob, Next, NotCreated},
    history,
    runs::{base, job_name, run_of, untold_run},
};

/// One sync of a CronJob. Call [`CronJobSync::poll`] for what to do and [`CronJobSync::handle`] with the outcome, by
/// turns, until it is over.
#[derive(Debug)]
#[doc(alias = "syncCronJob")]
pub struct CronJobSync {
    /// What was known when the sync began, changed by what happened since.
    cron: CronJob,
    now: Time,
    listed: Vec<Uid>,
    /// What is left to do; it ends with [`SyncStep::Finish`].
    steps: VecDeque<SyncStep>,
    /// What the answer that is waited for is about.
    asked: Option<SyncStep>,
    reports: VecDeque<Report>,
    /// Jobs that were found to have ended.
    ended: Vec<ChildJob>,
    /// Jobs that were found to be forgotten, and their versions.
    found: Vec<(ChildJob, u64)>,
    /// What was taken from the active Jobs.
    removed: Vec<Uid>,
    /// The status is to be written.
    dirty: bool,
    /// Once it is, there are Jobs to be deleted.
    again: bool,
    next: Next,
}

/// What a sync does, one after the other. Most of it is asked, and goes on with the answer.
#[derive(Debug)]
enum SyncStep {
    /// A Job goes: there are more than are to be kept.
    Surplus(ChildJob),
    /// A Job is compared with the status.
    Compare(ChildJob),
    /// A Job has a run's name and is not in the status: is it ours?
    Stray(ChildJob),
    /// The status is compared with the Jobs.
    FindMissing,
    /// A Job of the status is not known: it may be gone.
    Missing(ActiveJob),
    /// What is due is found out.
    Decide,
    /// A Job under way is to make place: is it there?
    IsThere(ActiveJob),
    /// It is, and goes.
    Replace(ActiveJob),
    /// The run starts.
    Create(Run),
    /// Another Job has the name of the run's Job: whose is it?
    Taken(Run),
    /// The status is written.
    Finish,
}

/// A run that starts.
#[derive(Debug)]
struct Run {
    at: Time,
    schedule: Schedule,
}

impl CronJobSync {
    /// A sync of a CronJob, with the Jobs that name it as their controller.
    pub fn new(cron: CronJob, jobs: Vec<ChildJob>, now: Time) -> Self {
        let mut surplus = history::surplus(&cron.spec, &jobs);
        let count = surplus.len();
        // The Job of a run stays until the server's status lists it, or the run could start again.
        surplus.retain(|job| untold_run(&cron, job).is_none());
        let again = surplus.len() < count;
        let listed = jobs.iter().map(|job| job.uid).collect();
        let surplus = surplus.into_iter().map(SyncStep::Surplus);
        let steps = surplus.chain(jobs.into_iter().map(SyncStep::Compare));
        let rest = [SyncStep::FindMissing, SyncStep::Decide, SyncStep::Finish];
        Self {
            listed,
            steps: steps.chain(rest).collect(),
            again,
            cron,
            now,
            asked: None,
            reports: VecDeque::new(),
            ended: Vec::new(),
            found: Vec::new(),
            removed: Vec::new(),
            dirty: false,
            next: Next::Nothing,
        }
    }

    /// What to do next.
    pub fn poll(&mut self) -> CronJobEffect {
        loop {
            if let Some(report) = self.reports.pop_front() {
                return CronJobEffect::Report(report);
            }
            if let Some(effect) = self.step() {
                return effect;
            }
        }
    }

    /// Goes on by one step; gives what must be answered before the next one.
    fn step(&mut self) -> Option<CronJobEffect> {
        let Some(step) = self.steps.pop_front() else {
            return Some(CronJobEffect::Over(self.next));
        };
        let effect = match &step {
            SyncStep::Surplus(ChildJob { uid, name, .. })
            | SyncStep::Replace(ActiveJob { uid, name, .. }) => {
                CronJobEffect::DeleteJob(*uid, name.clone())
            }
            SyncStep::Compare(job) => self.compare(job)?,
            SyncStep::Stray(ChildJob { name, .. })
            | SyncStep::Missing(ActiveJob { name, .. })
            | SyncStep::IsThere(ActiveJob { name, .. }) => CronJobEffect::GetJob(name.clone()),
            SyncStep::FindMissing => {
                let active = self.cron.status.active.iter();
                let unlisted = active.filter(|job| !self.listed.contains(&job.uid));
                self.begin_with(unlisted.cloned().map(SyncStep::Missing).collect());
                return None;
            }
            SyncStep::Decide => {
                let problem = self.decide().err();
                self.reports.extend(problem);
                return None;
            }
            SyncStep::Create(run) => CronJobEffect::CreateJob(self.new_job(run.at)),
            SyncStep::Taken(run) => CronJobEffect::GetJob(job_name(&self.cron, run.at)),
            SyncStep::Finish if !self.dirty => return None,
            SyncStep::Finish => {
                CronJobEffect::WriteStatus(self.cron.status.clone(), self.cron.resource_version)
            }
        };
        self.asked = Some(step);
        Some(effect)
    }

    /// Puts steps before all others.
    fn begin_with(&mut self, steps: Vec<SyncStep>) {
        for step in steps.into_iter().rev() {
            self.steps.push_front(step);
        }
    }

    /// Takes in what came of the last effect.
    pub fn handle(&mut self, answer: CallAnswer) {
        let Some(asked) = self.asked.take() else {
            return self.fail();
        };
        match (asked, answer) {
            (SyncStep::Surplus(job), answer) => {
                self.deleted(&answer, job.uid, &job.name);
            }
            (SyncStep::Compare(job), CallAnswer::CronJob(fresh)) => {
                if fresh.status.active.iter().any(|it| it.uid == job.uid) {
                    // What was known of the CronJob was old: go on with what is.
                    let last = self.cron.status.last_successful;
                    self.cron = *fresh;
                    let status = &mut self.cron.status;
                    status.active.retain(|job| !self.removed.contains(&job.uid));
                    status.last_successful = status.last_successful.max(last);
                    for (job, version) in std::mem::take(&mut self.found) {
                        self.take_in(job, version);
                    }
                    for job in std::mem::take(&mut self.ended) {
                        self.take_in_end_of(job);
                    }
                    return;
                }
                let what = "Saw a job that the controller did not create or forgot";
                self.warn("UnexpectedJob", &format!("{what}: {}", job.name));
                if run_of(&self.cron, &job).is_some() {
                    self.steps.push_front(SyncStep::Stray(job));
                }
            }
            (SyncStep::Stray(job), CallAnswer::Job(found)) => {
                if found.uid == job.uid && found.controller == Some(self.cron.uid) {
                    self.take_in(job, found.resource_version);
                }
            }
            (SyncStep::Stray(_), CallAnswer::NotFound(_)) => {}
            (SyncStep::Missing(job), CallAnswer::NotFound(_)) => self.went_missing(&job),
            // What is known here is behind. Whose the name is by now, upstream does not ask either.
            (SyncStep::Missing(_), CallAnswer::Job(_)) => {}
            // Nothing is in the way: another Job has the name, and that one is not ours to delete.
            (SyncStep::IsThere(job), CallAnswer::Job(found)) if found.uid != job.uid => {
                self.went_missing(&job);
            }
            (SyncStep::IsThere(job), CallAnswer::Job(_)) => {
                self.steps.push_front(SyncStep::Replace(job));
            }
            (SyncStep::IsThere(_), CallAnswer::NotFound(why) | CallAnswer::Failed(why)) => {
                self.warn("FailedGet", &format!("Get job: {why}"));
                self.fail();
            }
            (SyncStep::Replace(job), answer) => {
                if !self.deleted(&answer, job.uid, &job.name) {
                    self.fail();
                }
            }
            (SyncStep::Create(run), answer) => self.created(run, answer),
            (SyncStep::Taken(run), CallAnswer::Job(found)) => {
                let ours = found.controller == Some(self.cron.uid);
                if ours && !self.is_active(found.uid) {
                    self.started(&run, found.uid, found.resource_version);
                }
                self.come_again(&run.schedule);
            }
            (SyncStep::Finish, CallAnswer::StatusWritten) => {
                if self.again && self.next != Next::Retry {
                    self.next = Next::At(self.now);
                }
            }
            (SyncStep::Finish, _) => self.next = Next::Retry,
            // Whatever else was answered, what was asked is not known.
            (
                SyncStep::Compare(_)
                | SyncStep::Stray(_)
                | SyncStep::FindMissing
                | SyncStep::Missing(_)
                | SyncStep::Decide
                | SyncStep::IsThere(_)
                | SyncStep::Taken(_),
                _,
            ) => self.fail(),
        }
    }

    /// Compares a Job with the status; asks for the CronJob if the Job should not be there.
    fn compare(&mut self, job: &ChildJob) -> Option<CronJobEffect> {
        let active = self.is_active(job.uid);
        if job.complete && job.completion > self.cron.status.last_successful {
            self.cron.status.last_successful = job.completion;
            self.dirty = true;
        }
        if job.end.is_some() {
            self.take_in_end_of(job.clone());
            return None;
        }
        (!active).then_some(CronJobEffect::GetCronJob)
    }

    /// Takes a Job that has ended from those under way.
    fn take_in_end_of(&mut self, job: ChildJob) {
        self.remember_run_of(&job);
        if let Some(end) = job.end
            && self.is_active(job.uid)
        {
            self.take_from_active(job.uid);
            let (name, end) = (&job.name, end.as_str());
            let what = format!("Saw completed job: {name}, condition: {end}");
            self.tell("SawCompletedJob", &what);
        }
        self.ended.push(job);
    }

    /// Finds out what is due, and which way to go on; or what is wrong with the CronJob, which then has no run.
    fn decide(&mut self) -> Result<(), Report> {
        let spec = &self.cron.spec;
        if self.cron.deleting {
            return Ok(());
        }
        let zone = spec.time_zone.as_deref().map(Zone::load).transpose();
        let zone = zone.map_err(|error| {
            let name = spec.time_zone.as_deref().unwrap_or_default();
            let why = format!("invalid timeZone: {name:?}: {error}");
            Report::warning("UnknownTimeZone", &why)
        })?;
        if spec.suspend {
            return Ok(());
        }
        let text = spec.schedule.clone();
        if names_zone(&text) {
            let why = format!(
                "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see {DOCS} for more details"
            );
            self.warn("UnsupportedSchedule", &why);
        }
        let schedule = Schedule::of_cron_job(&text, zone.as_ref()).map_err(|error| {
            let why = format!("unparseable schedule: {text:?} : {error}");
            Report::warning("UnparseableSchedule", &why)
        })?;
        let base = base(&self.cron);
        let earliest = self.cron.spec.starting_deadline.map(|deadline| {
            let millis = i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX);
            Time::from_millis(self.now.as_millis().saturating_sub(millis))
        });
        let due = schedule.due(
            earliest.map_or(base, |earliest| earliest.max(base)),
            self.now,
        );
        let Due { run, missed } = due.map_err(|error| {
            let why = format!("invalid schedule: {text} : {error}");
            Report::warning("InvalidSchedule", &why)
        })?;
        if missed == Missed::Many {
            self.warn("TooManyMissedTimes", TOO_MANY);
        }
        let Some(at) = run else {
            self.come_again(&schedule);
            return Ok(());
        };
        let run = Run { at, schedule };
        let status = &self.cron.status;
        let name = job_name(&self.cron, at);
        // A run that lastScheduleTime tells of is not due: runs are looked for after it.
        if status.active.iter().any(|job| job.name == name) {
            self.come_again(&run.schedule);
            return Ok(());
        }
        match self.cron.spec.concurrency {
            ConcurrencyPolicy::Forbid if !status.active.is_empty() => {
                self.tell("JobAlreadyActive", ALREADY_ACTIVE);
                self.come_again(&run.schedule);
            }
            ConcurrencyPolicy::Replace => {
                let active = status.active.iter().cloned().map(SyncStep::IsThere);
                self.begin_with(active.chain([SyncStep::Create(run)]).collect());
            }
            ConcurrencyPolicy::Allow | ConcurrencyPolicy::Forbid => {
                self.steps.push_front(SyncStep::Create(run));
            }
        }
        Ok(())
    }

    fn new_job(&self, at: Time) -> NewJob {
        let zone = self.cron.spec.time_zone.as_deref().map(Zone::load);
        let zone = zone.and_then(Result::ok).unwrap_or_else(Zone::utc);
        NewJob {
            name: job_name(&self.cron, at),
            scheduled: at,
            timestamp: zone.to_rfc3339(at),
        }
    }

    fn created(&mut self, run: Run, answer: CallAnswer) {
        match answer {
            CallAnswer::Created {
                uid,
                resource_version,
            } => {
                let what = format!("Created job {}", job_name(&self.cron, run.at));
                self.tell("SuccessfulCreate", &what);
                self.started(&run, uid, resource_version);
                self.come_again(&run.schedule);
            }
            CallAnswer::NotCreated(NotCreated::NameTaken) => {
                self.steps.push_front(SyncStep::Taken(run));
            }
            CallAnswer::NotCreated(NotCreated::Other(why)) | CallAnswer::Failed(why) => {
                self.warn("FailedCreate", &format!("Error creating job: {why}"));
                self.fail();
            }
            CallAnswer::NotCreated(NotCreated::NamespaceTerminating)
            | CallAnswer::CronJob(_)
            | CallAnswer::Job(_)
            | CallAnswer::NotFound(_)
            | CallAnswer::Deleted
            | CallAnswer::StatusWritten => self.fail(),
        }
    }

    /// Takes a Job of a run into the status.
    fn started(&mut self, run: &Run, uid: Uid, resource_version: u64) {
        let name = job_name(&self.cron, run.at);
        let status = &mut self.cron.status;
        status.active.push(ActiveJob {
            name,
            uid,
            resource_version,
        });
        status.last_schedule = Some(run.at);
        self.dirty = true;
    }

    /// Takes a Job into the status that was made for a run and forgotten: the answer was lost, or the
    /// controller started anew. Else it would neither hold up the next run nor be replaced by it.
    fn take_in(&mut self, job: ChildJob, resource_version: u64) {
        self.remember_run_of(&job);
        if !self.is_active(job.uid) {
            self.cron.status.active.push(ActiveJob {
                name: job.name.clone(),
                uid: job.uid,
                resource_version,
            });
            self.dirty = true;
        }
        self.found.push((job, resource_version));
    }

    /// A run of which there is a Job is not to start again, even if the status does not list it: the
    /// Job that has its name may be gone the next moment.
    fn remember_run_of(&mut self, job: &ChildJob) {
        // The clock may have gone back, or people have given the name.
        if let Some(run) = untold_run(&self.cron, job).filter(|run| *run <= self.now) {
            self.cron.status.last_schedule = Some(run);
            self.dirty = true;
        }
    }

    /// Takes in the answer to a deletion; whether it was one.
    fn deleted(&mut self, answer: &CallAnswer, job: Uid, name: &str) -> bool {
        match answer {
            CallAnswer::Deleted => {
                let what = format!("Deleted job {name}");
                self.tell("SuccessfulDelete", &what);
                self.take_from_active(job);
                true
            }
            CallAnswer::NotFound(why) | CallAnswer::Failed(why) => {
                self.warn("FailedDelete", &format!("Deleted job: {why}"));
                false
            }
            _ => false,
        }
    }

    fn is_active(&self, uid: Uid) -> bool {
        self.cron.status.active.iter().any(|job| job.uid == uid)
    }

    fn take_from_active(&mut self, uid: Uid) {
        self.cron.status.active.retain(|job| job.uid != uid);
        self.removed.push(uid);
        self.dirty = true;
    }

    fn went_missing(&mut self, job: &ActiveJob) {
        let what = format!("Active job went missing: {}", job.name);
        self.tell("MissingJob", &what);
        self.take_from_active(job.uid);
    }

    fn tell(&mut self, reason: &str, message: &str) {
        self.reports.push_back(Report::normal(reason, message));
    }

    fn warn(&mut self, reason: &str, message: &str) {
        self.reports.push_back(Report::warning(reason, message));
    }

    /// Ends the look with an error: what was changed so far is still written.
    fn fail(&mut self) {
        self.next = Next::Retry;
        self.steps = [SyncStep::Finish].into();
    }

    /// Has the next look come when the next run is due.
    fn come_again(&mut self, schedule: &Schedule) {
        let delay = schedule.next_delay(base(&self.cron), self.now);
        self.next = delay.map_or(Next::Nothing, |delay| Next::At(self.now + delay));
    }
}

/// When to look at a CronJob whose schedule or time zone has changed; or the Event to record.
#[doc(alias = "updateCronJob")]
pub fn look_after_change(cron: &CronJob, now: Time) -> Result<Time, Report> {
    let text = &cron.spec.schedule;
    let zone = cron.spec.time_zone.as_deref().map(Zone::load);
    let zone = zone.transpose().unwrap_or_default();
    let schedule = Schedule::of_cron_job(text, zone.as_ref()).map_err(|_| {
        let why = format!("unparseable schedule for cronjob: {text}");
        Report::warning("UnParseableCronJobSchedule", &why)
    })?;
    let delay = schedule.next_delay(base(cron), now);
    Ok(now + delay.unwrap_or_default())
}

const DOCS: &str = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/";

const TOO_MANY: &str = "too many missed start times. Set or decrease \
                        .spec.startingDeadlineSeconds or check clock skew";

const ALREADY_ACTIVE: &str = "Not starting job because prior execution is running and concurrency \
                              policy is Forbid";
