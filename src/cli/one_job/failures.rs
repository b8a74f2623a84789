//! What Pods failed of, by cause and by index.
//!
//! Must not: ask anybody, or know what will become of an index.

use std::{collections::BTreeMap, fmt};

use compact_str::CompactString;

use crate::{
    model::IndexSet,
    wire::{PodCause, PodDetails},
};

use super::census::{FailedPod, PodCensus};

/// What a Pod failed of: what is alike in many.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) struct FailureCause {
    /// Of the first container that failed, if one did.
    pub(in crate::cli) exit_code: Option<i32>,
    /// In a word of the kubelet or of whoever ended the Pod; empty where the code says it all.
    pub(in crate::cli) reason: CompactString,
    /// The container that failed, if the Pod has several.
    pub(in crate::cli) container: CompactString,
}

/// What a Pod failed of, and what there is to be said of it.
pub(super) fn cause(pod: &PodDetails) -> (FailureCause, &str) {
    let PodCause {
        exit_code,
        reason,
        container,
        message,
    } = pod.cause();
    let is_alone = pod.containers.len() == 1;
    let cause = FailureCause {
        exit_code,
        reason: reason.into(),
        container: container.filter(|_| !is_alone).unwrap_or_default().into(),
    };
    (cause, message)
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            exit_code,
            reason,
            container,
        } = self;
        match (exit_code, reason.as_str()) {
            (None, "") => f.write_str("no exit code")?,
            (None, reason) => f.write_str(reason)?,
            (Some(code), "") => write!(f, "exit code {code}")?,
            (Some(code), reason) => write!(f, "exit code {code} ({reason})")?,
        }
        match container.as_str() {
            "" => Ok(()),
            name => write!(f, " of container {name}"),
        }
    }
}

/// Pods that failed of the same.
#[derive(Clone, Debug)]
pub(in crate::cli) struct FailureGroup<'a> {
    pub(in crate::cli) cause: &'a FailureCause,
    pub(in crate::cli) pods: u32,
    /// The indexes of these Pods; none where Pods have none.
    pub(in crate::cli) indexes: IndexSet,
    pub(in crate::cli) last: &'a FailedPod,
}

/// By cause, the most frequent first.
pub(in crate::cli) fn by_cause(census: &PodCensus) -> Vec<FailureGroup<'_>> {
    let mut groups: BTreeMap<u32, FailureGroup<'_>> = BTreeMap::new();
    for pod in &census.failed {
        let group = groups.entry(pod.cause).or_insert_with(|| FailureGroup {
            cause: census.cause_of(pod),
            pods: 0,
            indexes: IndexSet::default(),
            last: pod,
        });
        group.pods += 1;
        if let Some(index) = pod.index {
            group.indexes.insert(index);
        }
        if pod.at > group.last.at {
            group.last = pod;
        }
    }
    let mut groups: Vec<FailureGroup<'_>> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.pods));
    groups
}

/// The last failure of each index, with how often it has failed as far as that is known.
pub(in crate::cli) fn by_index(census: &PodCensus) -> BTreeMap<u32, (&FailedPod, u32)> {
    let mut indexes: BTreeMap<u32, (&FailedPod, u32, u32)> = BTreeMap::new();
    for pod in &census.failed {
        let Some(index) = pod.index else { continue };
        let (last, seen, tries) = indexes.entry(index).or_insert((pod, 0, 0));
        *seen += 1;
        // Where failures count by index, a Pod tells of those before it, which may be gone.
        *tries = pod.tries.max(*tries).max(*seen);
        if (pod.tries, pod.at) > (last.tries, last.at) {
            *last = pod;
        }
    }
    let indexes = indexes.into_iter();
    indexes
        .map(|(index, (last, _, tries))| (index, (last, tries)))
        .collect()
}
