//! Deletes finished Jobs when their time has come.
//!
//! Fed by the informer of Jobs; a Job that waits costs its place in the queue, nothing else, and
//! nobody goes through all of them.
//!
//! Must not: decide which Job goes when; that is [`Step`].

use std::sync::Arc;

use tokio::sync::watch;

use crate::{
    clock::Clock,
    model::{Exponential, Job, JobId},
    ownership::Mode,
    ttl::{Step, concerns},
    wire::{self, ApiError, ErrorKind, decode_job, paths},
};

use super::{
    queue_metrics::QueueMetrics,
    turns::{After, Turns},
    writer::Writer,
};

/// The work queue's name.
pub(super) const QUEUE: &str = "ttl_jobs_to_delete";

/// See the module's text.
#[derive(Debug)]
pub(super) struct Ttl {
    turns: Turns<Arc<JobId>>,
    mode: Mode,
    clock: Clock,
}

impl Ttl {
    pub(super) fn new(
        mode: Mode,
        backoff: Exponential,
        clock: Clock,
        metrics: QueueMetrics,
    ) -> Self {
        Self {
            turns: Turns::new(backoff, clock.clone(), metrics),
            mode,
            clock,
        }
    }

    /// Whether a Job's news are of interest. Instead of the built-in controllers any Job is cleaned
    /// up, whoever manages it; beside them only our own.
    pub(super) fn concerns(&self, job: &Job) -> bool {
        let ours = self.mode == Mode::Replace || self.mode.manages(job);
        ours && concerns(job)
    }

    /// The store has news of a Job that are of interest.
    pub(super) fn heard(&self, job: Arc<JobId>) {
        self.turns.add(job);
    }

    /// Works, for ever, once the caches are filled.
    pub(super) async fn run(self: Arc<Self>, writer: Writer, mut ready: watch::Receiver<bool>) {
        if ready.wait_for(|ready| *ready).await.is_err() {
            return;
        }
        loop {
            let job = self.turns.take().await;
            let after = self.turn(&job, &writer).await;
            self.turns.done(job, after);
        }
    }

    async fn turn(&self, job: &JobId, writer: &Writer) -> After {
        let Some(cell) = writer.store.cell(job) else {
            return After::Over;
        };
        let step = {
            let state = cell.lock();
            let known = state.job.as_ref().filter(|_| !state.gone);
            Step::after_look(known, self.clock.now().wall)
        };
        let step = match step {
            Step::GetFresh => match self.fresh(job, writer).await {
                Ok(fresh) => Step::after_answer(fresh.as_ref(), self.clock.now().wall),
                Err(error) => {
                    tracing::warn!(job = %job.key, %error, "no live look; not deleted yet");
                    Step::Retry
                }
            },
            other => other,
        };
        match step {
            Step::Leave => After::Over,
            Step::LookAt(at) => After::At(at),
            Step::Retry => After::Failed,
            // After an answer there is no second question.
            Step::GetFresh => After::Failed,
            Step::Delete { expired } => match delete(job, writer).await {
                Ok(()) => {
                    let late = self.clock.now().wall.since(expired);
                    writer.metrics.ttl_deletions.observe(late.as_secs_f64());
                    After::Over
                }
                Err(error) => {
                    tracing::warn!(job = %job.key, %error, "not deleted; to be tried again");
                    After::Failed
                }
            },
        }
    }

    /// The Job as the server has it. Another one under its name has turns of its own.
    async fn fresh(&self, job: &JobId, writer: &Writer) -> Result<Option<Job>, ApiError> {
        let path = paths::job(&job.key.namespace, &job.key.name);
        let answer = writer
            .call((&job.key.namespace, job.uid), "get", "jobs", || {
                writer.client.get(&path)
            })
            .await;
        let answer = match answer {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
            answer => answer?,
        };
        let json = String::from_utf8_lossy(&answer);
        let decoded = decode_job(&json)
            .map_err(|error| ApiError::no_answer(format!("odd answer: {error}")))?;
        Ok(Some(decoded.job).filter(|found| found.uid == job.uid))
    }
}

async fn delete(job: &JobId, writer: &Writer) -> Result<(), ApiError> {
    let path = paths::job(&job.key.namespace, &job.key.name);
    let options = wire::foreground_deletion(job.uid);
    writer
        .call((&job.key.namespace, job.uid), "delete", "jobs", || {
            writer.client.delete_with(&path, options.clone())
        })
        .await
        .map(drop)
}
