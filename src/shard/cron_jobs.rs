//! Gives CronJobs their turns: what is known of them and of their Jobs, and the calls that a turn
//! makes.
//!
//! Fed with the news of CronJobs and of Jobs. A turn makes its calls one after the other; turns of different
//! CronJobs do not wait for each other, but there are only so many at once.
//!
//! Must not: decide, that is [`CronJobSync`]; or wait, or read a clock.

mod calls;
mod known;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hashbrown::{HashMap, HashSet};
use serde_json::value::RawValue;

use crate::{
    cronjob::{
        CallAnswer, CronJobEffect, CronJobSync, FoundJob, NewJob, Next, NotCreated,
        look_after_change,
    },
    machine::CallResult,
    metrics::{measured_queue::MeasuredQueue, queues::QueueMetrics},
    model::{
        ChildJob, CronJob, CronJobStatus, Exponential, JobKey, Monotonic, Now, Report, Time,
        Timeout, Uid,
    },
    ownership::Mode,
    wire::{self, ApiError, DecodedCronJob, DecodedJob, ErrorKind, decode_cron_job, decode_job},
};

use super::{
    correlate::{About, Correlator},
    outbox::{Caller, Named, Outbox},
    templates::{Template, Templates},
};
use calls::{
    create_job, created, delete_job, found, get_cron_job, made, refusal, template_of, write_status,
};
use known::{Cell, KnownCronJob, Parent};

/// The work queue's name.
pub(super) const QUEUE: &str = "cronjob";

/// How often all CronJobs are looked at, whether or not there is news of them. What is wrong with one is
/// told again, then; the Events of the time before are forgotten by the server within the hour.
const RESYNC: Duration = Duration::from_secs(12 * 3600);

/// See the module's text.
#[derive(Debug)]
pub(super) struct CronJobs {
    queue: MeasuredQueue<JobKey>,
    mode: Mode,
    known: KnownCronJob,
    /// The turns that wait for an answer, and what it is about.
    under_way: HashMap<JobKey, (CronJobTurn, CronJobCall)>,
    /// How many turns there may be at once.
    concurrent: usize,
    /// When all are looked at again; none before the first turn.
    resync_at: Option<Monotonic>,
    /// On standby there are no turns, and nothing is kept for them: who is in charge hears of everything anew.
    is_in_charge: bool,
}

#[derive(Debug)]
struct CronJobTurn {
    sync: CronJobSync,
    /// The CronJob as it was known when the turn began.
    cron_job: Arc<CronJob>,
    /// The Job that was made, in this turn or before, and that no written status has.
    made: Option<ChildJob>,
}

/// What an answer is about.
#[derive(Debug)]
enum CronJobCall {
    CronJob,
    Job,
    Deletion,
    /// The CronJob with its template, to make this Job of it.
    Template(NewJob),
    /// A Job that was due then.
    Creation(Time),
    /// A status on top of this version.
    Status(CronJobStatus, u64),
    /// Which version the server has, as it refused a status on top of this one with this answer.
    Comparison(CallAnswer, u64),
}

impl CronJobs {
    /// Nothing is known yet.
    pub(super) fn new(
        mode: Mode,
        backoff: Exponential,
        concurrent: usize,
        metrics: QueueMetrics,
    ) -> Self {
        Self {
            queue: MeasuredQueue::new(backoff, metrics),
            mode,
            known: KnownCronJob::default(),
            under_way: HashMap::new(),
            concurrent,
            resync_at: None,
            is_in_charge: false,
        }
    }

    /// Whether turns are given.
    pub(super) fn lead(&mut self, is_in_charge: bool) {
        self.is_in_charge = is_in_charge;
    }

    /// Has a CronJob a turn soon.
    fn mark(&mut self, key: JobKey) {
        if self.is_in_charge {
            self.queue.add(key);
        }
    }

    /// All that are known, for people who ask.
    pub(super) fn known(&self) -> impl Iterator<Item = &CronJob> {
        let cells = self.known.cron_jobs.values();
        cells.map(|cell| &*cell.cron_job)
    }

