//! Defines the requests that claims on Pods produce, and their outcomes.

use compact_str::CompactString;

use crate::model::{JobId, Uid};

/// The patches due for a Job, sent together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the Job is held until the round is answered"]
pub struct Round {
    /// The Job.
    pub job: JobId,
    /// Pods to adopt, if a live read finds that the Job exists and is not being deleted.
    pub adopt: Vec<Claimed>,
    /// Pods that its selector no longer matches.
    pub release: Vec<Claimed>,
}

/// A Pod that a Job claims or releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Its UID, which guards the patch.
    pub pod: Uid,
    /// Its name.
    pub name: CompactString,
}

impl Claimed {
    pub(super) fn new(pod: Uid, name: &CompactString) -> Self {
        let name = name.clone();
        Self { pod, name }
    }
}

/// A Pod without an owner that has the finalizer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "syncOrphanPod")]
pub struct Orphan {
    /// Its UID, which guards the patch.
    pub uid: Uid,
    /// Its namespace.
    pub namespace: CompactString,
    /// Its name.
    pub name: CompactString,
}

/// The outcome of a patch of a [`Round`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchAnswer {
    /// The server applied it as of this resourceVersion.
    Done(u64),
    /// There is nothing left to patch; the watch will show why.
    Ignored,
    /// The patch was not applied. It must be retried.
    Failed,
    /// Unknown whether the patch was applied. It must be retried.
    Unknown,
}

/// The Jobs that may go on once the store has the event that returned this.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "the Jobs are held until it is settled"]
pub struct Told(pub(super) Vec<JobId>);
