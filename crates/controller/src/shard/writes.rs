//! Builds the requests of Jobs' writes, and handles their responses.
//!
//! A response updates the store, and the Job gets an outcome. Only a write that a busy server rejected is retried by
//! the [`Outbox`](super::outbox::Outbox). Any other failure is left to the Job.
//!
//! Must not: decide when a write is sent, or whether it is repeated.

use std::{sync::Arc, time::Duration};

use compact_str::CompactString;

use lakh_core::decide::{CreateError, CreationReason, NewPod, Outcome, Report};
use lakh_core::flow::Rank;
use lakh_model::{
    CompactIndex, Controller, GangObject, JobId, JobStatus, Monotonic, Now, PodFlags, PodGroup,
    PodName, PodRecord, Slot, Uid,
};
use lakh_wire::{
    self, ApiError, Call, ErrorKind, ExpectedAnswer, Patch, PodDecoder, PodMarks, PodTemplate,
    paths,
};

use crate::{
    machine::CallResult,
    metrics::{Metrics, progress::Progress},
};

use super::{Shard, correlate::About, gangs::Gangs, outbox::Named, store::ActorKey};

/// The failed actions in Events.
const FINALIZER_REMOVAL: &str = "removing the tracking finalizer of a Pod";
const STATUS_UPDATE: &str = "updating the Job's status";

/// The time without responses after which a Warning reports failed status updates and finalizer removals. An API server
/// that restarts is back sooner, and such writes are retried.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// A write of a Job.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) actor: ActorKey,
    pub(super) job: Arc<JobId>,
    pub(super) op: Op,
    pub(super) step: WriteStep,
}

/// The progress of a write.
#[derive(Debug, Default)]
pub(super) enum WriteStep {
    /// Queued.
    #[default]
    Asked,
    /// In flight.
    Sent,
    /// Reading the Job's template, to create a Pod from it.
    Reading,
    /// Creating the Pod with this name, which must have these marks.
    Creating(String, Arc<PodMarks>),
    /// The name is taken; reading the Pod that has it.
    Looking,
    /// The server refused the status with a conflict; reading the Job.
    Comparing(Box<ApiError>),
    /// The server refused the patch with a conflict; reading the Pod.
    Refreshing(Box<ApiError>),
}

/// The kind of a write.
#[derive(Debug)]
pub(super) enum Op {
    /// Creates a Pod.
    Create {
        pod: NewPod,
        /// The PodGroup of the Pod.
        group: Option<Arc<PodGroup>>,
    },
    /// Deletes a Pod.
    Delete(WrittenPod),
    /// Removes a Pod's finalizer. With a version, only if the Pod is unchanged: it goes uncounted.
    RemoveFinalizer(WrittenPod, Option<u64>),
    /// Creates a Workload or a PodGroup.
    Gang(GangObject),
    /// Writes the Job's status on top of this version.
    Status {
        status: Box<JobStatus>,
        version: u64,
        /// The progress since that version.
        progress: Progress,
    },
}

impl Op {
    /// Returns its priority among the Job's writes.
    pub(super) fn rank(&self) -> Rank {
        match self {
            Self::Status { .. } => Rank::Urgent,
            Self::RemoveFinalizer(..) => Rank::Ends,
            Self::Create { .. } | Self::Delete(_) | Self::Gang(_) => Rank::Usual,
        }
    }
}

/// The target of a write to a Pod.
#[derive(Clone, Debug)]
pub(super) struct WrittenPod {
    pub(super) slot: Slot,
    pub(super) uid: Uid,
    pub(super) name: CompactString,
}

/// The next step after a response.
#[derive(Debug)]
pub(super) enum Next {
    /// The write is done.
    Over(Outcome),
    /// The write needs one more request, and continues with this step.
    Call(Named, WriteStep),
}

impl Write {
    pub(super) fn new(actor: ActorKey, job: &Arc<JobId>, op: Op) -> Self {
        Self {
            actor,
            job: Arc::clone(job),
            op,
            step: WriteStep::Asked,
        }
    }

