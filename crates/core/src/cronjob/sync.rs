//! Runs one sync of a CronJob, step by step, in upstream's order (docs/rules/cronjobs.md, 6).
//!
//! Must not: keep state for the next sync.

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

/// One sync of a CronJob. Alternate between [`CronJobSync::poll`], which returns the next request, and
/// [`CronJobSync::handle`], which takes its result, until it is over.
#[derive(Debug)]
#[doc(alias = "syncCronJob")]
pub struct CronJobSync {
    /// The CronJob from the cache, updated during the sync.
    cron: CronJob,
    now: Time,
    listed: Vec<Uid>,
    /// The remaining steps; the last is [`SyncStep::Finish`].
    steps: VecDeque<SyncStep>,
    /// The step that waits for a result.
    asked: Option<SyncStep>,
    reports: VecDeque<Report>,
    /// Jobs found to have ended.
    ended: Vec<ChildJob>,
    /// Jobs of this CronJob that its status had lost, with their resourceVersions.
    found: Vec<(ChildJob, u64)>,
    /// Jobs removed from `active`.
    removed: Vec<Uid>,
    /// The status must be written.
    dirty: bool,
    /// Jobs remain to be deleted after the status write.
    again: bool,
    next: Next,
}

/// The steps of a sync. Most send a request and continue with its result.
#[derive(Debug)]
enum SyncStep {
    /// Delete a Job beyond the history limit.
    Surplus(ChildJob),
    /// Compare a Job with the status.
    Compare(ChildJob),
    /// Check whether we own a Job that has a run's name and is not in the status.
    Stray(ChildJob),
    /// Compare the status with the Jobs.
    FindMissing,
    /// Check whether a Job of the status that is not listed still exists.
    Missing(ActiveJob),
    /// Find the run that is due.
    Decide,
    /// Check whether an active Job to be replaced exists.
    IsThere(ActiveJob),
    /// Delete the active Job that is replaced.
    Replace(ActiveJob),
    /// Start the run.
    Create(Run),
    /// Check the owner of another Job that has the name of the run's Job.
    Taken(Run),
    /// Write the status.
    Finish,
}

/// A run to be started.
#[derive(Debug)]
struct Run {
    at: Time,
    schedule: Schedule,
}

impl CronJobSync {
    /// Creates a sync of a CronJob, with the Jobs that it controls.
    pub fn new(cron: CronJob, jobs: Vec<ChildJob>, now: Time) -> Self {
        let mut surplus = history::surplus(&cron.spec, &jobs);
        let count = surplus.len();
        // A run's Job stays until the status on the server covers the run. Otherwise the run could start again.
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

    /// Returns the next request.
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

    /// Performs one step. Returns the request that the next step depends on, if any.
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

    /// Inserts steps before all others.
    fn begin_with(&mut self, steps: Vec<SyncStep>) {
        for step in steps.into_iter().rev() {
            self.steps.push_front(step);
        }
    }

    /// Handles the result of the last request.
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
                    // The cached CronJob was stale: continue with the fresh one.
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
            // The Job list is stale. Like upstream, this does not check the owner of the found Job.
            (SyncStep::Missing(_), CallAnswer::Job(_)) => {}
            // Nothing to replace: another Job has the name, and that one is not ours to delete.
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
            // Any other result leaves the question of the step open.
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

    /// Compares a Job with the status. Requests the CronJob if the status does not list an active Job.
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

    /// Handles a finished Job: removes it from `active`.
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

    /// Finds the run that is due and the steps to start it. Returns the error in the CronJob as an Event; such a
    /// CronJob has no run.
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
        // Runs up to lastScheduleTime are not due: the search begins after it.
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

    /// Adds a run's Job to the status.
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

    /// Adds a run's Job that the status has lost: the response to its creation was lost, or the controller restarted.
    /// Otherwise the Job would neither delay the next run nor be replaced by it.
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

    /// Records a Job's run in lastScheduleTime, even if the status does not list the Job. The Job may disappear at any
    /// moment, and the run must not start again.
    fn remember_run_of(&mut self, job: &ChildJob) {
        // A later run means that the clock was set back, or that a user chose the name.
        if let Some(run) = untold_run(&self.cron, job).filter(|run| *run <= self.now) {
            self.cron.status.last_schedule = Some(run);
            self.dirty = true;
        }
    }

    /// Handles the result of a deletion. Returns true if the Job was deleted.
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

    /// Ends the sync with an error. The status changes so far are still written.
    fn fail(&mut self) {
        self.next = Next::Retry;
        self.steps = [SyncStep::Finish].into();
    }

    /// Schedules the next sync for the next run.
    fn come_again(&mut self, schedule: &Schedule) {
        let delay = schedule.next_delay(base(&self.cron), self.now);
        self.next = delay.map_or(Next::Nothing, |delay| Next::At(self.now + delay));
    }
}

/// The time of the next sync of a CronJob after a change of its schedule or time zone; or the Event to record.
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
