//! Sends the writes of all Jobs, each when the line says that it is its turn.
//!
//! An answer goes back into the store as a fact and to the Job as an outcome. Only a write that a
//! busy server did not take is repeated here, a few times; any other failure is the Job's to judge.

use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use tokio::sync::watch;

use crate::{
    clock::instant,
    cluster::{Client, Patch},
    decide::{CreateError, CreationReason, NewPod, Outcome, Report},
    model::{
        CompactIndex, Controller, GangObject, JobKey, JobStatus, PodFlags, PodGroup, PodName,
        PodRecord, PodSuffix, Slot, Uid,
    },
    ownership::Orphan,
    queue::Rank,
    wire::{self, ApiError, ErrorKind, PodDecoder, PodTemplate, paths},
};

use super::{
    correlate::About,
    events::Recorder,
    gang::Gangs,
    metrics::Metrics,
    progress::Progress,
    quota::QuotaWaits,
    scheduler::Schedule,
    store::{Cell, Store},
    write_queue::{Place, WriteQueue},
};

/// So many times in a row a busy server is asked again; then it is a failure that people are told of. The
/// standard client asks ten times, and holds up all else of the Job meanwhile.
const ASKED_AGAIN: u32 = 5;

/// A write that a Job asked for.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) cell: Arc<Cell>,
    pub(super) op: Op,
    /// How many times a busy server did not take it.
    pub(super) refusals: u32,
}

impl Write {
    /// Whose turn it waits for.
    pub(super) fn lane(&self) -> (CompactString, Uid) {
        (self.job().namespace.clone(), self.cell.id.uid)
    }

    /// Which Job asked for it.
    pub(super) fn job(&self) -> &JobKey {
        &self.cell.id.key
    }

    /// In which order it goes among the Job's.
    pub(super) fn rank(&self) -> Rank {
        match self.op {
            Op::Status { .. } => Rank::Urgent,
            Op::RemoveFinalizer(_) => Rank::Ends,
            Op::Create { .. } | Op::Delete(_) | Op::Gang(_) => Rank::Usual,
        }
    }

    /// Whether it is sent again after this error, without a word to anybody.
    pub(super) fn comes_again(&self, error: &ApiError) -> bool {
        error.kind == ErrorKind::Busy && self.refusals < ASKED_AGAIN
    }
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
    },
    /// The end of a Pod.
    Delete(WrittenPod),
    /// A Pod without the finalizer.
    RemoveFinalizer(WrittenPod),
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

/// The Pod that is written to.
#[derive(Debug)]
pub(super) struct WrittenPod {
    pub(super) slot: Slot,
    pub(super) uid: Uid,
    pub(super) name: CompactString,
}