    /// The Job of a CronJob that was scheduled last.
    pub(super) fn last_job(&self, cron_job: &CronJob) -> Option<&ChildJob> {
        self.known.last_job(cron_job)
    }

    /// The version of this very CronJob that is known.
    pub(super) fn version(&self, cron_job: &CronJob) -> Option<u64> {
        let known = self.known.get(&cron_job.key, cron_job.uid)?;
        Some(known.resource_version)
    }

    /// Takes in a version of a CronJob.
    pub(super) fn apply(
        &mut self,
        decoded: DecodedCronJob,
        outbox: &mut Outbox,
        templates: &mut Templates,
        now: Now,
    ) {
        let cron_job = &decoded.cron_job;
        let (key, uid) = (cron_job.key.clone(), cron_job.uid);
        if !self.mode.manages_jobs_of(cron_job) {
            self.known.cron_jobs.remove(&key);
            templates.forget(uid);
            return;
        }
        let mut due = None;
        match self.known.cell_mut(&key, uid) {
            Some(cell) => {
                let before = &cell.cron_job;
                if before.resource_version >= cron_job.resource_version {
                    return;
                }
                let (old, new) = (&before.spec, &cron_job.spec);
                let moved = old.schedule != new.schedule || old.time_zone != new.time_zone;
                due = moved.then(|| look_after_change(cron_job, now.wall));
                cell.cron_job = Arc::new(cron_job.clone());
            }
            None => {
                let cell = Cell {
                    cron_job: Arc::new(cron_job.clone()),
                    told: Correlator::default(),
                    forgotten: None,
                };
                self.known.cron_jobs.insert(key.clone(), cell);
            }
        }
        match cron_job.spec.suspend {
            true => templates.forget(uid),
            false => {
                let of = (uid, template_version(cron_job));
                templates.offer(&key.namespace, of, Template::Jobs(decoded.template));
            }
        }
        match due {
            None => self.mark(key),
            Some(Ok(_)) if !self.is_in_charge => {}
            Some(Ok(due)) => self.queue.add_at(key, alarm(due, now)),
            // It has no turn until there are other news of it.
            Some(Err(report)) => self.tell((&key, uid), report, outbox, now),
        }
    }

    /// Takes in that a CronJob is gone.
    pub(super) fn delete(&mut self, cron_job: &CronJob, templates: &mut Templates) {
        if self.version(cron_job).is_some() {
            self.known.cron_jobs.remove(&cron_job.key);
            templates.forget(cron_job.uid);
        }
    }

    /// Takes in that a list showed these CronJobs and no others as of `version`.
    pub(super) fn retain(
        &mut self,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        version: u64,
        templates: &mut Templates,
    ) {
        self.known.cron_jobs.retain(|key, cell| {
            let cron_job = &cell.cron_job;
            let covered = namespace.is_none_or(|namespace| key.namespace == namespace);
            let newer = cron_job.resource_version > version;
            let stays = !covered || newer || listed.contains(&cron_job.uid);
            if !stays {
                templates.forget(cron_job.uid);
            }
            stays
        });
    }

    /// The CronJobs of a scope that are known to be newer than a list of `version`, as an answer told.
    pub(super) fn newer(&self, namespace: Option<&str>, version: u64) -> Vec<(Uid, u64)> {
        let cron_jobs = self.known.cron_jobs.values();
        let cron_jobs = cron_jobs.map(|cell| &cell.cron_job);
        cron_jobs
            .filter(|cron_job| namespace.is_none_or(|of| cron_job.key.namespace == of))
            .filter(|known| known.resource_version > version)
            .map(|cron_job| (cron_job.uid, cron_job.resource_version))
            .collect()
    }

    /// Forgets all there is of a scope, Jobs included. A turn that is under way goes on with what it began
    /// with.
    pub(super) fn forget(&mut self, namespace: Option<&str>, templates: &mut Templates) {
        let stays = |key: &JobKey| namespace.is_some_and(|namespace| key.namespace != namespace);
        self.known.cron_jobs.retain(|key, cell| {
            if !stays(key) {
                templates.forget(cell.cron_job.uid);
            }
            stays(key)
        });
        self.known.children.retain(|key, _| stays(key));
        self.known.parents.retain(|_, parent| stays(&parent.key));
    }

