//! Runs all controllers for a set of namespaces, as one value without I/O: a shard.
//!
//! Its inputs are object events ([`Shard::hear`]), sync state ([`Shard::notice`]) and responses ([`Machine::handle`]).
//! Its outputs are requests ([`Machine::poll_request`]). A shard owns the Jobs' actors and the cache of their Pods
//! ([`store`]), adoption and release of Pods ([`rounds`]), CronJobs, TTLs and gangs. It also owns all requests that are
//! queued or in flight ([`outbox`]). The namespace decides which shard a Job and its Pods belong to, so shards share no
//! objects.
//!
//! Read first: this file, then [`intake`] (events), [`actor`] (one sync of a Job), [`writes`] (the writes of a sync).
//!
//! Must not: read a clock (but for metrics), wait, lock, send, or know sockets, tasks and threads.

mod actor;
mod annotated;
mod comparison;
mod correlate;
mod cron_jobs;
mod debug;
mod delays;
mod events;
mod gang_index;
mod gangs;
mod index_map;
mod intake;
mod job_pods;
mod journal;
mod next_call;
mod outbox;
mod policy_memory;
mod records;
mod retirement;
mod rounds;
mod scopes;
mod store;
mod template_waits;
mod templates;
#[cfg(test)]
mod tests;
mod ttl;
mod unconfirmed;
mod writes;

use std::{sync::Arc, time::Duration};

use lakh_core::decide::Outcome;
use lakh_core::flow::{QuotaWaits, SyncRate};
use lakh_core::ownership::Mode;
use lakh_model::{JobId, Limits, Monotonic, Now, Timeout};
use lakh_wire::{self, SchedulingApi};

use crate::{
    informer::{Kind, Kinds},
    machine::{CallId, CallResult, Input, Machine, Request},
    metrics::{Metrics, measured_queue::MeasuredQueue},
};

pub use crate::rate_limiter::{Limiter, Rate};
pub use annotated::RecordMemory;
pub use debug::{JobDescription, Question};
pub use index_map::{IndexMap, MapState};
pub use lakh_core::ownership::Controllers;
pub use records::{RecordPage, RecordQuery, RecordRow, RowEnd, WantedRows};

use actor::Rules;
use annotated::RecordBudget;
use correlate::About;
use cron_jobs::CronJobs;
use events::Recorder;
use gangs::Gangs;
use intake::Listed;
use outbox::{Answered, Caller, Named, Outbox, Place};
use retirement::Retirement;
use rounds::Rounds;
use store::{ActorKey, Store};
use template_waits::TemplateWaits;
use templates::Templates;
use ttl::Ttl;
use unconfirmed::Unconfirmed;
use writes::{AnsweredWrite, Next, Op, Write, WriteStep};

/// Configuration shared by all parts of a shard.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The controllers that run.
    pub controllers: Controllers,
    /// Selects the Jobs to manage.
    pub mode: Mode,
    /// Limits of the Job rules.
    pub limits: Limits,
    /// The namespaces that informers watch; empty for all.
    pub namespaces: Vec<String>,
    /// The maximum number of writes in flight.
    pub max_in_flight: usize,
    /// The maximum number of concurrent CronJob syncs.
    pub concurrent_cron_job_syncs: usize,
    /// The maximum number of finished Jobs that are synced for TTL at once.
    pub concurrent_ttl_syncs: usize,
    /// The scheduling API, if gangs are enabled.
    pub scheduling_api: Option<SchedulingApi>,
    /// The shard may write only after [`Notice::Lead`](crate::informer::Notice::Lead).
    pub is_elected: bool,
    /// Jobs get Events that summarize their failures, unless an annotation turns them off.
    pub summarizes_all: bool,
    /// Memory for index records, shared by all shards that are created with it.
    pub record_memory: RecordMemory,
    /// Bytes for the templates of this shard's Jobs and CronJobs.
    pub template_bytes: usize,
}

