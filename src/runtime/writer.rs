//! Sends the writes of all Jobs: each Job in its turn, so many at once, so many a second.
//!
//! An answer goes back into the store as a fact and to the Job as an outcome. Only a write that a
//! busy server did not take (429) is repeated here, when the server said; any other failure is
//! the Job's to judge.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use compact_str::CompactString;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use crate::{
    clock::instant,
    cluster::{Client, Patch},
    decide::{CreateError, NewPod, Outcome, Report},
    model::{
        CompactIndex, GangObject, JobKey, JobStatus, PodFlags, PodGroup, PodName, PodRecord,
        PodSuffix, Slot, Uid,
    },
    queue::FairQueue,
    wire::{self, ApiError, Controller, ErrorKind, PodDecoder, PodTemplate, paths},
};

use super::{
    correlate::About,
    events::Recorder,
    gang::Gangs,
    metrics::Metrics,
    pace::Verb,
    progress::Progress,
    scheduler::Schedule,
    store::{Cell, Store},
    throttle::Throttle,
    window::{Place, Window},
};

/// How long to wait when a busy server did not say.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// A write that a Job asked for.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) cell: Arc<Cell>,
    pub(super) key: JobKey,
    pub(super) op: Op,
}

/// What is to be written.
#[derive(Debug)]
pub(super) enum Op {
    /// A new Pod.
    Create {
        template: Arc<Result<PodTemplate, String>>,
        pod: NewPod,
        /// The PodGroup that it is put into.
        group: Option<Arc<PodGroup>>,
        /// The word for it in metrics.
        why: &'static str,
    },
    /// The end of a Pod.
    Delete {
        slot: Slot,
        uid: Uid,
        name: CompactString,
    },
    /// A Pod without the finalizer.
    RemoveFinalizer {
        slot: Slot,
        uid: Uid,
        name: CompactString,
    },
    /// A new Workload or PodGroup.
    Gang(GangObject),
    /// The Job's status, on top of this version.
    Status {
        status: Box<JobStatus>,
        version: u64,
        /// What it tells more than that version.
        progress: Progress,
    },
}

/// The writes that wait.
#[derive(Debug)]
pub(super) struct WriteQueue {
    waiting: Mutex<FairQueue<Uid, Write>>,
    /// One permit for each write that waits.
    ready: Semaphore,
    metrics: Arc<Metrics>,
}

impl WriteQueue {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            waiting: Mutex::default(),
            ready: Semaphore::new(0),
            metrics,
        }
    }

    pub(super) fn push(&self, writes: Vec<Write>) {
        let count = writes.len();
        if count == 0 {
            return;
        }
        let mut waiting = self.waiting.lock();
        for write in writes {
            let urgent = matches!(write.op, Op::Status { .. });
            waiting.push(write.cell.uid, urgent, write);
        }
        drop(waiting);
        self.metrics
            .writes_pending
            .inc_by(i64::try_from(count).unwrap_or(i64::MAX));
        self.ready.add_permits(count);
    }

    async fn pop(&self) -> Write {
        loop {
            let permit = self
                .ready
                .acquire()
                .await
                .expect("the semaphore is never closed");
            permit.forget();
            if let Some(write) = self.waiting.lock().pop() {
                return write;
            }
        }
    }

    /// Forgets what waits: the Jobs ask again when the controller is back.
    pub(super) fn clear(&self) {
        *self.waiting.lock() = FairQueue::default();
    }
}

/// One of those who send; as many are as writes may be under way.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) store: Arc<Store>,
    pub(super) schedule: Arc<Schedule>,
    pub(super) queue: Arc<WriteQueue>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) throttle: Arc<Throttle>,
    pub(super) window: Arc<Window>,
    pub(super) metrics: Arc<Metrics>,
    /// The gangs, if they are asked for.
    pub(super) gangs: Option<Arc<Gangs>>,
    pub(super) finalizer: &'static str,
    /// Whether the controller stops.
    pub(super) stopping: watch::Receiver<bool>,
}

impl Writer {
    /// Sends writes until the controller stops; the one under way is finished.
    pub(super) async fn run(self) {
        loop {
            let write = tokio::select! {
                biased;
                () = self.stopped() => return,
                write = self.queue.pop() => write,
            };
            let outcome = self.perform(&write).await;
            self.metrics.writes_pending.dec();
            {
                let mut state = write.cell.lock();
                state.in_flight -= 1;
                state.outcomes.push(outcome);
            }
            self.schedule.add(write.cell.uid);
        }
    }

    /// Removes the finalizer of a Pod that has no Job.
    pub(super) async fn release_orphan(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        let path = paths::pod(namespace, name);
        let body = self.finalizer_patch();
        let result = self
            .call("patch", "pods", || {
                self.client.patch(&path, Patch::Strategic, body.clone())
            })
            .await;
        match result {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            other => other.map(drop),
        }
    }

