//! Schedules the syncs of CronJobs, caches CronJobs and their Jobs, and makes the requests of each sync.
//!
//! Handles events of CronJobs and Jobs. A sync makes one request at a time. Syncs of different CronJobs run
//! concurrently, up to a limit.
//!
//! Must not: decide, that is [`CronJobSync`]; or wait, or read a clock.

mod calls;
mod known;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hashbrown::{HashMap, HashSet};
use serde_json::value::RawValue;

use lakh_core::cronjob::{
    CallAnswer, CronJobEffect, CronJobSync, FoundJob, NewJob, Next, NotCreated, look_after_change,
};
use lakh_core::ownership::Mode;
use lakh_model::{
    ChildJob, CronJob, CronJobStatus, Exponential, JobKey, Monotonic, Now, Report, Time, Timeout,
    Uid,
};
use lakh_wire::{
    self, ApiError, DecodedCronJob, DecodedJob, ErrorKind, decode_cron_job, decode_job,
};

use crate::{
    machine::CallResult,
    metrics::{measured_queue::MeasuredQueue, queues::QueueMetrics},
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

/// The resync period of all CronJobs. A resync reports errors again. The server deletes Events within the hour, so
/// earlier ones are gone by then.
const RESYNC: Duration = Duration::from_secs(12 * 3600);

/// The CronJobs of a shard: their cache, their work queue, and the syncs in flight.
#[derive(Debug)]
pub(super) struct CronJobs {
    queue: MeasuredQueue<JobKey>,
    mode: Mode,
    known: KnownCronJob,
    /// Syncs that wait for a response, with the request's purpose.
    under_way: HashMap<JobKey, (CronJobTurn, CronJobCall)>,
    /// The maximum number of concurrent syncs.
    concurrent: usize,
    /// When all are synced again; none before the first sync.
    resync_at: Option<Monotonic>,
    /// False on standby: no syncs run and none are queued. A new leader receives all objects again.
    is_in_charge: bool,
}

#[derive(Debug)]
struct CronJobTurn {
    sync: CronJobSync,
    /// The cached CronJob when the sync began.
    cron_job: Arc<CronJob>,
    /// A Job created in this sync or an earlier one that no written status lists yet.
    made: Option<ChildJob>,
}

/// The purpose of a request.
#[derive(Debug)]
enum CronJobCall {
    CronJob,
    Job,
    Deletion,
    /// Reads the CronJob with its template, to create this Job.
    Template(NewJob),
    /// Creates a Job scheduled for this time.
    Creation(Time),
    /// Writes a status on top of this version.
    Status(CronJobStatus, u64),
    /// Reads the CronJob's version, because the server refused a status on top of this version with this answer.
    Comparison(CallAnswer, u64),
}

impl CronJobs {
    /// Creates it with an empty cache.
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

    /// Enables or disables syncs.
    pub(super) fn lead(&mut self, is_in_charge: bool) {
        self.is_in_charge = is_in_charge;
    }

    /// Queues a CronJob.
    fn mark(&mut self, key: JobKey) {
        if self.is_in_charge {
            self.queue.add(key);
        }
    }

    /// Iterates over the cached CronJobs, for the debug endpoint.
    pub(super) fn known(&self) -> impl Iterator<Item = &CronJob> {
        let cells = self.known.cron_jobs.values();
        cells.map(|cell| &*cell.cron_job)
    }

    /// The Job of a CronJob that was scheduled last.
    pub(super) fn last_job(&self, cron_job: &CronJob) -> Option<&ChildJob> {
        self.known.last_job(cron_job)
    }

    /// Returns the cached version of the CronJob with this UID.
    pub(super) fn version(&self, cron_job: &CronJob) -> Option<u64> {
        let known = self.known.get(&cron_job.key, cron_job.uid)?;
        Some(known.resource_version)
    }

    /// Applies a version of a CronJob.
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
            // It is not synced until another event arrives.
            Some(Err(report)) => self.tell((&key, uid), report, outbox, now),
        }
    }

    /// Removes a deleted CronJob.
    pub(super) fn delete(&mut self, cron_job: &CronJob, templates: &mut Templates) {
        if self.version(cron_job).is_some() {
            self.known.cron_jobs.remove(&cron_job.key);
            templates.forget(cron_job.uid);
        }
    }

    /// Removes the CronJobs of a scope that a complete list of `version` does not contain.
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

    /// Returns the CronJobs of a scope that are cached in a newer version than a list, as known from responses.
    pub(super) fn newer(&self, namespace: Option<&str>, version: u64) -> Vec<(Uid, u64)> {
        let cron_jobs = self.known.cron_jobs.values();
        let cron_jobs = cron_jobs.map(|cell| &cell.cron_job);
        cron_jobs
            .filter(|cron_job| namespace.is_none_or(|of| cron_job.key.namespace == of))
            .filter(|known| known.resource_version > version)
            .map(|cron_job| (cron_job.uid, cron_job.resource_version))
            .collect()
    }

    /// Forgets a scope, Jobs included. A sync in flight continues with its own copies.
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

    /// Applies a version of a Job.
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
        children.insert(uid, lakh_wire::child_job(decoded));
        self.known.parents.insert(uid, parent.clone());
        if self.known.has(&parent) {
            self.mark(parent.key);
        }
    }

    /// Removes a deleted Job.
    pub(super) fn job_gone(&mut self, job: Uid) {
        if let Some(parent) = self.known.remove_job(job)
            && self.known.has(&parent)
        {
            self.mark(parent.key);
        }
    }

    /// Starts the next sync. Returns false if none may start. Requires that CronJobs and Jobs are fully synced.
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

    /// Queues all CronJobs if the resync is due.
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

    /// Handles the response to a sync's request, and continues the sync. Returns true if the server was restored: its
    /// CronJob is older than a version it returned before.
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
            // Even if the watch still shows it. Otherwise every finished Job would restart this sync.
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

    /// Applies a CronJob from a GET, because the watch may lag. With a stale CronJob, a run could start beside one that
    /// no status could record. Returns true if the server's version is older than `on`.
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
        // A CronJob that the watch has shown as deleted does not come back.
        if self.version(&found.cron_job).is_none() {
            return false;
        }
        let version = found.cron_job.resource_version;
        if version < on {
            tracing::warn!(cronjob = %key, version, on, "the API server returned an older object than before, as after a restored backup; relisting everything");
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

    /// Continues a sync until it makes a request or ends.
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

    /// Creates a Job from this template. Returns the sync if the template is invalid.
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

    /// Remembers the Job that a failed sync created, so that its retry does not create it again.
    fn remember(&mut self, key: &JobKey, turn: &CronJobTurn) {
        let uid = turn.cron_job.uid;
        if let Some(cell) = self.known.cell_mut(key, uid) {
            cell.forgotten.clone_from(&turn.made);
        }
    }

    /// Ends a sync.
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

    /// Records an Event on a CronJob. For one that is no longer cached, earlier Events are unknown.
    fn tell(&mut self, (key, uid): (&JobKey, Uid), report: Report, outbox: &mut Outbox, now: Now) {
        let mut none = Correlator::default();
        let told = match self.known.cell_mut(key, uid) {
            Some(cell) => &mut cell.told,
            None => &mut none,
        };
        let events = &mut outbox.events;
        events.tell(About::CronJob, uid, key, told, report, now);
    }

    /// Handles the response to a status write on top of version `on`, before the watch shows it. If the cache has
    /// another version, its spec may be stale, so the cache waits for the watch.
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
                tracing::debug!(cronjob = %key, %error, "could not write the status");
                return refusal(&error);
            }
        };
        if let Some((_, version, _)) = lakh_wire::ack_of_write(&answer)
            && let Some(cell) = self.known.cell_mut(key, uid)
            && cell.cron_job.resource_version == on
        {
            let cron_job = Arc::make_mut(&mut cell.cron_job);
            cron_job.status = status;
            cron_job.resource_version = version;
        }
        CallAnswer::StatusWritten
    }

    /// Returns when to call [`CronJobs::work`] without any event.
    pub(super) fn poll_timeout(&self) -> Timeout {
        let turns = match self.may_begin() {
            true => self.queue.next_due(),
            false => Timeout::default(),
        };
        turns.or(self.resync_at.into())
    }
}

/// Returns a number that changes with the CronJob's template.
fn template_version(cron_job: &CronJob) -> i64 {
    i64::try_from(cron_job.resource_version).unwrap_or(i64::MAX)
}

/// Returns when to check again for a run at this wall time. It is at most the monotonic time until then, so that a
/// clock set back does not skip the runs in between.
fn alarm(due: Time, now: Now) -> Timeout {
    Timeout::from(due).or((now.monotonic + due.since(now.wall)).into())
}