/// One of those who send; as many are as writes may be under way.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) store: Arc<Store>,
    pub(super) schedule: Arc<Schedule>,
    pub(super) queue: Arc<WriteQueue>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) quota_waits: Arc<QuotaWaits>,
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
            let (mut write, mut place) = tokio::select! {
                biased;
                () = self.stopped() => return,
                next = self.queue.next() => next,
            };
            let outcome = self.perform(&write, &mut place).await;
            if place.was_refused() && write.refusals < ASKED_AGAIN && !*self.stopping.borrow() {
                write.refusals += 1;
                // Before the place is free, or another of the Job's writes would have it.
                self.queue.put_back(write);
                continue;
            }
            drop(place);
            if let Op::Create { pod, .. } = &write.op {
                self.count_creation(pod.reason, &outcome);
            }
            self.queue.finished();
            {
                let mut state = write.cell.lock();
                state.in_flight -= 1;
                state.outcomes.push(outcome);
            }
            self.schedule.add(Arc::clone(&write.cell.id));
        }
    }

    /// Removes the finalizer of a Pod that has no Job.
    pub(super) async fn release_orphan(&self, orphan: &Orphan) -> Result<(), ApiError> {
        let path = paths::pod(&orphan.namespace, &orphan.name);
        let body = Bytes::from(wire::freeing_patch(orphan.uid, self.finalizer));
        let result = self
            .call((&orphan.namespace, orphan.uid), "patch", "pods", || {
                self.client.patch(&path, Patch::Strategic, body.clone())
            })
            .await;
        match result {
            Err(error) if error.is_of_no_such_object() => Ok(()),
            other => other.map(drop),
        }
    }

    async fn perform(&self, write: &Write, place: &mut Place) -> Outcome {
        match &write.op {
            Op::Create {
                template,
                pod,
                group,
            } => {
                let group = group.as_ref().map(|group| group.name.as_str());
                self.create(write, place, template, *pod, group).await
            }
            Op::Delete(pod) => self.delete(write, place, pod).await,
            Op::Gang(object) => self.make_gang_object(write, place, object).await,
            Op::RemoveFinalizer(pod) => self.remove_finalizer(write, place, pod).await,
            Op::Status {
                status,
                version,
                progress,
            } => {
                let outcome = self.write_status(write, place, status, *version).await;
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
        place: &mut Place,
        template: &Result<PodTemplate, String>,
        pod: NewPod,
        group: Option<&str>,
    ) -> Outcome {
        let NewPod {
            index,
            suffix,
            failures,
            reason: _,
        } = pod;
        let key = write.job();
        let template = match template {
            Ok(template) => template,
            Err(message) => {
                tracing::warn!(job = %key, message, "template makes no Pods");
                return Outcome::PodNotCreated(suffix, CreateError::Refused);
            }
        };
        let (name, body) = template.pod(index, failures, suffix, group);
        let path = paths::pods(Some(&key.namespace));
        let creation = self.client.create(&path, body);
        let result = self.send(place, "create", "pods", creation).await;
        let error = match result {
            Ok(answer) => {
                self.report_pod(
                    write,
                    Report::normal("SuccessfulCreate", &format!("Created pod: {name}")),
                );
                if let Some(what) = template.lacks(&answer) {
                    // The watch will tell of it. To make the next at once would make such Pods without end.
                    let message = format!(
                        "Error creating: pod {name:?} was changed on its way in and lacks its {what}"
                    );
                    self.report_pod(write, Report::warning("FailedCreate", &message));
                    return Outcome::PodNotCreated(suffix, CreateError::Refused);
                }
                return self.created(write, &answer, &name, index, suffix);
            }
            Err(error) => error,
        };
        let mut why = why_not_created(&error);
        if why == CreateError::NameTaken {
            if error.message.contains(&*name) {
                return self.name_taken(write, place, &name, index, suffix).await;
            }
            // Those are not the server's words: an admission webhook chose this reason.
            why = CreateError::Refused;
        }
        let (namespace, job) = (&key.namespace, write.cell.id.uid);
        let wait = self.quota_waits.refused(namespace, job, &error);
        if let Some(wait) = wait.or(error.retry_after)
            && why == CreateError::Refused
        {
            why = CreateError::RefusedFor(wait);
        }
        if why.is_failure() {
            tracing::debug!(job = %key, pod = name, %error, "Pod not created");
            self.report_failure(write, "FailedCreate", "creating", &error);
        }
        Outcome::PodNotCreated(suffix, why)
    }

    fn count_creation(&self, why: CreationReason, outcome: &Outcome) {
        let succeeded = matches!(outcome, Outcome::PodCreated(_));
        let hopeless = CreateError::NamespaceTerminating;
        if !matches!(outcome, Outcome::PodNotCreated(_, error) if *error == hopeless) {
            self.metrics.jobs.pod_creation(why.word(), succeeded);
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
            name: PodName::new(&write.job().name, name),
            resource_version: version,
            index: index.and_then(CompactIndex::new),
            flags,
            ..PodRecord::default()
        };
        self.quota_waits
            .created(&write.job().namespace, write.cell.id.uid);
        self.store.pod_created(&write.cell, record);
        Outcome::PodCreated(suffix)
    }

    /// The name of a Pod is taken: by that Pod? It may have been created by an earlier attempt that had no
    /// answer, or by this one, if something on the way to the server has sent it twice.
    async fn name_taken(
        &self,
        write: &Write,
        place: &mut Place,
        name: &str,
        index: Option<u32>,
        suffix: PodSuffix,
    ) -> Outcome {
        let path = paths::pod(&write.job().namespace, name);
        let look = self.client.get(&path);
        let Ok(answer) = self.send(place, "get", "pods", look).await else {
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
            Some(Controller::Job(job)) if job == *write.cell.id => {
                self.created(write, &answer, name, index, suffix)
            }
            Some(_) => Outcome::PodNotCreated(suffix, CreateError::NameTaken),
            None => Outcome::PodNotCreated(suffix, CreateError::Unknown),
        }
    }

    async fn delete(
        &self,
        write: &Write,
        place: &mut Place,
        &WrittenPod {
            slot,
            uid,
            ref name,
        }: &WrittenPod,
    ) -> Outcome {
        let path = paths::pod(&write.job().namespace, name);
        let deletion = self.client.delete_with(&path, wire::exact_deletion(uid));
        match self.send(place, "delete", "pods", deletion).await {
            Ok(answer) => {
                let version = wire::ack_of_write(&answer).map(|(_, version, _)| version);
                self.deleting(write, slot, uid, version);
                self.report_pod(
                    write,
                    Report::normal("SuccessfulDelete", &format!("Deleted pod: {name}")),
                );
                Outcome::PodDeleted(slot)
            }
            Err(error) if error.is_of_no_such_object() => {
                self.deleting(write, slot, uid, None);
                Outcome::PodDeleted(slot)
            }
            Err(error) => {
                self.report_failure(write, "FailedDelete", "deleting", &error);
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

    async fn remove_finalizer(
        &self,
        write: &Write,
        place: &mut Place,
        &WrittenPod {
            slot,
            uid,
            ref name,
        }: &WrittenPod,
    ) -> Outcome {
        let path = paths::unchecked(paths::pod(&write.job().namespace, name));
        let body = wire::freeing_patch(uid, self.finalizer);
        let patch = self.client.patch(&path, Patch::Strategic, body);
        let result = self.send(place, "patch", "pods", patch).await;
        let version = match result {
            Ok(answer) => wire::ack_of_write(&answer).map(|(_, version, _)| version),
            Err(error) if error.is_of_no_such_object() => None,
            Err(error) => {
                tracing::debug!(job = %write.job(), pod = %name, %error, "finalizer not removed");
                if error.code != 0 {
                    let what = "removing the tracking finalizer of a Pod";
                    self.report_failure(write, "FailedRemoveFinalizer", what, &error);
                }
                return Outcome::FinalizerNotRemoved(slot);
            }
        };
        self.store
            .pod_written(&write.cell, slot, uid, version, |pod| {
                pod.flags.set(PodFlags::FINALIZER, false);
            });
        Outcome::FinalizerRemoved(slot)
    }

    async fn write_status(
        &self,
        write: &Write,
        place: &mut Place,
        status: &JobStatus,
        version: u64,
    ) -> Outcome {
        let path = paths::job_status(&write.job().namespace, &write.job().name);
        let body = wire::status_patch(status, write.cell.id.uid, version);
        let patch = self.client.patch(&path, Patch::Merge, body);
        let result = self.send(place, "patch", "jobs/status", patch).await;
        match result {
            Ok(answer) => {
                if let Some((_, version, _)) = wire::ack_of_write(&answer) {
                    Store::job_status_written(&write.cell, status.clone(), version);
                }
                Outcome::StatusWritten
            }
            Err(error) => {
                match error.kind {
                    ErrorKind::Conflict => {
                        tracing::debug!(job = %write.job(), %error, "status not written");
                        self.compare_histories(write, place, version).await;
                    }
                    ErrorKind::NotFound => {
                        tracing::debug!(job = %write.job(), %error, "status not written");
                    }
                    ErrorKind::Busy if write.comes_again(&error) => {}
                    _ => {
                        tracing::warn!(job = %write.job(), %error, "status not written");
                        if error.code != 0 {
                            let what = "updating the Job's status";
                            self.report_failure(write, "FailedUpdateStatus", what, &error);
                        }
                    }
                }
                Outcome::StatusNotWritten
            }
        }
    }

    /// The server does not have the version of a Job that it told: it has a newer one, or its data are
    /// those of a backup.
    async fn compare_histories(&self, write: &Write, place: &mut Place, version: u64) {
        let history = self.store.history.number();
        let path = paths::job(&write.job().namespace, &write.job().name);
        let answer = self
            .send(place, "get", "jobs", self.client.get(&path))
            .await;
        let found = answer.ok().and_then(|answer| wire::ack_of_write(&answer));
        let Some((uid, found, _)) = found else { return };
        if uid == write.cell.id.uid && found < version && !write.cell.is_closed() {
            tracing::warn!(job = %write.job(), found, version, "the API server has older data; starting anew");
            self.store.history.ends(history);
        }
    }

    /// Tells of a write that failed, unless it comes again by itself or it was us who gave up.
    fn report_failure(&self, write: &Write, reason: &str, what: &str, error: &ApiError) {
        if !write.comes_again(error) && !*self.stopping.borrow() {
            let message = format!("Error {what}: {error}");
            self.report_pod(write, Report::warning(reason, &message));
        }
    }

    fn report_pod(&self, write: &Write, report: Report) {
        let (cell, key) = (&write.cell, write.job());
        self.recorder
            .tell(About::Pod, cell.id.uid, key, &cell.told, report);
    }

    async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        // It fails only when the controller was dropped.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    /// Makes a call about an object in a namespace that has this UID, or whose owner has, when it is its
    /// turn; a few times, while the server is too busy to take it.
    pub(super) async fn call<T, F: Future<Output = Result<T, ApiError>>>(
        &self,
        (namespace, owner): (&str, Uid),
        verb: &'static str,
        resource: &'static str,
        call: impl Fn() -> F,
    ) -> Result<T, ApiError> {
        let mut refusals = 0;
        loop {
            let Some(mut place) = self.queue.enter(namespace, owner).await else {
                return Err(ApiError::no_answer("the controller stops"));
            };
            let result = self.send(&mut place, verb, resource, call()).await;
            if !place.was_refused() || refusals == ASKED_AGAIN {
                return result;
            }
            refusals += 1;
        }
    }

    /// Makes a call that has its place.
    pub(super) async fn send<T>(
        &self,
        place: &mut Place,
        verb: &'static str,
        resource: &'static str,
        call: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let sent = instant();
        let result = call.await;
        let code = result.as_ref().map_or_else(|error| error.code, |_| 200);
        self.metrics.call(verb, resource, code);
        place.answered(&result, sent);
        result
    }
}

/// What an error means for a creation.
pub(super) fn why_not_created(error: &ApiError) -> CreateError {
    match error.kind {
        ErrorKind::AlreadyExists => CreateError::NameTaken,
        ErrorKind::NamespaceTerminating => CreateError::NamespaceTerminating,
        ErrorKind::Failed => CreateError::Unknown,
        ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::Expired
        | ErrorKind::Ahead
        | ErrorKind::Busy
        | ErrorKind::TooManyRequests
        | ErrorKind::Refused => CreateError::Refused,
    }
}