    /// Takes in a version of a Job.
    pub(super) fn job(&mut self, decoded: &DecodedJob) {
        let uid = decoded.job.uid;
        let owner = decoded.controller.as_ref();
        let parent = owner.filter(|owner| owner.kind == "CronJob");
        let parent = parent.map(|owner| Parent {
            key: JobKey {
                namespace: decoded.job.key.namespace.clone(),
                name: owner.name.clone(),
            },
            uid: owner.uid,
        });
        if self.known.parents.get(&uid) != parent.as_ref() {
            self.job_gone(uid);
        }
        let Some(parent) = parent else { return };
        let children = self.known.children.entry(parent.key.clone()).or_default();
        children.insert(uid, wire::child_job(decoded));
        self.known.parents.insert(uid, parent.clone());
        if self.known.has(&parent) {
            self.mark(parent.key);
        }
    }

    /// Takes in that a Job is gone.
    pub(super) fn job_gone(&mut self, job: Uid) {
        if let Some(parent) = self.known.remove_job(job)
            && self.known.has(&parent)
        {
            self.mark(parent.key);
        }
    }

    /// Gives the next CronJob its turn; false if there is none that may have one. To be called only when
    /// all is known.
    pub(super) fn work(
        &mut self,
        outbox: &mut Outbox,
        templates: &mut Templates,
        now: Now,
    ) -> bool {
        self.resync(now.monotonic);
        if !self.may_begin() {
            return false;
        }
        let Some(key) = self.queue.take(now) else {
            return false;
        };
        let Some(cell) = self.known.cron_jobs.get_mut(&key) else {
            self.over(&key, Next::Nothing, now);
            return true;
        };
        let cron_job = Arc::clone(&cell.cron_job);
        let children = self.known.children.get(&key).into_iter();
        let mut children: Vec<_> = children.flat_map(BTreeMap::values).cloned().collect();
        let made = cell.forgotten.take();
        let made = made.filter(|made| children.iter().all(|child| child.uid != made.uid));
        children.extend(made.clone());
        let sync = CronJobSync::new((*cron_job).clone(), children, now.wall);
        let turn = CronJobTurn {
            sync,
            cron_job,
            made,
        };
        self.go_on(key, turn, outbox, templates, now);
        true
    }

    /// Looks at all CronJobs if it is time.
    fn resync(&mut self, now: Monotonic) {
        let due = *self.resync_at.get_or_insert(now + RESYNC);
        if due <= now {
            self.resync_at = Some(now + RESYNC);
            for key in self.known.cron_jobs.keys() {
                self.queue.add(key.clone());
            }
        }
    }

    fn may_begin(&self) -> bool {
        self.under_way.len() < self.concurrent
    }

