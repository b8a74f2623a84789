//! Defines the requests of a CronJob sync, and their results.

use compact_str::CompactString;

use crate::model::{CronJob, CronJobStatus, Report, Time, Uid};

/// The next request. All but [`CronJobEffect::Report`] and [`CronJobEffect::Over`] are answered with a [`CallAnswer`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a sync goes on only when it has its answer"]
pub enum CronJobEffect {
    /// Get the CronJob from the server.
    GetCronJob,
    /// Get a Job of the namespace from the server.
    GetJob(CompactString),
    /// Delete the Job with this UID, with its Pods in the background.
    DeleteJob(Uid, CompactString),
    /// Create a Job.
    CreateJob(NewJob),
    /// Write the status, if the CronJob still has this resourceVersion.
    WriteStatus(CronJobStatus, u64),
    /// Record an Event on the CronJob.
    Report(Report),
    /// The sync is over.
    Over(Next),
}

/// A Job to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "getJobFromTemplate2")]
pub struct NewJob {
    /// Its name, which contains the minute of the run.
    pub name: CompactString,
    /// Its scheduled time.
    pub scheduled: Time,
    /// The same time in the CronJob's `timeZone`, for the Job's annotation.
    pub timestamp: String,
}

/// The time of the next sync if no event comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// None.
    Nothing,
    /// At this time.
    At(Time),
    /// Soon, because a request failed.
    Retry,
}

/// The result of a request. Errors have the server's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    /// The CronJob on the server.
    CronJob(Box<CronJob>),
    /// A Job on the server.
    Job(FoundJob),
    /// The object does not exist.
    NotFound(String),
    /// The read or write failed.
    Failed(String),
    /// The Job is deleted or being deleted.
    Deleted,
    /// The Job was created.
    Created {
        /// Its UID.
        uid: Uid,
        /// Its resourceVersion.
        resource_version: u64,
    },
    /// The Job was not created.
    NotCreated(NotCreated),
    /// The server has stored the status.
    StatusWritten,
}

/// The reason why a Job was not created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCreated {
    /// Another Job has its name.
    NameTaken,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// Another error, in the server's words.
    Other(String),
}

/// The Job found under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundJob {
    /// Its UID.
    pub uid: Uid,
    /// Its resourceVersion.
    pub resource_version: u64,
    /// The UID of its controller.
    pub controller: Option<Uid>,
}
