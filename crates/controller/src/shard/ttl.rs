//! Deletes finished Jobs when their TTL has expired.
//!
//! Handles Job events. A waiting Job costs only its entry in the queue, and there is no scan over all Jobs.
//!
//! Must not: decide which Job is deleted when, that is [`Step`]; or wait, or read a clock.

use std::sync::Arc;

use hashbrown::HashMap;

use lakh_core::ownership::Mode;
use lakh_core::ttl::{Step, concerns};
use lakh_model::{Exponential, Job, JobId, Now, Time, Timeout};
use lakh_wire::{self, ApiError, Call, ErrorKind, ExpectedAnswer, decode_job, paths};

use crate::{
    machine::CallResult,
    metrics::{measured_queue::MeasuredQueue, queues::QueueMetrics},
};

use super::outbox::{Caller, Named, Outbox};

/// Name of the work queue.
pub(super) const QUEUE: &str = "ttl_jobs_to_delete";

/// The TTL queue of a shard, and the syncs in flight.
#[derive(Debug)]
pub(super) struct Ttl {
    queue: MeasuredQueue<Arc<JobId>>,
    mode: Mode,
    /// Jobs with a sync that waits for a response.
    under_way: HashMap<Arc<JobId>, TtlCall>,
    /// The maximum number of concurrent syncs.
    concurrent: usize,
}

/// The purpose of a request.
#[derive(Debug)]
enum TtlCall {
    /// Reads the Job.
    Look,
    /// Deletes the Job.
    Deletion {
        /// When the TTL expired.
        expired: Time,
    },
}

impl Ttl {
    /// Creates it with an empty queue.
    pub(super) fn new(
        mode: Mode,
        backoff: Exponential,
        concurrent: usize,
        metrics: QueueMetrics,
    ) -> Self {
        Self {
            queue: MeasuredQueue::new(backoff, metrics),
            mode,
            under_way: HashMap::new(),
            concurrent,
        }
    }

    /// Returns true if the Job's events are relevant. In replacement of the built-in controllers all Jobs are cleaned
    /// up, whichever controller manages them; beside them only our own.
    pub(super) fn concerns(&self, job: &Job) -> bool {
        let ours = self.mode.replaces_built_in() || self.mode.manages(job);
        ours && concerns(job)
    }

    /// Queues a Job after a relevant event.
    pub(super) fn heard(&mut self, job: Arc<JobId>) {
        self.queue.add(job);
    }

    /// Starts the next sync. Returns false if none may start. `known` returns the cached Job, unless it is gone.
    /// Requires that Jobs are fully synced.
    pub(super) fn work(
        &mut self,
        known: impl FnOnce(&JobId) -> Option<Job>,
        outbox: &mut Outbox,
        now: Now,
    ) -> bool {
        if !self.may_begin() {
            return false;
        }
        let Some(job) = self.queue.take(now) else {
            return false;
        };
        let step = Step::after_look(known(&job).as_ref(), now.wall);
        self.go_on(&job, step, outbox, now);
        true
    }

    fn may_begin(&self) -> bool {
        self.under_way.len() < self.concurrent
    }

    /// Handles the response to a sync's request, and continues the sync.
    pub(super) fn answer(
        &mut self,
        job: &Arc<JobId>,
        result: CallResult,
        outbox: &mut Outbox,
        now: Now,
    ) {
        let Some(asked) = self.under_way.remove(job) else {
            return;
        };
        let step = match asked {
            TtlCall::Look => match fresh(job, result) {
                Ok(fresh) => Step::after_answer(fresh.as_ref(), now.wall),
                Err(error) => {
                    tracing::warn!(job = %job.key, %error, "could not re-read the finished Job before deleting it; will retry");
                    Step::Retry
                }
            },
            TtlCall::Deletion { expired } => match result {
                Ok(_) => {
                    let late = now.wall.since(expired);
                    outbox.metrics.ttl_deletions.observe(late.as_secs_f64());
                    Step::Leave
                }
                Err(error) => {
                    tracing::debug!(job = %job.key, %error, "could not delete a finished Job; will retry");
                    Step::Retry
                }
            },
        };
        self.go_on(job, step, outbox, now);
    }

    /// Runs the next step of a sync, which may be the last.
    fn go_on(&mut self, job: &Arc<JobId>, step: Step, outbox: &mut Outbox, now: Now) {
        match step {
            Step::GetFresh => {
                return self.ask(job, Named::get_job(&job.key), TtlCall::Look, outbox);
            }
            Step::Delete { expired } => {
                return self.ask(job, deletion(job), TtlCall::Deletion { expired }, outbox);
            }
            Step::Leave => self.queue.forget(job),
            Step::LookAt(at) => {
                self.queue.forget(job);
                self.queue.add_at(Arc::clone(job), at.into());
            }
            Step::Retry => self.queue.add_rate_limited(Arc::clone(job), now.monotonic),
        }
        self.queue.done(job);
    }

    fn ask(&mut self, job: &Arc<JobId>, named: Named, asked: TtlCall, outbox: &mut Outbox) {
        let caller = Caller::Ttl(Arc::clone(job));
        outbox.ask((&job.key.namespace, job.uid), named, caller);
        self.under_way.insert(Arc::clone(job), asked);
    }

    /// Returns when to call [`Ttl::work`] without any event.
    pub(super) fn poll_timeout(&self) -> Timeout {
        match self.may_begin() {
            true => self.queue.next_due(),
            false => Timeout::default(),
        }
    }
}

fn deletion(job: &JobId) -> Named {
    let path = paths::job(&job.key.namespace, &job.key.name);
    let options = lakh_wire::foreground_deletion(job.uid);
    let deletion = Call::delete_with(path, options);
    Named::new(
        "delete",
        "jobs",
        deletion,
        ExpectedAnswer::DeletionOf(job.uid),
    )
}

/// Decodes the Job from a GET. Another Job of the same name has syncs of its own.
fn fresh(job: &JobId, result: CallResult) -> Result<Option<Job>, ApiError> {
    let answer = match result {
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
        answer => answer?,
    };
    let decoded = decode_job(&String::from_utf8_lossy(&answer));
    let decoded = decoded.map_err(|error| ApiError::no_answer(format!("odd answer: {error}")))?;
    Ok(Some(decoded.job).filter(|found| found.uid == job.uid))
}
