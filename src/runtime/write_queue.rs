//! The line in which writes wait, those of Jobs and those of everybody else in the controller, and the
//! places of those that are under way.
//!
//! Who sends comes here for the next write when it can send one, so that the line decides as late as
//! it can. Whoever makes a call of its own waits in the same line for a place.
//!
//! Must not: know what writes are made of, or what becomes of one that was refused.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use compact_str::CompactString;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::sleep,
};

use crate::{
    clock::instant,
    model::Uid,
    queue::{Answer, FairQueue, Rank},
    wire::{ApiError, ErrorKind},
};

use super::{lull::Lull, metrics::Metrics, throttle::Throttle, writer::Write};

/// How long to wait when a busy server did not say: what kube-apiserver says.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// See the module's text.
#[derive(Debug)]
pub(super) struct WriteQueue {
    state: Mutex<State>,
    /// A write came, or a place was freed.
    changed: Notify,
    /// Whoever has it waits for the next write; the others wait for it.
    turnstile: tokio::sync::Mutex<()>,
    throttle: Arc<Throttle>,
    lull: Lull,
    metrics: Arc<Metrics>,
    began: Instant,
}

#[derive(Debug)]
struct State {
    line: FairQueue<CompactString, Uid, Waiting>,
    /// How long answers took of late.
    took: Duration,
    /// Nobody waits any more.
    closed: bool,
}

/// Who waits.
#[derive(Debug)]
enum Waiting {
    /// A Job's write.
    Write(Write),
    /// Somebody who makes a call when it has a place.
    Caller(oneshot::Sender<Place>),
}

/// The place of a call that is under way, for as long as it is.
#[derive(Debug)]
pub(super) struct Place {
    queue: Arc<WriteQueue>,
    namespace: CompactString,
    owner: Uid,
    answer: Answer,
}

impl WriteQueue {
    /// A line in which at most so many writes are under way at once, that says how long to rest between
    /// answers.
    pub(super) fn new(
        max: usize,
        throttle: Arc<Throttle>,
        lull: Lull,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            state: Mutex::new(State {
                line: FairQueue::new(max),
                took: Duration::ZERO,
                closed: false,
            }),
            changed: Notify::new(),
            turnstile: tokio::sync::Mutex::new(()),
            throttle,
            lull,
            metrics,
            began: instant(),
        }
    }

    /// Adds what a Job wants to be written.
    pub(super) fn push(&self, writes: Vec<Write>) {
        if writes.is_empty() {
            return;
        }
        let count = i64::try_from(writes.len()).unwrap_or(i64::MAX);
        {
            let mut state = self.state.lock();
            for write in writes {
                let (namespace, job) = write.lane();
                let rank = write.rank();
                state
                    .line
                    .push(&namespace, &job, rank, Waiting::Write(write));
            }
        }
        self.metrics.writes_pending.inc_by(count);
        self.changed.notify_one();
    }

    /// Puts a write back that the server was too busy to take.
    pub(super) fn put_back(&self, write: Write) {
        let (namespace, job) = write.lane();
        let write = Waiting::Write(write);
        self.state.lock().line.put_back(&namespace, &job, write);
        self.changed.notify_one();
    }

    /// A write has become an outcome.
    pub(super) fn finished(&self) {
        self.metrics.writes_pending.dec();
    }

    /// Waits for the next write and its place. Whoever else is next meanwhile gets a place, too.
    pub(super) async fn next(self: &Arc<Self>) -> (Write, Place) {
        let _turnstile = self.turnstile.lock().await;
        loop {
            self.throttle.pass().await;
            let (namespace, owner, waiting) = self.pop().await;
            let place = Place {
                queue: Arc::clone(self),
                namespace,
                owner,
                answer: Answer::Other,
            };
            match waiting {
                // Its Job is known anew, and asks anew.
                Waiting::Write(write) if write.cell.is_closed() => self.finished(),
                Waiting::Write(write) => return (write, place),
                // One that no longer waits gives it back by dropping it.
                Waiting::Caller(caller) => drop(caller.send(place)),
            }
        }
    }

    /// Waits until somebody may go.
    async fn pop(&self) -> (CompactString, Uid, Waiting) {
        loop {
            // Before the look, so that nothing is missed that comes after it.
            let changed = self.changed.notified();
            let due = {
                let mut state = self.state.lock();
                let now = self.now();
                if let Some(next) = state.line.pop(now) {
                    return next;
                }
                state.line.next_due(now).map(|due| due - now)
            };
            match due {
                Some(due) => tokio::select! {
                    () = sleep(due) => {}
                    () = changed => {}
                },
                None => changed.await,
            }
        }
    }

    /// Waits for a place for a call about an object of this owner; none when the controller stops.
    pub(super) async fn enter(&self, namespace: &str, owner: Uid) -> Option<Place> {
        let (caller, place) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if state.closed {
                return None;
            }
            let caller = Waiting::Caller(caller);
            state
                .line
                .push(&namespace.into(), &owner, Rank::Urgent, caller);
        }
        self.changed.notify_one();
        place.await.ok()
    }

    /// Forgets what waits: the Jobs ask again when the controller is back.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.line.clear(self.now());
    }

    fn now(&self) -> Duration {
        instant().saturating_duration_since(self.began)
    }
}

impl Place {
    /// How a call ended that was sent at this time.
    pub(super) fn answered<T>(&mut self, result: &Result<T, ApiError>, sent: Instant) {
        self.answer = match result {
            Ok(_) => Answer::Taken,
            Err(error) if error.kind == ErrorKind::Busy => {
                Answer::Busy(error.retry_after.unwrap_or(BUSY_PAUSE))
            }
            Err(error) => error.retry_after.map_or(Answer::Other, Answer::Denied),
        };
        let mut state = self.queue.state.lock();
        state.took = (state.took * 7 + sent.elapsed()) / 8;
        self.queue.lull.adapt(state.took, state.line.under_way());
    }

    /// Whether the server was too busy to take it.
    pub(super) fn was_refused(&self) -> bool {
        matches!(self.answer, Answer::Busy(_))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let queue = &self.queue;
        {
            let mut state = queue.state.lock();
            let now = queue.now();
            let line = &mut state.line;
            line.done(&self.namespace, &self.owner, self.answer, now);
            if line.under_way() == 0 {
                // The next write may be one that somebody waits for.
                queue.lull.adapt(Duration::ZERO, 0);
            }
        }
        queue.changed.notify_one();
    }
}
