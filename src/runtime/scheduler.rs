//! Gives Jobs their turns: the work queue, and those who work it off.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    clock::{Clock, instant},
    model::{Limits, Time, Uid},
    queue::WorkQueue,
};

use super::{
    actor, correlate::About, events::Recorder, gang::Gangs, metrics::Metrics, ownership::Ownership,
    store::Store, writer::WriteQueue,
};

/// The work queue, shared.
#[derive(Debug)]
pub(super) struct Schedule {
    waiting: Mutex<Waiting>,
    changed: Notify,
    clock: Clock,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Waiting {
    queue: WorkQueue<Uid>,
    /// Since when, of those whose turn it is; not of those that came to wait by the clock, which
    /// wait no longer than it takes to see that.
    since: HashMap<Uid, Instant>,
}

impl Schedule {
    pub(super) fn new(limits: &Limits, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                queue: WorkQueue::new(limits.retry_backoff),
                since: HashMap::new(),
            }),
            changed: Notify::new(),
            clock,
            metrics,
        }
    }

    /// A Job has something new to look at.
    pub(super) fn add(&self, job: Uid) {
        let mut waiting = self.waiting.lock();
        if waiting.queue.add(job) {
            self.waits(&mut waiting, job);
        }
    }

    fn waits(&self, waiting: &mut Waiting, job: Uid) {
        waiting.since.insert(job, instant());
        self.metrics.queue.waiting(waiting.queue.len(), 1);
        self.changed.notify_one();
    }

    fn add_at(&self, job: Uid, due: Time) {
        self.waiting.lock().queue.add_at(job, due);
        self.metrics.queue.retried();
        // Whoever sleeps may now sleep too long.
        self.changed.notify_one();
    }

    fn add_rate_limited(&self, job: Uid, now: Time) {
        self.waiting.lock().queue.add_rate_limited(job, now);
        self.metrics.queue.retried();
        self.changed.notify_one();
    }

    fn done(&self, job: Uid, failed: bool) {
        let mut waiting = self.waiting.lock();
        if !failed {
            waiting.queue.forget(&job);
        }
        if waiting.queue.done(&job) {
            self.waits(&mut waiting, job);
        }
    }

    /// The next Job, if it is any Job's turn.
    fn take_one(&self, waiting: &mut Waiting) -> Option<Uid> {
        let before = waiting.queue.len();
        let job = waiting.queue.take(self.clock.now())?;
        let depth = waiting.queue.len();
        self.metrics
            .queue
            .waiting(depth, (depth + 1).saturating_sub(before));
        let since = waiting.since.remove(&job);
        let wait = since.map_or(Duration::ZERO, |since| instant() - since);
        self.metrics.queue.waited(wait);
        Some(job)
    }

    /// Waits for the next Job.
    async fn take(&self) -> Uid {
        loop {
            let changed = self.changed.notified();
            let (next, due, more) = {
                let mut waiting = self.waiting.lock();
                let next = self.take_one(&mut waiting);
                let queue = &waiting.queue;
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

impl Worker {
    /// Gives turns, for ever.
    pub(super) async fn run(self) {
        loop {
            let job = self.schedule.take().await;
            let failed = self.turn(job);
            self.schedule.done(job, failed);
            // A turn is computation: let those who wait for the network run between two.
            tokio::task::yield_now().await;
        }
    }

    /// Whether the turn failed.
    fn turn(&self, job: Uid) -> bool {
        let Some(cell) = self.store.cell(job) else {
            return false;
        };
        let now = self.schedule.clock.now();
        let seed = self.seed ^ (job.as_u128() as u64);
        let started = instant();
        let gangs = self.gangs.as_deref();
        let turn = actor::turn(&cell, &self.ownership, self.limits, seed, gangs, now);
        let took = instant() - started;
        self.metrics.turns.inc();
        self.metrics.queue.worked(took);
        for action in turn.handled_failures {
            self.metrics.jobs.failure_handled(action);
        }
        if let Some(sync) = turn.sync {
            self.metrics.jobs.sync(sync, took);
        }
        if turn.panicked {
            self.metrics.panics.inc();
            tracing::error!(job = ?cell.lock().key, "actor panicked; starting it anew");
            self.schedule.add_rate_limited(job, now);
            return true;
        }
        for report in turn.reports {
            let key = cell.lock().key.clone().unwrap_or_default();
            self.recorder
                .tell(About::Job, job, &key, &cell.told, report);
        }
        let idle = turn.writes.is_empty();
        self.writes.push(turn.writes);
        if turn.again {
            self.schedule.add(job);
        }
        if let Some(at) = turn.wake_at {
            self.schedule.add_at(job, at);
        } else if idle {
            self.store.close_if_empty(&cell);
        }
        false
    }
}
