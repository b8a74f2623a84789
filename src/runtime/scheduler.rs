//! Gives Jobs their turns: the work queue, and those who work it off.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    clock::{Clock, instant},
    model::{JobId, Limits, Monotonic, Timeout},
};

use super::{
    actor, breath::Breath, correlate::About, events::Recorder, gang::Gangs,
    measured_queue::MeasuredQueue, metrics::Metrics, ownership::Ownership,
    queue_metrics::QueueMetrics, store::Store, write_queue::WriteQueue,
};

/// The work queue, shared.
#[derive(Debug)]
pub(super) struct Schedule {
    queue: Mutex<MeasuredQueue<Arc<JobId>>>,
    changed: Notify,
    clock: Clock,
    breath: Breath,
}

impl Schedule {
    pub(super) fn new(limits: &Limits, clock: Clock, metrics: QueueMetrics) -> Self {
        Self {
            queue: Mutex::new(MeasuredQueue::new(limits.retry_backoff, metrics)),
            changed: Notify::new(),
            clock,
            breath: Breath::new(),
        }
    }

    /// A Job has something new to look at.
    pub(super) fn add(&self, job: Arc<JobId>) {
        if self.queue.lock().add(job) {
            self.changed.notify_one();
        }
    }

    /// A Job came into sight: its first Pods do not wait for the turns of all others.
    pub(super) fn add_new(&self, job: Arc<JobId>) {
        if self.queue.lock().add_new(job) {
            self.changed.notify_one();
        }
    }

    /// A Job is to have a turn at a later time, at the latest.
    pub(super) fn add_at(&self, job: Arc<JobId>, due: Timeout) {
        self.queue.lock().add_at(job, due);
        // Whoever sleeps may now sleep too long.
        self.changed.notify_one();
    }

    fn add_rate_limited(&self, job: Arc<JobId>, now: Monotonic) {
        self.queue.lock().add_rate_limited(job, now);
        self.changed.notify_one();
    }

    /// A turn is over.
    pub(super) fn done(&self, job: &Arc<JobId>, failed: bool) {
        let mut queue = self.queue.lock();
        if !failed {
            queue.forget(job);
        }
        if queue.done(job) {
            self.changed.notify_one();
        }
    }

    /// Waits for the next Job.
    pub(super) async fn take(&self) -> Arc<JobId> {
        loop {
            let changed = self.changed.notified();
            let (next, due, more) = {
                let mut queue = self.queue.lock();
                let next = queue.take(self.clock.now());
                (next, queue.next_due(), !queue.is_empty())
            };
            if let Some(job) = next {
                if more {
                    self.changed.notify_one();
                }
                return job;
            }
            tokio::select! {
                () = self.clock.sleep_until(due) => {}
                () = changed => {}
            }
        }
    }
}

/// What a worker needs.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) store: Arc<Store>,
    pub(super) ownership: Arc<Ownership>,
    pub(super) schedule: Arc<Schedule>,
    pub(super) writes: Arc<WriteQueue>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) metrics: Arc<Metrics>,
    /// The gangs, if they are asked for.
    pub(super) gangs: Option<Arc<Gangs>>,
    pub(super) limits: Limits,
    /// Differs from start to start, so that the names of new Pods do.
    pub(super) seed: u64,
}

/// A turn that was given.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    failed: bool,
    first: bool,
}

impl Worker {
    /// Gives turns, for ever.
    pub(super) async fn run(self) {
        loop {
            let job = self.schedule.take().await;
            let given = self.turn(&job);
            self.schedule.done(&job, given.failed);
            // A turn is computation: let those who wait for the network run between two.
            tokio::task::yield_now().await;
            // First turns are free: many new Jobs at once are no reason to let them wait.
            if !given.first {
                self.schedule.breath.take().await;
            }
        }
    }

    fn turn(&self, job: &Arc<JobId>) -> Given {
        if !self.store.history.has_turns() {
            // All have one later.
            return Given::default();
        }
        let Some(cell) = self.store.cell(job) else {
            return Given::default();
        };
        let now = self.schedule.clock.now();
        let seed = self.seed ^ (job.uid.as_u128() as u64);
        let started = instant();
        let gangs = self.gangs.as_deref();
        let turn = actor::turn(&cell, &self.ownership, self.limits, seed, gangs, now);
        let took = instant() - started;
        self.metrics.turns.inc();
        for action in turn.handled_failures {
            self.metrics.jobs.failure_handled(action);
        }
        if let Some(sync) = turn.sync {
            self.metrics.jobs.sync(sync, took);
        }
        if turn.panicked {
            self.metrics.panics.inc();
            tracing::error!(job = %job.key, "actor panicked; starting it anew");
            self.schedule
                .add_rate_limited(Arc::clone(job), now.monotonic);
            return Given {
                failed: true,
                first: false,
            };
        }
        for report in turn.reports {
            let told = &cell.told;
            self.recorder
                .tell(About::Job, job.uid, &job.key, told, report);
        }
        let idle = turn.writes.is_empty();
        self.writes.push(turn.writes);
        if turn.again {
            self.schedule.add(Arc::clone(job));
        }
        if let Some(at) = turn.wake_at {
            self.schedule.add_at(Arc::clone(job), at);
        } else if idle {
            self.store.close_if_empty(&cell);
        }
        Given {
            failed: false,
            first: turn.first,
        }
    }
}