#[cfg(test)]
impl Settings {
    /// Settings of the Job controller alone, for all namespaces, with this maximum of writes in flight.
    pub(crate) fn of_jobs(max_in_flight: usize) -> Self {
        Self {
            controllers: Controllers {
                job: true,
                cronjob: false,
                ttl: false,
            },
            mode: Mode::Replace,
            limits: Limits::default(),
            namespaces: Vec::new(),
            max_in_flight,
            concurrent_cron_job_syncs: 5,
            concurrent_ttl_syncs: 5,
            scheduling_api: None,
            is_elected: false,
            summarizes_all: false,
            record_memory: RecordMemory::new(64 << 20),
            template_bytes: 64 << 20,
        }
    }
}

/// The controllers of some namespaces: caches, queues and requests.
///
/// Events are applied at once. Syncs run in [`Machine::poll_request`], and only while the write deadline is not past.
/// After every input and at [`Machine::poll_timeout`] the owner polls requests until there are none.
#[derive(Debug)]
pub struct Shard {
    settings: Settings,
    namespaces: Vec<Arc<str>>,
    metrics: Arc<Metrics>,
    store: Store,
    rounds: Rounds,
    queue: MeasuredQueue<ActorKey>,
    sync_rate: SyncRate,
    cron_jobs: Option<CronJobs>,
    ttl: Option<Ttl>,
    gangs: Option<Gangs>,
    quota: QuotaWaits,
    outbox: Outbox,
    listed: Listed,
    unconfirmed: Unconfirmed,
    /// Pod creations that wait while another creation reads the Job's template.
    for_template: TemplateWaits,
    /// Number of the cluster's current history, from the informers. A history ends when the API server is restored from
    /// a backup.
    history: u64,
    /// This shard found that the history has ended. The informers may not know yet.
    history_ended: bool,
    report: Option<u64>,
    /// Kinds that are fully synced in this history and not in doubt.
    known: Kinds,
    /// False after a broken connection until the server responds again: it may have been restored meanwhile.
    is_heard: bool,
    /// The write deadline.
    leads_until: Monotonic,
    /// Set while this shard hands its namespaces over to another process.
    retirement: Option<Retirement>,
    /// The last poll stopped at its limit with work left.
    is_pressed: bool,
    /// Time of the last poll for requests.
    now: Monotonic,
}

impl Shard {
    /// Creates a shard with empty caches.
    pub fn new(settings: Settings, limiter: &Arc<Limiter>, metrics: Arc<Metrics>) -> Self {
        let retry = settings.limits.retry_backoff;
        let (mode, controllers) = (&settings.mode, settings.controllers);
        let events = Recorder::new(mode, Arc::clone(&metrics));
        let max = settings.max_in_flight;
        let outbox = Outbox::new(max, retry.base, limiter, events, Arc::clone(&metrics));
        let store = Store::new(
            mode.finalizer(),
            &settings.namespaces,
            metrics.jobs.seen.clone(),
        );
        let templates = Templates::new(settings.template_bytes, Arc::clone(&metrics));
        let store = store
            .with_budget(RecordBudget::new(settings.record_memory.clone()))
            .with_templates(templates);
        let namespaces = settings.namespaces.iter();
        Self {
            namespaces: namespaces.map(|name| name.as_str().into()).collect(),
            store,
            rounds: Rounds::new(&settings.limits, mode.finalizer()),
            queue: MeasuredQueue::new(retry, metrics.queues.of("job")),
            sync_rate: SyncRate::default(),
            cron_jobs: controllers.cronjob.then(|| {
                let queue = metrics.queues.of(cron_jobs::QUEUE);
                let concurrent = settings.concurrent_cron_job_syncs;
                let mut cron_jobs = CronJobs::new(mode.clone(), retry, concurrent, queue);
                cron_jobs.lead(!settings.is_elected);
                cron_jobs
            }),
            ttl: controllers.ttl.then(|| {
                let queue = metrics.queues.of(ttl::QUEUE);
                Ttl::new(mode.clone(), retry, settings.concurrent_ttl_syncs, queue)
            }),
            gangs: settings.scheduling_api.clone().map(Gangs::new),
            quota: QuotaWaits::new(retry),
            outbox,
            listed: Listed::default(),
            unconfirmed: Unconfirmed::default(),
            for_template: TemplateWaits::default(),
            history: 0,
            history_ended: false,
            report: None,
            known: Kinds::NONE,
            is_heard: false,
            leads_until: match settings.is_elected {
                true => Monotonic::default(),
                false => Monotonic::MAX,
            },
            retirement: None,
            is_pressed: false,
            now: Monotonic::default(),
            metrics,
            settings,
        }
    }

