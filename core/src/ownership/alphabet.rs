//! The requests of the claims on Pods, and the answers to them.

use compact_str::CompactString;

use crate::model::{JobId, Uid};

/// The patches that are due for a Job, all at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the Job is held until the round is answered"]
pub struct Round {
    /// The Job.
    pub job: JobId,
    /// Pods to adopt, if a live read finds the Job there and not being deleted.
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

/// How a patch of a [`Round`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchAnswer {
    /// The server has it as of this version.
    Done(u64),
    /// There is nothing to patch any more; the watch will show why.
    Ignored,
    /// It did not happen, and has to be tried again.
    Failed,
    /// Nobody knows whether it happened; it has to be tried again.
    Unknown,
}

/// The Jobs that may go on once the store has the event that this answers.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "the Jobs are held until it is settled"]
pub struct Told(pub(super) Vec<JobId>);