    async fn perform(&self, write: &Write) -> Outcome {
        match &write.op {
            Op::Create {
                template,
                pod,
                group,
                why,
            } => {
                let group = group.as_ref().map(|group| group.name.as_str());
                let outcome = self.create(write, template, *pod, group).await;
                self.count_creation(why, &outcome);
                outcome
            }
            Op::Delete { slot, uid, name } => self.delete(write, *slot, *uid, name).await,
            Op::Gang(object) => self.make_gang_object(write, object).await,
            Op::RemoveFinalizer { slot, uid, name } => {
                self.remove_finalizer(write, *slot, *uid, name).await
            }
            Op::Status {
                status,
                version,
                progress,
            } => {
                let outcome = self.write_status(write, status, *version).await;
                if outcome == Outcome::StatusWritten {
                    self.metrics.jobs.progress(progress);
                }
                outcome
            }
        }
    }

    async fn create(
        &self,
        write: &Write,
        template: &Result<PodTemplate, String>,
        pod: NewPod,
        group: Option<&str>,
    ) -> Outcome {
        let NewPod {
            index,
            suffix,
            failures,
            doubtful,
            reason: _,
        } = pod;
        let key = &write.key;
        let template = match template {
            Ok(template) => template,
            Err(message) => {
                tracing::warn!(job = %key, message, "template makes no Pods");
                return Outcome::PodNotCreated(suffix, CreateError::Refused);
            }
        };
        let (name, body) = template.pod(index, failures, suffix, group);
        let body = Bytes::from(body);
        let path = paths::pods(Some(&key.namespace));
        let result = self
            .call("create", "pods", || self.client.create(&path, body.clone()))
            .await;
        let error = match result {
            Ok(answer) => {
                self.report_pod(
                    write,
                    Report::normal("SuccessfulCreate", &format!("Created pod: {name}")),
                );
                return self.created(write, &answer, &name, index, suffix);
            }
            Err(error) => error,
        };
        let why = why_not_created(error.kind);
        if why == CreateError::NameTaken && doubtful {
            return self.settle_doubt(write, &name, index, suffix).await;
        }
        if matches!(why, CreateError::Refused | CreateError::Unknown) {
            tracing::debug!(job = %key, pod = name, %error, "Pod not created");
            self.report_failure(write, "FailedCreate", &format!("Error creating: {error}"));
        }
        Outcome::PodNotCreated(suffix, why)
    }

    fn count_creation(&self, why: &'static str, outcome: &Outcome) {
        let succeeded = matches!(outcome, Outcome::PodCreated(_));
        let hopeless = CreateError::NamespaceTerminating;
        if !matches!(outcome, Outcome::PodNotCreated(_, error) if *error == hopeless) {
            self.metrics.jobs.pod_creation(why, succeeded);
        }
    }

    /// Takes in the answer to a creation.
    fn created(
        &self,
        write: &Write,
        answer: &[u8],
        name: &str,
        index: Option<u32>,
        suffix: PodSuffix,
    ) -> Outcome {
        let Some((uid, version, deleting)) = wire::ack_of_write(answer) else {
            // The watch will tell.
            return Outcome::PodNotCreated(suffix, CreateError::Unknown);
        };
        let flags = PodFlags::default()
            .with(PodFlags::FINALIZER, true)
            .with(PodFlags::DELETING, deleting);
        let record = PodRecord {
            uid,
            name: PodName::new(&write.key.name, name),
            resource_version: version,
            index: index.and_then(CompactIndex::new),
            flags,
            ..PodRecord::default()
        };
        self.store
            .pod_created(&write.cell, &write.key.namespace, record);
        Outcome::PodCreated(suffix)
    }

    /// The name of a Pod that may or may not have been created is taken: by that Pod?
    async fn settle_doubt(
        &self,
        write: &Write,
        name: &str,
        index: Option<u32>,
        suffix: PodSuffix,
    ) -> Outcome {
        let path = paths::pod(&write.key.namespace, name);
        let Ok(answer) = self.call("get", "pods", || self.client.get(&path)).await else {
            return Outcome::PodNotCreated(suffix, CreateError::Unknown);
        };
        let pod = std::str::from_utf8(&answer).ok().and_then(|json| {
            PodDecoder {
                finalizer: self.finalizer,
            }
            .decode(wire::Object::Json(json))
            .ok()
        });
        match pod.map(|pod| pod.controller) {
            Some(Controller::Job { uid, .. }) if uid == write.cell.uid => {
                self.created(write, &answer, name, index, suffix)
            }
            Some(_) => Outcome::PodNotCreated(suffix, CreateError::NameTaken),
            None => Outcome::PodNotCreated(suffix, CreateError::Unknown),
        }
    }