    /// Returns the number of writes in flight.
    pub fn in_flight(&self) -> usize {
        self.outbox.in_flight()
    }

    /// Sets the number of writes in flight in the other shards that share [`Settings::max_in_flight`].
    pub fn set_in_flight_elsewhere(&mut self, in_flight: usize) {
        self.outbox.set_in_flight_elsewhere(in_flight);
    }

    /// Returns the number of a history that this shard found to have ended, once.
    pub fn poll_report(&mut self) -> Option<u64> {
        self.report.take()
    }

    fn end_history(&mut self) {
        self.history_ended = true;
        self.report = Some(self.history);
    }

    /// Runs the next due syncs. Returns false if there was nothing to do.
    fn work(&mut self, now: Now) -> bool {
        if self.history_ended || self.outbox.is_closed() {
            return false;
        }
        let mut worked = false;
        if self.knows_cron_jobs()
            && let Some(cron_jobs) = &mut self.cron_jobs
        {
            worked |= cron_jobs.work(&mut self.outbox, &mut self.store.templates, now);
        }
        if self.known.has(Kind::Job)
            && let Some(ttl) = &mut self.ttl
        {
            let store = &self.store;
            worked |= ttl.work(|job| known_job(store, job), &mut self.outbox, now);
        }
        if !knows_jobs(self.known) {
            return worked;
        }
        let mut resumed = Vec::new();
        worked |= self.rounds.work(&mut self.outbox, now, &mut resumed);
        for job in resumed {
            if let Some(actor) = self.store.find(&job) {
                self.mark(actor);
            }
        }
        self.sync_next(now) || worked
    }

    /// Returns true if this shard leads. A new leader drops its caches and lists everything again.
    fn is_in_charge(&self) -> bool {
        self.leads_until > Monotonic::default()
    }

    /// Queues an actor. On standby there are no syncs, however long it lasts, so pending changes are dropped, and so is
    /// an empty actor.
    fn mark(&mut self, actor: ActorKey) {
        match self.is_in_charge() {
            true => self.queue.add(actor),
            false => self.store.set_aside(actor),
        }
    }

    /// Returns true if all kinds that the CronJob controller needs are synced.
    fn knows_cron_jobs(&self) -> bool {
        self.known.has(Kind::Job) && self.known.has(Kind::CronJob)
    }

    /// Returns when the next queued Job may be synced, if not now. A new Job is not delayed.
    fn sync_due(&self, now: Monotonic) -> Option<Monotonic> {
        let due = self.sync_rate.due_at(now);
        due.filter(|_| !self.queue.has_new())
    }

    /// Syncs the next Job.
    fn sync_next(&mut self, now: Now) -> bool {
        if self.sync_due(now.monotonic).is_some() {
            return false;
        }
        let Some(key) = self.queue.take(now) else {
            return false;
        };
        let failed = self.turn(key, now);
        if !failed {
            self.queue.forget(&key);
        }
        self.queue.done(&key);
        true
    }

