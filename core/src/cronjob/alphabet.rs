//! The requests of a sync of a CronJob, and the answers to them.

use compact_str::CompactString;

use crate::model::{CronJob, CronJobStatus, Report, Time, Uid};

/// What to do next. All but [`CronJobEffect::Report`] and [`CronJobEffect::Over`] are answered with an [`CallAnswer`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a sync goes on only when it has its answer"]
pub enum CronJobEffect {
    /// Ask the server for the CronJob.
    GetCronJob,
    /// Ask the server for a Job of the namespace.
    GetJob(CompactString),
    /// Delete this very Job, its Pods after it; not another one of its name.
    DeleteJob(Uid, CompactString),
    /// Create a Job.
    CreateJob(NewJob),
    /// Write the status, on top of this version.
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
    /// When it is due.
    pub scheduled: Time,
    /// The same by the clocks of the CronJob's `timeZone`, as the Job's annotation says it.
    pub timestamp: String,
}

/// When to look again if nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Not by itself.
    Nothing,
    /// At this time.
    At(Time),
    /// Soon: something failed.
    Retry,
}

/// The outcome of an effect. Errors are in the server's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    /// The CronJob as it is now.
    CronJob(Box<CronJob>),
    /// A Job as it is now.
    Job(FoundJob),
    /// There is no such object.
    NotFound(String),
    /// The question was not answered, or the write not done.
    Failed(String),
    /// The Job is deleted, or on its way.
    Deleted,
    /// The Job is there.
    Created {
        /// Who it is.
        uid: Uid,
        /// Its version.
        resource_version: u64,
    },
    /// The Job was not made.
    NotCreated(NotCreated),
    /// The server has the status.
    StatusWritten,
}

/// Why a Job was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCreated {
    /// Another one has its name.
    NameTaken,
    /// The namespace is going away.
    NamespaceTerminating,
    /// Something else, in the server's words.
    Other(String),
}

/// A Job that a name was found to be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundJob {
    /// Who it is.
    pub uid: Uid,
    /// Its version.
    pub resource_version: u64,
    /// Whose it is.
    pub controller: Option<Uid>,
}
