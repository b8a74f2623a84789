//! What is remembered of Jobs that must wait, of claims and of Pods that patches are under way to.

use std::collections::BTreeMap;

use compact_str::CompactString;

use crate::model::{DecodedPod, JobId, Monotonic, Uid};

use super::Orphan;

/// A Job that must wait.
#[derive(Debug, Default)]
pub(super) struct Hold {
    pub(super) claims: BTreeMap<Uid, Claim>,
    /// Claims that are no more, by news that the store may not have yet.
    pub(super) unsettled: usize,
    pub(super) under_way: bool,
    pub(super) failures: u32,
    pub(super) retry_at: Option<Monotonic>,
}

/// A Pod that is to come to a Job, or to leave it.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) kind: ClaimKind,
    pub(super) name: CompactString,
    pub(super) state: ClaimState,
    /// It may have been met already: a patch had no clear answer.
    pub(super) is_doubted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimKind {
    Adopt,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimState {
    Wanted,
    Sent,
    /// Sent, and unwanted by what was told since: it may yet come to pass.
    Withdrawn,
    /// Events of the Pod before this version are no longer true.
    Done(u64),
}

/// A Pod that was adopted, before the watch shows it.
#[derive(Debug)]
pub(super) struct Adopted {
    pub(super) version: u64,
    pub(super) namespace: CompactString,
}

/// A Pod of nobody that is to lose our finalizer.
#[derive(Debug)]
pub(super) struct Freeing {
    pub(super) orphan: Orphan,
    pub(super) failures: u32,
    pub(super) retry_at: Option<Monotonic>,
}

/// What is to be tried again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Retry {
    Round(JobId),
    Free(Uid),
}

impl Freeing {
    pub(super) fn of(pod: &DecodedPod<'_>) -> Self {
        let orphan = Orphan {
            uid: pod.record.uid,
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
        };
        Self {
            orphan,
            failures: 0,
            retry_at: None,
        }
    }
}

impl Claim {
    /// Whether it was done to a version of the Pod after this one.
    pub(super) fn is_newer_than(&self, version: u64) -> bool {
        matches!(self.state, ClaimState::Done(at) if at > version)
    }
}

impl Hold {
    pub(super) fn is_over(&self) -> bool {
        self.claims.is_empty() && self.unsettled == 0
    }
}

/// A patch that is under way to a Pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patching {
    /// What it does for a Job; none if it frees the Pod.
    pub(super) kind: Option<ClaimKind>,
    /// The newest version of the Pod that the watch has shown since.
    pub(super) seen: u64,
}

impl Patching {
    pub(super) fn of(kind: Option<ClaimKind>) -> Self {
        Self { kind, seen: 0 }
    }
}