    /// Runs one sync of an actor. Returns true if it failed.
    fn turn(&mut self, key: ActorKey, now: Now) -> bool {
        let pods_seen = self.store.pods_seen_by(key);
        let Some(actor) = self.store.get_mut(key) else {
            return false;
        };
        if self.rounds.claims.holds(&actor.id) {
            return false;
        }
        let rules = Rules {
            limits: self.settings.limits,
            gangs: self.gangs.as_ref(),
            runs_jobs: self.settings.controllers.job,
            pods_seen,
        };
        let took = self.metrics.stopwatch();
        let turn = actor.turn(rules, now);
        let job = Arc::clone(&actor.id);
        let has_several_pods = actor.pods.len() > 1;
        self.metrics.turns.inc();
        for action in &turn.handled_failures {
            self.metrics.jobs.failure_handled(*action);
        }
        for begins in turn.foreign {
            self.metrics.jobs.foreign_status(begins);
            if begins {
                tracing::warn!(
                    job = %job.key,
                    uid = %job.uid,
                    "another controller also writes this Job's status; lakh creates no Pods until that one stops"
                );
            }
        }
        if let Some(sync) = turn.sync {
            self.metrics.jobs.sync(sync, took());
        }
        actor.note(&turn.writes, &self.metrics, now.monotonic);
        if turn.panicked {
            self.metrics.panics.inc();
            tracing::error!(job = %job.key, "syncing a Job panicked; its state is rebuilt from the caches");
            self.queue.add_rate_limited(key, now.monotonic);
            return true;
        }
        for report in turn.reports {
            let (events, told) = (&mut self.outbox.events, &mut actor.told);
            events.tell(About::Job, job.uid, &job.key, told, report, now);
        }
        if turn.searches {
            let (from, look) = ((&job.key.namespace, job.uid), Named::get_job(&job.key));
            self.outbox.ask(from, look, Caller::Unseen(key));
        }
        if turn.lists_pods {
            self.list_job_pods(key, "");
        }
        let is_idle = turn.writes.is_empty();
        for op in turn.writes {
            let rank = op.rank();
            self.outbox.push(&job, rank, Write::new(key, &job, op));
        }
        if let Some(at) = turn.wake_at {
            self.queue.add_at(key, at);
        } else if is_idle {
            self.store.close_if_empty(key);
        }
        // First syncs are free: many new Jobs at once must not wait. So are syncs of a Job with one Pod, because
        // waiting would gather no further events.
        if !turn.first && has_several_pods {
            self.sync_rate.spend(now.monotonic);
        }
        false
    }

    fn written(&mut self, mut write: Write, place: Place, result: CallResult, now: Now) {
        let step = std::mem::take(&mut write.step);
        let has_read = matches!(step, WriteStep::Reading);
        let answered = AnsweredWrite {
            shard: self,
            write: &write,
            sent: place.sent(),
            now,
        };
        let next = answered.take(step, result);
        if has_read {
            self.release(write.actor);
        }
        match next {
            // The Job may have been suspended during the read of its template.
            Next::Call(..) if has_read && !self.may_begin(&write, &place) => {
                let outcome = write.unsent();
                self.outbox.over(place, now.monotonic);
                self.over(&write, outcome, now);
            }
            Next::Call(named, step) => {
                write.step = step;
                self.outbox.go_on(write, place, named, now.monotonic);
            }
            Next::Over(outcome) => {
                self.outbox.over(place, now.monotonic);
                self.over(&write, outcome, now);
            }
        }
    }

    /// Passes the outcome of a finished write to its Job.
    fn over(&mut self, write: &Write, outcome: Outcome, now: Now) {
        if let Op::Create { pod, .. } = &write.op {
            writes::count_creation(&self.metrics, pod.reason, &outcome);
        }
        if let Some(actor) = self.store.get_mut(write.actor) {
            actor.in_flight -= 1;
            actor
                .delays
                .heard(&outcome, &self.metrics.jobs, now.monotonic);
            actor.outcomes.push(outcome);
            self.mark(write.actor);
        }
    }

    fn answered(&mut self, caller: Caller, result: CallResult, now: Now) {
        match caller {
            Caller::Chore(chore) => self.rounds.answer(&chore, result, &mut self.outbox, now),
            Caller::CronJob(key) => {
                if let Some(cron_jobs) = &mut self.cron_jobs
                    && cron_jobs.answer(
                        &key,
                        result,
                        &mut self.outbox,
                        &mut self.store.templates,
                        now,
                    )
                {
                    self.end_history();
                }
            }
            Caller::Ttl(job) => {
                if let Some(ttl) = &mut self.ttl {
                    ttl.answer(&job, result, &mut self.outbox, now);
                }
            }
            Caller::Comparison(key, version) => self.asked_for(key, version, result),
            Caller::JobPods(key) => self.job_pods_listed(key, result, now),
            Caller::Unseen(key) => {
                if let Some(actor) = self.store.get_mut(key) {
                    let is_gone = is_of_nobody(&actor.id, result);
                    let retry = self.settings.limits.retry_backoff;
                    actor.searched(is_gone, retry, now.monotonic);
                    self.mark(key);
                }
            }
        }
    }
}