    /// Takes in what came of a turn's call, and goes on with the turn. Whether the server tells another history: it
    /// has the CronJob as older than it told.
    pub(super) fn answer(
        &mut self,
        key: &JobKey,
        result: CallResult,
        outbox: &mut Outbox,
        templates: &mut Templates,
        now: Now,
    ) -> bool {
        let Some((mut turn, asked)) = self.under_way.remove(key) else {
            return false;
        };
        let uid = turn.cron_job.uid;
        let mut history_ends = false;
        let is_of_cron_job = matches!(
            asked,
            CronJobCall::CronJob
                | CronJobCall::Template(_)
                | CronJobCall::Status(..)
                | CronJobCall::Comparison(..)
        );
        if is_of_cron_job && result.as_ref().is_err_and(ApiError::is_of_no_such_object) {
            // Whatever the watch tells: else each end of a Job would start its run again.
            self.delete(&turn.cron_job, templates);
        }
        let answer = match asked {
            CronJobCall::CronJob => found(result, decode_cron_job, |decoded| {
                CallAnswer::CronJob(Box::new(decoded.cron_job))
            }),
            CronJobCall::Job => found(result, decode_job, |decoded| {
                CallAnswer::Job(FoundJob {
                    uid: decoded.job.uid,
                    resource_version: decoded.job.resource_version,
                    controller: decoded.controller.map(|owner| owner.uid),
                })
            }),
            CronJobCall::Template(job) => {
                outbox.metrics.template_reads.inc();
                match template_of(result, uid) {
                    Ok(found) => {
                        let of = (uid, template_version(&found.cron_job));
                        let kept = Template::Jobs(Arc::clone(&found.template));
                        templates.keep(&key.namespace, of, kept);
                        if let Some(turn) = self.create(key, turn, job, &found.template, outbox) {
                            self.go_on(key.clone(), turn, outbox, templates, now);
                        }
                        return false;
                    }
                    Err(why) => CallAnswer::NotCreated(NotCreated::Other(why)),
                }
            }
            CronJobCall::Deletion => {
                result.map_or_else(|error| refusal(&error), |_| CallAnswer::Deleted)
            }
            CronJobCall::Creation(scheduled) => {
                turn.made = made(&result).or(turn.made);
                created(result, scheduled, &outbox.metrics, now)
            }
            CronJobCall::Status(status, on) => match result {
                Err(error) if error.kind == ErrorKind::Conflict => {
                    let asked = CronJobCall::Comparison(refusal(&error), on);
                    self.ask((key.clone(), turn), get_cron_job(key), asked, outbox);
                    return false;
                }
                result => {
                    turn.made = turn.made.filter(|_| result.is_err());
                    self.status_answered((key, uid), status, on, result)
                }
            },
            CronJobCall::Comparison(refused, on) => {
                history_ends = self.compare(key, on, result, outbox, templates, now);
                refused
            }
        };
        turn.sync.handle(answer);
        self.go_on(key.clone(), turn, outbox, templates, now);
        history_ends
    }

    /// Takes in a CronJob that is newer than was known: the watch may be long in telling, and a run start beside
    /// one of which no status could be written. Whether it is older.
    fn compare(
        &mut self,
        key: &JobKey,
        on: u64,
        result: CallResult,
        outbox: &mut Outbox,
        templates: &mut Templates,
        now: Now,
    ) -> bool {
        let found = result.map(|answer| decode_cron_job(&String::from_utf8_lossy(&answer)));
        let Ok(Ok(found)) = found else { return false };
        // One that the watch has told is gone does not come back.
        if self.version(&found.cron_job).is_none() {
            return false;
        }
        let version = found.cron_job.resource_version;
        if version < on {
            tracing::warn!(cronjob = %key, version, on, "the API server has older data; starting anew");
            return true;
        }
        self.apply(found, outbox, templates, now);
        false
    }

    fn ask(
        &mut self,
        (key, turn): (JobKey, CronJobTurn),
        named: Named,
        asked: CronJobCall,
        outbox: &mut Outbox,
    ) {
        let uid = turn.cron_job.uid;
        let caller = Caller::CronJob(key.clone());
        outbox.ask((&key.namespace, uid), named, caller);
        self.under_way.insert(key, (turn, asked));
    }

    /// Goes on with a turn until it has something to ask, or is over.
    fn go_on(
        &mut self,
        key: JobKey,
        mut turn: CronJobTurn,
        outbox: &mut Outbox,
        templates: &mut Templates,
        now: Now,
    ) {
        let uid = turn.cron_job.uid;
        let (named, asked) = loop {
            break match turn.sync.poll() {
                CronJobEffect::Over(next) => {
                    if next == Next::Retry {
                        self.remember(&key, &turn);
                    }
                    return self.over(&key, next, now);
                }
                CronJobEffect::Report(report) => {
                    self.tell((&key, uid), report, outbox, now);
                    continue;
                }
                CronJobEffect::GetCronJob => (get_cron_job(&key), CronJobCall::CronJob),
                CronJobEffect::GetJob(name) => {
                    let namespace = key.namespace.clone();
                    let named = Named::get_job(&JobKey { namespace, name });
                    (named, CronJobCall::Job)
                }
                CronJobEffect::DeleteJob(job, name) => {
                    (delete_job(&key, job, &name), CronJobCall::Deletion)
                }
                CronJobEffect::CreateJob(job) => match templates.jobs_of(uid) {
                    Some(template) => {
                        match self.create(&key, turn, job, &template, outbox) {
                            Some(again) => turn = again,
                            None => return,
                        }
                        continue;
                    }
                    None => (get_cron_job(&key), CronJobCall::Template(job)),
                },
                CronJobEffect::WriteStatus(status, on) => {
                    let named = write_status((&key, uid), &status, on);
                    (named, CronJobCall::Status(status, on))
                }
            };
        };
        self.ask((key, turn), named, asked, outbox);
    }

