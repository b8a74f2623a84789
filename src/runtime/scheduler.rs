//! Gives Jobs their turns: the work queue, and those who work it off.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};

use crate::{
    model::{Limits, Time, Uid},
    queue::WorkQueue,
};

use super::{actor, clock, events::Recorder, metrics::Metrics, store::Store, writer::WriteQueue};

/// The work queue, shared.
#[derive(Debug)]
pub(super) struct Schedule {
    queue: Mutex<WorkQueue<Uid>>,
    changed: Notify,
}

impl Schedule {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            queue: Mutex::new(WorkQueue::new(limits.retry_backoff)),
            changed: Notify::new(),
        }
    }

    /// A Job has something new to look at.
    pub(super) fn add(&self, job: Uid) {
        if self.queue.lock().add(job) {
            self.changed.notify_one();
        }
    }

    fn add_at(&self, job: Uid, due: Time) {
        self.queue.lock().add_at(job, due);
        // Whoever sleeps may now sleep too long.
        self.changed.notify_one();
    }

    fn add_rate_limited(&self, job: Uid, now: Time) {
        self.queue.lock().add_rate_limited(job, now);
        self.changed.notify_one();
    }

    fn done(&self, job: Uid, failed: bool) {
        let mut queue = self.queue.lock();
        if !failed {
            queue.forget(&job);
        }
        if queue.done(&job) {
            self.changed.notify_one();
        }
    }

    /// Waits for the next Job.
    async fn take(&self) -> Uid {
        loop {
            let changed = self.changed.notified();
            let (next, due, more) = {
                let mut queue = self.queue.lock();
                let next = queue.take(clock::now());
                (next, queue.next_due(), !queue.is_empty())
            };
            if let Some(job) = next {
                if more {
                    self.changed.notify_one();
                }
                return job;
            }
            match due {
                Some(due) => {
                    tokio::select! {
                        () = sleep(due.since(clock::now())) => {}
                        () = changed => {}
                    }
                }
                None => changed.await,
            }
        }
    }
}

/// What a worker needs.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) store: Arc<Store>,
    pub(super) schedule: Arc<Schedule>,
    pub(super) writes: Arc<WriteQueue>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) metrics: Arc<Metrics>,
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
        let now = clock::now();
        let seed = self.seed ^ (job.as_u128() as u64);
        let turn = actor::turn(&cell, self.limits, seed, now);
        self.metrics.turns.inc();
        if turn.panicked {
            self.metrics.panics.inc();
            tracing::error!(job = ?cell.lock().key, "actor panicked; starting it anew");
            self.schedule.add_rate_limited(job, now);
            return true;
        }
        for report in turn.reports {
            let key = cell.lock().key.clone().unwrap_or_default();
            self.recorder.job(job, &key, &cell.events, report);
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
