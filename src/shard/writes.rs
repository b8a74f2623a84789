//! The writes that Jobs ask for: the calls that they are, and what their answers mean.
//!
//! An answer goes back into the store as a fact and to the Job as an outcome. Only a write that a
//! busy server did not take is repeated by the [`Outbox`](super::outbox::Outbox); any other failure is the
//! Job's to judge.
//!
//! Must not: decide when a write goes, or whether it is asked for again.

use std::{sync::Arc, time::Duration};

use compact_str::CompactString;

use crate::{
    decide::{CreateError, CreationReason, NewPod, Outcome, Report},
    flow::Rank,
    machine::CallResult,
    metrics::{Metrics, progress::Progress},
    model::{
        CompactIndex, Controller, GangObject, JobId, JobStatus, Monotonic, Now, PodFlags, PodGroup,
        PodName, PodRecord, Slot, Uid,
    },
    wire::{
        self, ApiError, Call, ErrorKind, ExpectedAnswer, Patch, PodDecoder, PodMarks, PodTemplate,
        paths,
    },
};

use super::{Shard, correlate::About, gangs::Gangs, outbox::Named, store::ActorKey};

/// The failed actions in Events.
const FINALIZER_REMOVAL: &str = "removing the tracking finalizer of a Pod";
const STATUS_UPDATE: &str = "updating the Job's status";

/// The time without answers after which a Warning reports failed status updates and removals of finalizers. An API server that
/// is restarted is back sooner; such writes are repeated, and no user has to know.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// A write that a Job asked for.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) actor: ActorKey,
    pub(super) job: Arc<JobId>,
    pub(super) op: Op,
    pub(super) step: WriteStep,
}

/// How far a write has come.
#[derive(Debug, Default)]
pub(super) enum WriteStep {
    /// It waits.
    #[default]
    Asked,
    /// It is under way.
    Sent,
    /// The Job's template is read, to make a Pod of it.
    Reading,
    /// The Pod of this name is being made, which is to have these marks.
    Creating(String, Arc<PodMarks>),
    /// The name is taken, and it is looked by whom.
    Looking,
    /// The server refused the status as a conflict, and the Job is read again.
    Comparing(Box<ApiError>),
    /// The server refused the patch as a conflict, and the Pod is read again.
    Refreshing(Box<ApiError>),
}

/// What is to be written.
#[derive(Debug)]
pub(super) enum Op {
    /// A new Pod.
    Create {
        pod: NewPod,
        /// The PodGroup that it is put into.
        group: Option<Arc<PodGroup>>,
    },
    /// The end of a Pod.
    Delete(WrittenPod),
    /// A Pod without the finalizer; where it goes uncounted, only if it is of this version.
    RemoveFinalizer(WrittenPod, Option<u64>),
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

impl Op {
    /// In which order it goes among the Job's.
    pub(super) fn rank(&self) -> Rank {
        match self {
            Self::Status { .. } => Rank::Urgent,
            Self::RemoveFinalizer(..) => Rank::Ends,
            Self::Create { .. } | Self::Delete(_) | Self::Gang(_) => Rank::Usual,
        }
    }
}

/// The Pod that is written to.
#[derive(Clone, Debug)]
pub(super) struct WrittenPod {
    pub(super) slot: Slot,
    pub(super) uid: Uid,
    pub(super) name: CompactString,
}

/// What follows from an answer.
#[derive(Debug)]
pub(super) enum Next {
    /// The write is over.
    Over(Outcome),
    /// It takes one more call, and has come so far then.
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

