//! Defines the actions that a Job machine requests and the results of its writes.

use std::time::Duration;

use crate::model::{FailureAction, FailureCounts, GangObject, JobStatus, PodSuffix, Report, Slot};

/// An action for the caller. Carries no handle. The caller answers with an [`Outcome`], except to [`Effect::Report`]
/// and [`Effect::PolicyApplied`].
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a dropped effect is a Pod that is never created, or never counted"]
pub enum Effect {
    /// Create a Pod, in the PodGroup that [`JobMachine::pod_group`](super::JobMachine::pod_group) returns at this
    /// moment, if any.
    CreatePod(NewPod),
    /// Delete the Pod in this slot, with default options.
    DeletePod(Slot),
    /// Remove the tracking finalizer of the Pod in this slot.
    RemoveFinalizer(Slot),
    /// Remove the finalizer only if the Pod is unchanged: it is released uncounted, and must not have ended since.
    RemoveFinalizerIfUnchanged(Slot),
    /// Replace the Job's status with this one, at the resourceVersion last seen.
    WriteStatus(Box<JobStatus>),
    /// Create the Workload or PodGroup of the Job.
    MakeGangObject(GangObject),
    /// Emit an Event on the Job.
    Report(Report),
    /// Count a podFailurePolicy decision on a failed Pod for metrics: once per Pod, when it is counted or, if ignored,
    /// released.
    PolicyApplied(FailureAction),
}

/// A Pod to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewPod {
    /// Its completion index, for Indexed Jobs.
    pub index: Option<u32>,
    /// The earlier failures of its index, for Jobs that limit failures per index.
    pub failures: Option<FailureCounts>,
    /// The suffix of its name.
    pub suffix: PodSuffix,
    /// The reason for its creation, for metrics.
    pub reason: CreationReason,
}

impl NewPod {
    /// Returns the identity of this creation.
    pub fn id(&self) -> CreationId {
        CreationId {
            index: self.index,
            suffix: self.suffix,
        }
    }
}

/// Identifies one creation of a Job: the Pod's name follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CreationId {
    /// The Pod's completion index, for Indexed Jobs.
    pub index: Option<u32>,
    /// The suffix of its name.
    pub suffix: PodSuffix,
}

impl CreationId {
    /// Returns the Pod to create.
    pub(super) fn pod(self, failures: Option<FailureCounts>, reason: CreationReason) -> NewPod {
        NewPod {
            index: self.index,
            failures,
            suffix: self.suffix,
            reason,
        }
    }
}

/// The reason for creating a Pod, derived from the Pods known at the time of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreationReason {
    /// No Pod of the Job has failed or is being deleted.
    New,
    /// Some have failed or are being deleted.
    RecreateTerminatingOrFailed,
    /// Some have failed, of a Job that replaces only failed Pods.
    RecreateFailed,
}

impl CreationReason {
    /// Returns its label value in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::RecreateTerminatingOrFailed => "recreate_terminating_or_failed",
            Self::RecreateFailed => "recreate_failed",
        }
    }
}

/// The result of a write that the machine requested. Changes of Pods are already in their records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The Pod exists; its record is in the table.
    PodCreated(CreationId),
    /// The Pod was not created, or the result is unknown.
    PodNotCreated(CreationId, CreateError),
    /// The delete was accepted, or the Pod was gone already.
    PodDeleted(Slot),
    /// The delete was refused.
    PodNotDeleted(Slot),
    /// The finalizer is off, or the Pod was gone already.
    FinalizerRemoved(Slot),
    /// The finalizer is still on, or the result is unknown.
    FinalizerNotRemoved(Slot),
    /// The finalizer is still on, because the Pod had changed. Its record is current now.
    PodChanged(Slot),
    /// The status of the last [`Effect::WriteStatus`] is stored.
    StatusWritten,
    /// It is not stored, or the result is unknown.
    StatusNotWritten,
    /// The object of the last [`Effect::MakeGangObject`] exists.
    GangObjectMade,
    /// It was not created, or the result is unknown.
    GangObjectNotMade(CreateError),
}

impl Outcome {
    /// Returns true for the result of a write to a Pod.
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

/// The reason why a Pod or a gang object was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// Another object has that name.
    NameTaken,
    /// The namespace is being deleted: no Pod can be created in it any more.
    NamespaceTerminating,
    /// The API server refused the request.
    Refused,
    /// The request was refused for now, by the API server, a webhook or a quota. A retry is worthwhile after at most
    /// this long.
    RefusedFor(Duration),
    /// There was no response, or one that leaves the result open.
    Unknown,
    /// The request was not sent, because the Job wants no Pods any more.
    NotSent,
}

impl CreateError {
    /// Returns true if the error warrants an Event.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Refused | Self::RefusedFor(_) | Self::Unknown => true,
            Self::NameTaken | Self::NamespaceTerminating | Self::NotSent => false,
        }
    }
}
