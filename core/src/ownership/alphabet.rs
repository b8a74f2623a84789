//! What the claims on Pods ask for, and what they hear of it.

use compact_str::CompactString;

use crate::model::{JobId, Uid};

/// What is to be done for a Job, all at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the Job is held until the round is answered"]
pub struct Round {
    /// The Job.
    pub job: JobId,
    /// Pods that become its own, if a live look finds it there and not being deleted.
    pub adopt: Vec<Claimed>,
    /// Pods that it no longer means.
    pub release: Vec<Claimed>,
}

/// A Pod that a Job claims, or lets go.
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

/// A Pod that nobody owns and that carries our finalizer.
#[derive(Clone, Debug, PartialEq, Eq)]
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
pub enum Answer {
    /// The server has it as of this version.
    Done(u64),
    /// There is nothing to be patched any more; news of the Pod will say what there is.
    Ignored,
    /// It is to be tried again.
    Failed,
}

/// Jobs that may go on once the store has the news that this was the answer to.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "the Jobs are held until it is settled"]
pub struct Told(pub(super) Vec<JobId>);

impl Told {
    /// Whether no Job waits for it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