/// Returns true if all kinds that the Job controller needs are synced.
fn knows_jobs(known: Kinds) -> bool {
    let kinds = [Kind::Job, Kind::Pod, Kind::Workload, Kind::PodGroup];
    kinds.into_iter().all(|kind| known.has(kind))
}

/// Returns true if the server says that the Job does not exist: its name is free, or another Job has it.
fn is_of_nobody(job: &JobId, answer: CallResult) -> bool {
    match answer {
        Ok(found) => lakh_wire::ack_of_write(&found).is_some_and(|(uid, ..)| uid != job.uid),
        Err(error) => error.is_of_no_such_object(),
    }
}

/// Returns the cached Job, unless it is gone.
fn known_job(store: &Store, job: &JobId) -> Option<lakh_model::Job> {
    let actor = store.get(store.find(job)?)?;
    actor.job.clone().filter(|_| !actor.gone)
}

impl Machine for Shard {
    fn handle(&mut self, input: Input, now: Now) {
        let Input::Answer(id, result) = input else {
            return;
        };
        match self.outbox.answered(id, result, now.monotonic) {
            Some(Answered::Write(write, place, result)) => {
                self.written(*write, place, result, now);
            }
            Some(Answered::Call(caller, result)) => self.answered(caller, result, now),
            None => {}
        }
    }

    fn poll_request(&mut self, now: Now) -> Option<Request> {
        self.now = now.monotonic;
        self.is_pressed = false;
        // First syncs are not rate limited, so events that arrived meanwhile do not wait behind all of them.
        if now.monotonic >= self.leads_until {
            return None;
        }
        if let Some(retirement) = &mut self.retirement {
            return retirement.poll_request(&mut self.outbox, now.monotonic);
        }
        for _ in 0..SyncRate::AT_ONCE {
            if let Some(request) = self.next_call(now) {
                return Some(request);
            }
            if !self.work(now) {
                return self.next_call(now);
            }
        }
        self.is_pressed = true;
        None
    }

    fn poll_timeout(&self) -> Timeout {
        let now = self.now;
        if now >= self.leads_until {
            return Timeout::default();
        }
        if let Some(retirement) = &self.retirement {
            return retirement.poll_timeout();
        }
        if self.is_pressed {
            return now.into();
        }
        let calls = self.outbox.poll_timeout(now);
        if self.history_ended || self.outbox.is_closed() {
            return calls;
        }
        let cron_jobs = self.cron_jobs.as_ref();
        let cron_jobs = cron_jobs.filter(|_| self.knows_cron_jobs());
        let ttl = self.ttl.as_ref().filter(|_| self.known.has(Kind::Job));
        let others = cron_jobs.map(CronJobs::poll_timeout);
        let others = others.into_iter().chain(ttl.map(Ttl::poll_timeout));
        let others = others.fold(calls, Timeout::or);
        if !knows_jobs(self.known) {
            return others;
        }
        let turns = match (self.queue.is_empty(), self.sync_due(now)) {
            (true, _) => self.queue.next_due(),
            (false, due) => due.unwrap_or(now).into(),
        };
        others.or(turns).or(self.rounds.poll_timeout())
    }

    fn close(&mut self, now: Now) {
        self.outbox.close(now.monotonic);
        self.for_template.clear();
    }

    fn is_idle(&self) -> bool {
        self.outbox.is_idle()
    }

    fn has_events(&self) -> bool {
        !self.outbox.events.is_empty()
    }

    fn coalescing_delay(&self) -> Duration {
        self.outbox.coalescing_delay()
    }

    fn gathers(&self, id: CallId) -> bool {
        self.outbox.gathers(id)
    }
}