    /// Builds the request; none if that is impossible. A creation needs the Job's template.
    pub(super) fn call(
        &mut self,
        gangs: Option<&Gangs>,
        finalizer: &str,
        template: Option<&Result<PodTemplate, String>>,
    ) -> Option<Named> {
        let key = &self.job.key;
        self.step = WriteStep::Sent;
        Some(match &self.op {
            Op::Create { pod, group } => {
                let (named, step) = self.creation(template?, *pod, group.as_deref())?;
                self.step = step;
                named
            }
            Op::Delete(pod) => {
                let path = paths::pod(&key.namespace, &pod.name);
                let call = Call::delete_with(path, lakh_wire::exact_deletion(pod.uid));
                Named::new("delete", "pods", call, ExpectedAnswer::DeletionOf(pod.uid))
            }
            Op::RemoveFinalizer(pod, version) => {
                let path = paths::unchecked(paths::pod(&key.namespace, &pod.name));
                let body = match version {
                    Some(version) => {
                        lakh_wire::freeing_patch_of_version(pod.uid, *version, finalizer)
                    }
                    None => lakh_wire::freeing_patch(pod.uid, finalizer),
                };
                let patch = Call::patch(path, Patch::Strategic, body);
                Named::new("patch", "pods", patch, ExpectedAnswer::OfUid(pod.uid))
            }
            Op::Gang(object) => gangs?.creation(key, self.job.uid, object),
            Op::Status {
                status, version, ..
            } => {
                let path = paths::job_status(&key.namespace, &key.name);
                let body = lakh_wire::status_patch(status, self.job.uid, *version);
                let patch = Call::patch(path, Patch::Merge, body);
                Named::new(
                    "patch",
                    "jobs/status",
                    patch,
                    ExpectedAnswer::OfUid(self.job.uid),
                )
            }
        })
    }

    /// Builds the request that creates a Pod from this template, if the template makes Pods.
    pub(super) fn creation(
        &self,
        template: &Result<PodTemplate, String>,
        pod: NewPod,
        group: Option<&PodGroup>,
    ) -> Option<(Named, WriteStep)> {
        let key = &self.job.key;
        let template = match template {
            Ok(template) => template,
            Err(message) => {
                tracing::warn!(job = %key, message, "the API server rejects the Pods of the Job's template");
                return None;
            }
        };
        let group = group.map(|group| group.name.as_str());
        let (name, body) = template.pod(pod.index, pod.failures, pod.suffix, group);
        let call = Call::create(paths::pods(Some(&key.namespace)), body);
        let expected = ExpectedAnswer::Named(name.as_str().into());
        let step = WriteStep::Creating(name, Arc::clone(template.marks()));
        Some((Named::new("create", "pods", call, expected), step))
    }

    /// Returns the outcome of a write that was not sent, because its request could not be built or it was no longer
    /// wanted.
    pub(super) fn unsent(&self) -> Outcome {
        match &self.op {
            Op::Create { pod, .. } if matches!(self.step, WriteStep::Asked) => {
                Outcome::PodNotCreated(pod.id(), CreateError::NotSent)
            }
            Op::Create { pod, .. } if matches!(self.step, WriteStep::Reading) => {
                Outcome::PodNotCreated(pod.id(), CreateError::NotSent)
            }
            Op::Create { pod, .. } => Outcome::PodNotCreated(pod.id(), CreateError::Refused),
            Op::Delete(pod) => Outcome::PodNotDeleted(pod.slot),
            Op::RemoveFinalizer(pod, _) => Outcome::FinalizerNotRemoved(pod.slot),
            Op::Gang(_) => Outcome::GangObjectNotMade(CreateError::Refused),
            Op::Status { .. } => Outcome::StatusNotWritten,
        }
    }
}

/// A response to a write, and the shard that handles it.
#[derive(Debug)]
pub(super) struct AnsweredWrite<'a> {
    pub(super) shard: &'a mut Shard,
    pub(super) write: &'a Write,
    /// When the request was sent.
    pub(super) sent: Monotonic,
    pub(super) now: Now,
}