    /// Creates a Job of this template; gives the turn back if none can be made of it.
    fn create(
        &mut self,
        key: &JobKey,
        mut turn: CronJobTurn,
        job: NewJob,
        template: &RawValue,
        outbox: &mut Outbox,
    ) -> Option<CronJobTurn> {
        match create_job(&turn.cron_job, template, &job) {
            Ok(named) => {
                let asked = CronJobCall::Creation(job.scheduled);
                self.ask((key.clone(), turn), named, asked, outbox);
                None
            }
            Err(error) => {
                let why = NotCreated::Other(error.to_string());
                turn.sync.handle(CallAnswer::NotCreated(why));
                Some(turn)
            }
        }
    }

    /// A turn is to be tried again, and what it made is not to be made a second time.
    fn remember(&mut self, key: &JobKey, turn: &CronJobTurn) {
        let uid = turn.cron_job.uid;
        if let Some(cell) = self.known.cell_mut(key, uid) {
            cell.forgotten.clone_from(&turn.made);
        }
    }

    /// A turn is over.
    fn over(&mut self, key: &JobKey, next: Next, now: Now) {
        match next {
            Next::Nothing => self.queue.forget(key),
            Next::At(due) => {
                self.queue.forget(key);
                self.queue.add_at(key.clone(), alarm(due, now));
            }
            Next::Retry => self.queue.add_rate_limited(key.clone(), now.monotonic),
        }
        self.queue.done(key);
    }

    /// Tells people of a CronJob. Of one that is known no more, nobody knows what was told before.
    fn tell(&mut self, (key, uid): (&JobKey, Uid), report: Report, outbox: &mut Outbox, now: Now) {
        let mut none = Correlator::default();
        let told = match self.known.cell_mut(key, uid) {
            Some(cell) => &mut cell.told,
            None => &mut none,
        };
        let events = &mut outbox.events;
        events.tell(About::CronJob, uid, key, told, report, now);
    }

    /// Takes in what came of a status on top of version `on`: the watch may tell of it later. If what is known
    /// is another version still, its spec may be old, and the watch must tell.
    fn status_answered(
        &mut self,
        (key, uid): (&JobKey, Uid),
        status: CronJobStatus,
        on: u64,
        result: CallResult,
    ) -> CallAnswer {
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(cronjob = %key, %error, "status not written");
                return refusal(&error);
            }
        };
        if let Some((_, version, _)) = wire::ack_of_write(&answer)
            && let Some(cell) = self.known.cell_mut(key, uid)
            && cell.cron_job.resource_version == on
        {
            let cron_job = Arc::make_mut(&mut cell.cron_job);
            cron_job.status = status;
            cron_job.resource_version = version;
        }
        CallAnswer::StatusWritten
    }

    /// When to call [`CronJobs::work`] though nothing was heard.
    pub(super) fn poll_timeout(&self) -> Timeout {
        let turns = match self.may_begin() {
            true => self.queue.next_due(),
            false => Timeout::default(),
        };
        turns.or(self.resync_at.into())
    }
}

/// A number that changes with a CronJob's template.
fn template_version(cron_job: &CronJob) -> i64 {
    i64::try_from(cron_job.resource_version).unwrap_or(i64::MAX)
}

/// When to look again for a run at this time of day: no later than if nobody set the clock. Else one that is set back
/// would leave out the runs in between.
fn alarm(due: Time, now: Now) -> Timeout {
    Timeout::from(due).or((now.monotonic + due.since(now.wall)).into())
}