    /// Makes its call; none, if it cannot be made. A creation needs the Job's template.
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
                let call = Call::delete_with(path, wire::exact_deletion(pod.uid));
                Named::new("delete", "pods", call, ExpectedAnswer::DeletionOf(pod.uid))
            }
            Op::RemoveFinalizer(pod, version) => {
                let path = paths::unchecked(paths::pod(&key.namespace, &pod.name));
                let body = match version {
                    Some(version) => wire::freeing_patch_of_version(pod.uid, *version, finalizer),
                    None => wire::freeing_patch(pod.uid, finalizer),
                };
                let patch = Call::patch(path, Patch::Strategic, body);
                Named::new("patch", "pods", patch, ExpectedAnswer::OfUid(pod.uid))
            }
            Op::Gang(object) => gangs?.creation(key, self.job.uid, object),
            Op::Status {
                status, version, ..
            } => {
                let path = paths::job_status(&key.namespace, &key.name);
                let body = wire::status_patch(status, self.job.uid, *version);
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

    /// The call that makes a Pod of this template, if it makes any.
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
                tracing::warn!(job = %key, message, "template makes no Pods");
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

    /// How a write ends of which no call could be made, or none was wanted any more.
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

/// A write whose call was answered, and the shard that hears of it.
#[derive(Debug)]
pub(super) struct AnsweredWrite<'a> {
    pub(super) shard: &'a mut Shard,
    pub(super) write: &'a Write,
    /// When its call was sent.
    pub(super) sent: Monotonic,
    pub(super) now: Now,
}

impl AnsweredWrite<'_> {
    /// Takes in the answer to the call of this step.
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
                    // Nothing has changed, so that it is no conflict, and would be refused again.
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
                    // The watch will tell of it. To make the next at once would make such Pods without end.
                    let message = format!(
                        "Error creating: pod {name:?} was changed on its way in and lacks its {what}"
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
            // Those are not the server's words: an admission webhook chose this reason.
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
            tracing::debug!(job = %self.write.job.key, pod = name, %error, "Pod not created");
            self.report_failure("FailedCreate", "creating", &error);
        }
        Next::Over(Outcome::PodNotCreated(pod.id(), why))
    }

    /// The name of a Pod is taken: by that Pod? It may have been created by an earlier attempt that had no
    /// answer, by this one, if something on the way to the server has sent it twice, or by another controller.
    /// It is taken in as it is: if it has ended, the Job goes on from there.
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
            // It is there, and the watch says that it is not: one of the two is of the past. Another
            // question at once would be answered the same.
            false => Outcome::PodNotCreated(pod.id(), CreateError::Unknown),
        }
    }

    /// Reads a Pod that the server was asked for, and whether it is the Job's.
    fn read_pod(&self, answer: &[u8]) -> Option<(PodRecord, bool)> {
        let finalizer = self.shard.settings.mode.finalizer();
        let json = std::str::from_utf8(answer).ok()?;
        let found = PodDecoder { finalizer }
            .decode(wire::Object::Json(json))
            .ok()?;
        let is_jobs = matches!(&found.controller, Controller::Job(job) if *job == *self.write.job);
        Some((found.record, is_jobs))
    }

    /// Takes in a Pod that the server says is there; whether it is known now.
    fn is_here(&mut self, record: PodRecord) -> bool {
        self.shard
            .quota
            .created(&self.write.job.key.namespace, self.write.job.uid);
        self.shard.store.pod_created(self.write.actor, record)
    }

    /// Takes in the answer to a creation.
    fn created(&mut self, answer: &[u8], name: &str, pod: NewPod) -> Outcome {
        let Some((uid, version, deleting)) = wire::ack_of_write(answer) else {
            // The watch will tell.
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

    /// A Pod is deleting: from here on it is so wherever the server tells of it, or the server tells of a backup. How one
    /// that had ended before came to that the watch tells.
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
        let version = match result.map(|answer| wire::ack_of_write(&answer)) {
            Ok(Some((_, version, _))) => version,
            Ok(None) => return Next::Over(Outcome::FinalizerNotRemoved(pod.slot)),
            // That it is gone the watch tells. To note here that the finalizer is off would have no version, and
            // older news would put it on again: a machine that starts anew in between would count the Pod twice.
            Err(error) if error.is_of_no_such_object() => {
                return Next::Over(Outcome::FinalizerRemoved(pod.slot));
            }
            Err(error) if error.kind == ErrorKind::Conflict && is_versioned => {
                let look = Named::get_pod(&job.namespace, &pod.name);
                return Next::Call(look, WriteStep::Refreshing(Box::new(error)));
            }
            Err(error) => {
                tracing::debug!(%job, pod = %pod.name, %error, "finalizer not removed");
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

    /// A Pod that was to go uncounted has changed: it may have ended. The watch may tell much later.
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
                    // Nothing has changed, so that it is no conflict, and would be refused again.
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
                if let Some((_, version, _)) = wire::ack_of_write(&answer)
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
                tracing::debug!(%job, %error, "status not written");
                return Next::Call(Named::get_job(job), WriteStep::Comparing(Box::new(error)));
            }
            ErrorKind::NotFound => tracing::debug!(%job, %error, "status not written"),
            _ => {
                tracing::debug!(%job, %error, "status not written");
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
            // One that cannot be read the watch will tell of.
            Ok(answer) if read(&answer) => return Outcome::GangObjectMade,
            Ok(_) => ApiError::no_answer("odd answer"),
            Err(error) => error,
        };
        let job = &self.write.job.key;
        tracing::warn!(%job, %error, "ensuring Workload and PodGroup");
        Outcome::GangObjectNotMade(why_not_created(&error))
    }

    /// Returns true if a Warning reports a failed status update or removal of a finalizer: at once if the server refused it, and
    /// if there was no answer, once that has lasted.
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

    /// Records that a status update or a removal of a finalizer was answered, if this is such an answer.
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

    /// Tells of a write that failed, unless it was us who gave up.
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

/// Counts a creation, unless it was not sent or is one of a namespace that goes away.
pub(super) fn count_creation(metrics: &Metrics, why: CreationReason, outcome: &Outcome) {
    let succeeded = matches!(outcome, Outcome::PodCreated(_));
    let no_try = [CreateError::NamespaceTerminating, CreateError::NotSent];
    if !matches!(outcome, Outcome::PodNotCreated(_, error) if no_try.contains(error)) {
        metrics.jobs.pod_creation(why.word(), succeeded);
    }
}

/// What an error means for a creation.
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
