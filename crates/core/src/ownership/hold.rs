//! Defines the state that [`Claims`](super::Claims) keeps: Jobs on hold, their claims, and Pods with patches in flight.

use std::collections::BTreeMap;

use compact_str::CompactString;

use crate::model::{DecodedPod, JobId, Monotonic, Uid};

use super::Orphan;

/// A Job on hold: it waits for the outcome of its claims.
#[derive(Debug, Default)]
pub(super) struct Hold {
    pub(super) claims: BTreeMap<Uid, Claim>,
    /// The number of closed claims that still wait for the store to have the event that closed them.
    pub(super) unsettled: usize,
    pub(super) under_way: bool,
    pub(super) failures: u32,
    pub(super) retry_at: Option<Monotonic>,
}

/// A pending adoption or release of a Pod by a Job.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) kind: ClaimKind,
    pub(super) name: CompactString,
    pub(super) state: ClaimState,
    /// A patch ended without a clear response, so the server may have applied it.
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
    /// Sent, but later events made it unwanted. The server may still apply the patch.
    Withdrawn,
    /// Applied as of this resourceVersion. Older events of the Pod are stale.
    Done(u64),
}

/// A Pod that was adopted and not yet shown by the watch.
#[derive(Debug)]
pub(super) struct Adopted {
    pub(super) version: u64,
    pub(super) namespace: CompactString,
}

/// A Pod without an owner that must lose our finalizer.
#[derive(Debug)]
pub(super) struct Freeing {
    pub(super) orphan: Orphan,
    pub(super) failures: u32,
    pub(super) retry_at: Option<Monotonic>,
}

/// The subject of a scheduled retry.
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
    /// Returns true if the patch was applied after this version of the Pod.
    pub(super) fn is_newer_than(&self, version: u64) -> bool {
        matches!(self.state, ClaimState::Done(at) if at > version)
    }
}

impl Hold {
    pub(super) fn is_over(&self) -> bool {
        self.claims.is_empty() && self.unsettled == 0
    }
}

/// A patch in flight to a Pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patching {
    /// Its purpose for a Job; none if it removes the finalizer.
    pub(super) kind: Option<ClaimKind>,
    /// The newest resourceVersion of the Pod that the watch has shown since.
    pub(super) seen: u64,
}

impl Patching {
    pub(super) fn of(kind: Option<ClaimKind>) -> Self {
        Self { kind, seen: 0 }
    }
}
