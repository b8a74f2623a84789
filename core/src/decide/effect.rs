//! What a Job machine hears of its own writes, and what it asks for.

use std::time::Duration;

use crate::model::{FailureAction, FailureCounts, GangObject, JobStatus, PodSuffix, Report, Slot};

/// What to do. Carries no handle; whoever carries it out answers with an [`Outcome`], but for
/// [`Effect::Report`] and [`Effect::PolicyApplied`].
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a dropped effect is a Pod that is never created, or never counted"]
pub enum Effect {
    /// Create a Pod, in the PodGroup that [`JobMachine::pod_group`](super::JobMachine::pod_group) names
    /// now, if it names one.
    CreatePod(NewPod),
    /// Delete the Pod in this slot, with default options.
    DeletePod(Slot),
    /// Take the tracking finalizer off the Pod in this slot.
    RemoveFinalizer(Slot),
    /// The same, if the Pod is still as it is known: it goes uncounted, and must not have ended meanwhile.
    RemoveFinalizerIfUnchanged(Slot),
    /// Replace the Job's status by this one, on top of the version last seen.
    WriteStatus(Box<JobStatus>),
    /// Make the Workload or PodGroup of the Job.
    MakeGangObject(GangObject),
    /// Tell people, by an Event on the Job.
    Report(Report),
    /// Note that a rule of the podFailurePolicy has decided on a failed Pod: once per Pod, when it
    /// is counted or, ignored, has been let go.
    PolicyApplied(FailureAction),
}

/// A Pod to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPod {
    /// Its completion index, for Indexed Jobs.
    pub index: Option<u32>,
    /// How often its index failed before, for Jobs that limit failures by index.
    pub failures: Option<FailureCounts>,
    /// The end of its name.
    pub suffix: PodSuffix,
    /// Why it is asked for, for metrics.
    pub reason: CreationReason,
}

impl NewPod {
    /// Which creation it is.
    pub fn id(&self) -> CreationId {
        CreationId {
            index: self.index,
            suffix: self.suffix,
        }
    }
}

/// Which creation of a Job is meant: its Pod's name follows from this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CreationId {
    /// The Pod's completion index, for Indexed Jobs.
    pub index: Option<u32>,
    /// The end of its name.
    pub suffix: PodSuffix,
}

impl CreationId {
    /// The Pod that is asked for.
    pub(super) fn pod(self, failures: Option<FailureCounts>, reason: CreationReason) -> NewPod {
        NewPod {
            index: self.index,
            failures,
            suffix: self.suffix,
            reason,
        }
    }
}

/// Why a Pod is created, going by the Pods that were known when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreationReason {
    /// No Pod of the Job has failed or is being deleted.
    New,
    /// Some have failed or are being deleted.
    RecreateTerminatingOrFailed,
    /// Some have failed, of a Job that replaces Pods only then.
    RecreateFailed,
}

impl CreationReason {
    /// Its word in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::RecreateTerminatingOrFailed => "recreate_terminating_or_failed",
            Self::RecreateFailed => "recreate_failed",
        }
    }
}

/// How a write that the machine asked for ended. What it changed in the Pods is already in their
/// records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The Pod exists; its record is in the table.
    PodCreated(CreationId),
    /// The Pod was not created, or nobody knows.
    PodNotCreated(CreationId, CreateError),
    /// The delete was accepted, or the Pod was gone already.
    PodDeleted(Slot),
    /// The delete was refused.
    PodNotDeleted(Slot),
    /// The finalizer is off, or the Pod was gone already.
    FinalizerRemoved(Slot),
    /// The finalizer is still on, or nobody knows.
    FinalizerNotRemoved(Slot),
    /// The finalizer is still on, as the Pod is not what it was known to be. Now it is.
    PodChanged(Slot),
    /// The server has the status of the last [`Effect::WriteStatus`].
    StatusWritten,
    /// It has not, or nobody knows.
    StatusNotWritten,
    /// The server has the object of the last [`Effect::MakeGangObject`].
    GangObjectMade,
    /// It has not, or nobody knows.
    GangObjectNotMade(CreateError),
}

impl Outcome {
    /// Whether it is how a write to a Pod ended.
    pub(super) fn is_of_pod(&self) -> bool {
        match self {
            Self::PodCreated(_)
            | Self::PodNotCreated(..)
            | Self::PodDeleted(_)
            | Self::PodNotDeleted(_)
            | Self::FinalizerRemoved(_)
            | Self::FinalizerNotRemoved(_)
            | Self::PodChanged(_) => true,
            Self::StatusWritten
            | Self::StatusNotWritten
            | Self::GangObjectMade
            | Self::GangObjectNotMade(_) => false,
        }
    }
}

/// Why a Pod, or an object of a gang, was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// Another object has that name.
    NameTaken,
    /// The namespace is going away: no Pod will ever be created here again.
    NamespaceTerminating,
    /// The server said no.
    Refused,
    /// The server, or whom it asked, said no for now. It is worth a try after so long at most.
    RefusedFor(Duration),
    /// There was no answer, or one that does not tell.
    Unknown,
    /// It was not sent, as the Job wants no Pods any more.
    NotSent,
}

impl CreateError {
    /// Whether people are to be told.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Refused | Self::RefusedFor(_) | Self::Unknown => true,
            Self::NameTaken | Self::NamespaceTerminating | Self::NotSent => false,
        }
    }
}