impl AnsweredWrite<'_> {
    /// Handles the response to the request of this step.
    pub(super) fn take(mut self, step: WriteStep, result: CallResult) -> Next {
        self.end_silence(&result);
        Next::Over(match (step, &self.write.op) {
            (WriteStep::Reading, Op::Create { pod, group }) => {
                return self.template_read(*pod, group.as_deref(), result);
            }
            (WriteStep::Creating(name, marks), Op::Create { pod, .. }) => {
                return self.create((*pod, &marks, &name), result);
            }
            (WriteStep::Looking, Op::Create { pod, .. }) => self.looked(*pod, result),
            (_, Op::Create { .. }) => self.write.unsent(),
            (WriteStep::Comparing(error), Op::Status { version, .. }) => {
                let Write { actor, job, .. } = self.write;
                let found = self.shard.compare_job(*actor, job, *version, result);
                if found == Some(*version) {
                    // The Job is unchanged, so this is no real conflict, and a retry would be refused again.
                    self.report_failure("FailedUpdateStatus", STATUS_UPDATE, &error);
                }
                Outcome::StatusNotWritten
            }
            (
                _,
                Op::Status {
                    status, progress, ..
                },
            ) => {
                return self.status(status, progress, result);
            }
            (WriteStep::Refreshing(error), Op::RemoveFinalizer(pod, version)) => {
                self.refreshed(pod, (*version, &error), result)
            }
            (_, Op::RemoveFinalizer(pod, version)) => {
                return self.remove_finalizer(pod, version.is_some(), result);
            }
            (_, Op::Delete(pod)) => self.delete(pod, result),
            (_, Op::Gang(object)) => self.gang(object, result),
        })
    }

    fn create(
        &mut self,
        (pod, marks, name): (NewPod, &PodMarks, &str),
        result: CallResult,
    ) -> Next {
        let error = match result {
            Ok(answer) => {
                let created = Report::normal("SuccessfulCreate", &format!("Created pod: {name}"));
                self.report(created);
                if let Some(what) = marks.lacks(&answer) {
                    // The watch will show the Pod. Retrying at once would create such Pods without end.
                    let message = format!(
                        "Error creating: admission changed pod {name:?}: it lacks its {what}"
                    );
                    self.report(Report::warning("FailedCreate", &message));
                    let refused = Outcome::PodNotCreated(pod.id(), CreateError::Refused);
                    return Next::Over(refused);
                }
                return Next::Over(self.created(&answer, name, pod));
            }
            Err(error) => error,
        };
        let mut why = why_not_created(&error);
        if why == CreateError::NameTaken {
            if error.message.contains(name) {
                let look = Named::get_pod(&self.write.job.key.namespace, name);
                return Next::Call(look, WriteStep::Looking);
            }
            // This is not the API server's message: an admission webhook chose the reason.
            why = CreateError::Refused;
        }
        let (namespace, job) = (&self.write.job.key.namespace, self.write.job.uid);
        let wait = match error.is_of_quota() {
            true => Some(self.shard.quota.refused(namespace, job, self.now.monotonic)),
            false => error.retry_after,
        };
        if let Some(wait) = wait
            && why == CreateError::Refused
        {
            why = CreateError::RefusedFor(wait);
        }
        if why.is_failure() {
            tracing::debug!(job = %self.write.job.key, pod = name, %error, "could not create a Pod");
            self.report_failure("FailedCreate", "creating", &error);
        }
        Next::Over(Outcome::PodNotCreated(pod.id(), why))
    }

    /// Handles the Pod that has the name of our new Pod. It may be ours: from an earlier attempt without a response, or
    /// from this request, if a proxy sent it twice. Or another controller created it for the Job. Such a Pod is cached
    /// as it is; if it has finished, the Job continues from there.
    fn looked(&mut self, pod: NewPod, result: CallResult) -> Outcome {
        let found = result.ok().and_then(|answer| self.read_pod(&answer));
        let Some((record, is_jobs)) = found else {
            return Outcome::PodNotCreated(pod.id(), CreateError::Unknown);
        };
        let index = pod.index.and_then(CompactIndex::new);
        if !is_jobs || (pod.index.is_some() && record.index != index) {
            return Outcome::PodNotCreated(pod.id(), CreateError::NameTaken);
        }
        match self.is_here(record) {
            true => Outcome::PodCreated(pod.id()),
            // The server has the Pod, and the watch has shown its deletion: one of the two is stale. Another read at
            // once would return the same.
            false => Outcome::PodNotCreated(pod.id(), CreateError::Unknown),
        }
    }

    /// Decodes a Pod from a response. Returns true with it if the Pod is this Job's.
    fn read_pod(&self, answer: &[u8]) -> Option<(PodRecord, bool)> {
        let finalizer = self.shard.settings.mode.finalizer();
        let json = std::str::from_utf8(answer).ok()?;
        let found = PodDecoder { finalizer }
            .decode(lakh_wire::Object::Json(json))
            .ok()?;
        let is_jobs = matches!(&found.controller, Controller::Job(job) if *job == *self.write.job);
        Some((found.record, is_jobs))
    }

    /// Adds a Pod that the server has to the store. Returns true if it is cached now.
    fn is_here(&mut self, record: PodRecord) -> bool {
        self.shard
            .quota
            .created(&self.write.job.key.namespace, self.write.job.uid);
        self.shard.store.pod_created(self.write.actor, record)
    }

    /// Handles the response to a creation.
    fn created(&mut self, answer: &[u8], name: &str, pod: NewPod) -> Outcome {
        let Some((uid, version, deleting)) = lakh_wire::ack_of_write(answer) else {
            // The watch will show the Pod.
            return Outcome::PodNotCreated(pod.id(), CreateError::Unknown);
        };
        let flags = PodFlags::default()
            .with(PodFlags::FINALIZER, true)
            .with(PodFlags::DELETING, deleting);
        let record = PodRecord {
            uid,
            name: PodName::new(&self.write.job.key.name, name),
            resource_version: version,
            index: pod.index.and_then(CompactIndex::new),
            flags,
            ..PodRecord::default()
        };
        self.is_here(record);
        Outcome::PodCreated(pod.id())
    }

    fn delete(&mut self, pod: &WrittenPod, result: CallResult) -> Outcome {
        match result {
            Ok(answer) => {
                self.deleted(pod, &answer);
                let message = format!("Deleted pod: {}", pod.name);
                self.report(Report::normal("SuccessfulDelete", &message));
            }
            Err(error) if error.is_of_no_such_object() => {}
            Err(error) => {
                self.report_failure("FailedDelete", "deleting", &error);
                return Outcome::PodNotDeleted(pod.slot);
            }
        }
        Outcome::PodDeleted(pod.slot)
    }

    /// Applies the deletion timestamp of a Pod. If the server later returns the Pod without it, the server was
    /// restored. A Pod that had finished before is left to the watch.
    fn deleted(&mut self, pod: &WrittenPod, answer: &[u8]) {
        if let Some((record, true)) = self.read_pod(answer)
            && record.uid == pod.uid
            && !record.phase.is_terminal()
        {
            self.shard.store.pod_read(self.write.actor, record);
        }
    }

    fn remove_finalizer(
        &mut self,
        pod: &WrittenPod,
        is_versioned: bool,
        result: CallResult,
    ) -> Next {
        let job = &self.write.job.key;
        let version = match result.map(|answer| lakh_wire::ack_of_write(&answer)) {
            Ok(Some((_, version, _))) => version,
            Ok(None) => return Next::Over(Outcome::FinalizerNotRemoved(pod.slot)),
            // The watch will show the deletion. Clearing the finalizer here would have no version, so an older event
            // could set it again. A machine that restarts in between would count the Pod twice.
            Err(error) if error.is_of_no_such_object() => {
                return Next::Over(Outcome::FinalizerRemoved(pod.slot));
            }
            Err(error) if error.kind == ErrorKind::Conflict && is_versioned => {
                let look = Named::get_pod(&job.namespace, &pod.name);
                return Next::Call(look, WriteStep::Refreshing(Box::new(error)));
            }
            Err(error) => {
                tracing::debug!(%job, pod = %pod.name, %error, "could not remove a finalizer");
                if self.is_reported(&error) {
                    self.report_failure("FailedRemoveFinalizer", FINALIZER_REMOVAL, &error);
                }
                return Next::Over(Outcome::FinalizerNotRemoved(pod.slot));
            }
        };
        let which = (pod.slot, pod.uid);
        self.shard
            .store
            .pod_written(self.write.actor, which, version, |pod| {
                pod.flags.set(PodFlags::FINALIZER, false);
            });
        Next::Over(Outcome::FinalizerRemoved(pod.slot))
    }

    /// Handles a conflict on a Pod to be freed uncounted: the Pod may have finished. The watch may show that much
    /// later.
    fn refreshed(
        &mut self,
        pod: &WrittenPod,
        (version, refusal): (Option<u64>, &ApiError),
        result: CallResult,
    ) -> Outcome {
        let answer = match result {
            Ok(answer) => answer,
            Err(error) if error.is_of_no_such_object() => {
                return Outcome::FinalizerRemoved(pod.slot);
            }
            Err(_) => return Outcome::FinalizerNotRemoved(pod.slot),
        };
        match self.read_pod(&answer) {
            Some((record, true)) if record.uid == pod.uid => {
                if Some(record.resource_version) == version {
                    // The Pod is unchanged, so this is no real conflict, and a retry would be refused again.
                    self.report_failure("FailedRemoveFinalizer", FINALIZER_REMOVAL, refusal);
                    return Outcome::FinalizerNotRemoved(pod.slot);
                }
                self.shard.store.pod_read(self.write.actor, record);
                Outcome::PodChanged(pod.slot)
            }
            _ => Outcome::FinalizerNotRemoved(pod.slot),
        }
    }

    fn status(&mut self, status: &JobStatus, progress: &Progress, result: CallResult) -> Next {
        let error = match result {
            Ok(answer) => {
                let Write { actor, job, .. } = self.write;
                if let Some((_, version, _)) = lakh_wire::ack_of_write(&answer)
                    && (self.shard.store).job_status_written(*actor, status.clone(), version)
                {
                    self.shard.status_told(job, version);
                }
                self.shard.metrics.jobs.progress(progress);
                if let Some((result, reason)) = &progress.end {
                    let journal = &mut self.shard.outbox.journal;
                    journal.ended(&self.write.job, result, reason, self.now.monotonic);
                }
                return Next::Over(Outcome::StatusWritten);
            }
            Err(error) => error,
        };
        let job = &self.write.job.key;
        match error.kind {
            ErrorKind::Conflict => {
                tracing::debug!(%job, %error, "could not write the status");
                return Next::Call(Named::get_job(job), WriteStep::Comparing(Box::new(error)));
            }
            ErrorKind::NotFound => tracing::debug!(%job, %error, "could not write the status"),
            _ => {
                tracing::debug!(%job, %error, "could not write the status");
                if self.is_reported(&error) {
                    self.report_failure("FailedUpdateStatus", STATUS_UPDATE, &error);
                }
            }
        }
        Next::Over(Outcome::StatusNotWritten)
    }

    fn gang(&mut self, object: &GangObject, result: CallResult) -> Outcome {
        let gangs = self.shard.gangs.as_mut();
        let read = |answer: &[u8]| gangs.is_some_and(|gangs| gangs.made(object, answer));
        let error = match result {
            // If the response cannot be decoded, the watch will show the object.
            Ok(answer) if read(&answer) => return Outcome::GangObjectMade,
            Ok(_) => ApiError::no_answer("odd answer"),
            Err(error) => error,
        };
        let job = &self.write.job.key;
        tracing::warn!(%job, %error, "could not create the Job's Workload or PodGroup; will retry");
        Outcome::GangObjectNotMade(why_not_created(&error))
    }

    /// Returns true if a Warning should report a failed status update or finalizer removal: at once if the server
    /// refused it, or after [`SILENCE_MAX`] without any response.
    fn is_reported(&mut self, error: &ApiError) -> bool {
        if error.code != 0 {
            return true;
        }
        let Some(actor) = self.shard.store.get_mut(self.write.actor) else {
            return false;
        };
        let since = *actor.unanswered_since.get_or_insert(self.sent);
        self.now.monotonic.since(since) >= SILENCE_MAX
    }

    /// Ends the period without responses, if this is a response to a status update or finalizer removal.
    fn end_silence(&mut self, result: &CallResult) {
        let is_answered = result
            .as_ref()
            .map_or_else(|error| error.code != 0, |_| true);
        let is_meant = matches!(self.write.op, Op::Status { .. } | Op::RemoveFinalizer(..));
        if is_answered
            && is_meant
            && let Some(actor) = self.shard.store.get_mut(self.write.actor)
        {
            actor.unanswered_since = None;
        }
    }

    /// Records a Warning about a failed write, unless we gave up ourselves.
    pub(super) fn report_failure(&mut self, reason: &str, what: &str, error: &ApiError) {
        if !self.shard.outbox.is_closed() && error.kind != ErrorKind::GivenUp {
            let is_silence = error.code == 0 && !error.message.starts_with("no answer");
            let before = if is_silence { "no answer: " } else { "" };
            let message = format!("Error {what}: {before}{error}");
            self.report(Report::warning(reason, &message));
        }
    }

    fn report(&mut self, report: Report) {
        let Shard { store, outbox, .. } = self.shard;
        let Some(actor) = store.get_mut(self.write.actor) else {
            return;
        };
        let JobId { uid, key } = &*self.write.job;
        let (events, told) = (&mut outbox.events, &mut actor.told);
        events.tell(About::Pod, *uid, key, told, report, self.now);
    }
}

/// Counts a creation, unless it was not sent or its namespace is terminating.
pub(super) fn count_creation(metrics: &Metrics, why: CreationReason, outcome: &Outcome) {
    let succeeded = matches!(outcome, Outcome::PodCreated(_));
    let no_try = [CreateError::NamespaceTerminating, CreateError::NotSent];
    if !matches!(outcome, Outcome::PodNotCreated(_, error) if no_try.contains(error)) {
        metrics.jobs.pod_creation(why.word(), succeeded);
    }
}

/// Maps an API error to a creation error.
fn why_not_created(error: &ApiError) -> CreateError {
    match error.kind {
        ErrorKind::AlreadyExists => CreateError::NameTaken,
        ErrorKind::NamespaceTerminating => CreateError::NamespaceTerminating,
        ErrorKind::Failed | ErrorKind::GivenUp | ErrorKind::TooLong => CreateError::Unknown,
        ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::Expired
        | ErrorKind::Ahead
        | ErrorKind::Busy
        | ErrorKind::TooManyRequests
        | ErrorKind::Refused => CreateError::Refused,
    }
}