    async fn delete(&self, write: &Write, slot: Slot, uid: Uid, name: &str) -> Outcome {
        let path = paths::pod(&write.key.namespace, name);
        match self
            .call("delete", "pods", || self.client.delete(&path))
            .await
        {
            Ok(answer) => {
                let version = wire::ack_of_write(&answer).map(|(_, version, _)| version);
                self.deleting(write, slot, uid, version);
                self.report_pod(
                    write,
                    Report::normal("SuccessfulDelete", &format!("Deleted pod: {name}")),
                );
                Outcome::PodDeleted(slot)
            }
            Err(error) if error.kind == ErrorKind::NotFound => {
                self.deleting(write, slot, uid, None);
                Outcome::PodDeleted(slot)
            }
            Err(error) => {
                self.report_failure(write, "FailedDelete", &format!("Error deleting: {error}"));
                Outcome::PodNotDeleted(slot)
            }
        }
    }

    fn deleting(&self, write: &Write, slot: Slot, uid: Uid, version: Option<u64>) {
        self.store
            .pod_written(&write.cell, slot, uid, version, |pod| {
                pod.flags.set(PodFlags::DELETING, true);
            });
    }

    async fn remove_finalizer(&self, write: &Write, slot: Slot, uid: Uid, name: &str) -> Outcome {
        let path = paths::unchecked(paths::pod(&write.key.namespace, name));
        let body = self.finalizer_patch();
        let result = self
            .call("patch", "pods", || {
                self.client.patch(&path, Patch::Strategic, body.clone())
            })
            .await;
        let version = match result {
            Ok(answer) => wire::ack_of_write(&answer).map(|(_, version, _)| version),
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => {
                tracing::debug!(job = %write.key, pod = name, %error, "finalizer not removed");
                return Outcome::FinalizerNotRemoved(slot);
            }
        };
        self.store
            .pod_written(&write.cell, slot, uid, version, |pod| {
                pod.flags.set(PodFlags::FINALIZER, false);
            });
        Outcome::FinalizerRemoved(slot)
    }

    async fn write_status(&self, write: &Write, status: &JobStatus, version: u64) -> Outcome {
        let path = paths::job_status(&write.key.namespace, &write.key.name);
        let body = Bytes::from(wire::status_patch(status, write.cell.uid, version));
        let result = self
            .call("patch", "jobs/status", || {
                self.client.patch(&path, Patch::Merge, body.clone())
            })
            .await;
        match result {
            Ok(answer) => {
                if let Some((_, version, _)) = wire::ack_of_write(&answer) {
                    Store::job_status_written(&write.cell, status.clone(), version);
                }
                Outcome::StatusWritten
            }
            Err(error) => {
                match error.kind {
                    ErrorKind::Conflict | ErrorKind::NotFound => {
                        tracing::debug!(job = %write.key, %error, "status not written");
                    }
                    _ => tracing::warn!(job = %write.key, %error, "status not written"),
                }
                Outcome::StatusNotWritten
            }
        }
    }

    /// The patch that takes the finalizer off a Pod.
    fn finalizer_patch(&self) -> Bytes {
        let finalizer = self.finalizer;
        format!(r#"{{"metadata":{{"$deleteFromPrimitiveList/finalizers":["{finalizer}"]}}}}"#)
            .into()
    }

    /// Tells of a call that failed, unless it was us who gave up.
    fn report_failure(&self, write: &Write, reason: &str, message: &str) {
        if !*self.stopping.borrow() {
            self.report_pod(write, Report::warning(reason, message));
        }
    }

    fn report_pod(&self, write: &Write, report: Report) {
        let (cell, key) = (&write.cell, &write.key);
        self.recorder
            .tell(About::Pod, cell.uid, key, &cell.told, report);
    }

    async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        // It fails only when the controller was dropped.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Makes a call, when it may be made; again, while the server is too busy to take it. A
    /// controller that stops does not wait for that.
    pub(super) async fn call<T, F: Future<Output = Result<T, ApiError>>>(
        &self,
        verb: &'static str,
        resource: &'static str,
        call: impl Fn() -> F,
    ) -> Result<T, ApiError> {
        loop {
            let place = tokio::select! {
                biased;
                () = self.stopped() => return Err(ApiError::no_answer("the controller stops")),
                place = self.may_call() => place,
            };
            let sent = instant();
            let result = call().await;
            let code = result.as_ref().map_or_else(|error| error.code, |_| 200);
            self.metrics.call(verb, resource, code);
            match result {
                Err(error) if error.kind == ErrorKind::Busy => {
                    place.refused();
                    self.throttle.pause(error.retry_after.unwrap_or(BUSY_PAUSE));
                }
                Ok(answer) => {
                    place.taken(Verb::of(verb), sent);
                    return Ok(answer);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn may_call(&self) -> Place<'_> {
        let place = self.window.enter().await;
        self.throttle.pass().await;
        place
    }
}

/// What an error means for a creation.
pub(super) fn why_not_created(kind: ErrorKind) -> CreateError {
    match kind {
        ErrorKind::AlreadyExists => CreateError::NameTaken,
        ErrorKind::NamespaceTerminating => CreateError::NamespaceTerminating,
        ErrorKind::Failed => CreateError::Unknown,
        ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::Expired
        | ErrorKind::Busy
        | ErrorKind::Refused => CreateError::Refused,
    }
}
