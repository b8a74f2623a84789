//! Groups a Job's failed Pods by cause and by index, for `lakh status` and similar commands, and for the page at `/ui`.
//!
//! Must not: send requests, or predict whether an index is retried.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use compact_str::CompactString;

use lakh_model::{IndexSet, Time};
use lakh_wire::{PodCause, PodDetails};

/// Longest message that is kept, in characters.
const SHOWN: usize = 300;

/// Cause of a Pod's failure: the part that many failed Pods have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailureCause {
    /// Exit code of the first container that failed, if one did.
    pub exit_code: Option<i32>,
    /// Reason given by the kubelet or by the component that ended the Pod; empty where the exit code says it all.
    pub reason: CompactString,
    /// The container that failed, if the Pod has several.
    pub container: CompactString,
}

/// Returns the cause of a Pod's failure and its message.
fn cause(pod: &PodDetails) -> (FailureCause, &str) {
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

/// Pods that failed with the same cause.
#[derive(Clone, Debug)]
pub struct FailureGroup<'a> {
    /// The cause.
    pub cause: &'a FailureCause,
    /// Number of these Pods.
    pub pods: u32,
    /// The indexes of these Pods; empty if the Pods have none.
    pub indexes: IndexSet,
    /// The nodes that these Pods were on.
    pub nodes: BTreeSet<&'a str>,
    /// The Pod that failed last.
    pub last: &'a FailedPod,
}

/// A Pod that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedPod {
    /// Its name.
    pub name: CompactString,
    /// Its index, if the Job is Indexed.
    pub index: Option<u32>,
    /// Position of its cause in `FailedPods::causes`.
    cause: u32,
    /// The node that it was on.
    pub node: CompactString,
    /// When it failed.
    pub at: Time,
    /// Number of failures of its index, including this Pod.
    pub tries: u32,
    /// Failure message, cut to its first 300 characters.
    pub message: Option<Box<str>>,
}

/// The failed Pods of one Job, with each distinct cause stored once.
#[derive(Clone, Debug, Default)]
pub struct FailedPods {
    pods: Vec<FailedPod>,
    /// Distinct causes; Pods refer to them by position.
    causes: Vec<FailureCause>,
    places: BTreeMap<FailureCause, u32>,
}

impl FailedPods {
    /// Adds a failed Pod.
    pub fn take(&mut self, pod: &PodDetails) {
        let (cause, message) = cause(pod);
        let place = self.places.get(&cause).copied().unwrap_or_else(|| {
            let place = u32::try_from(self.causes.len()).unwrap_or(u32::MAX);
            self.causes.push(cause.clone());
            self.places.insert(cause, place);
            place
        });
        let message = message.trim();
        let message: String = message.chars().take(SHOWN).collect();
        self.pods.push(FailedPod {
            name: pod.name.clone(),
            index: pod.index,
            cause: place,
            node: pod.node.clone(),
            at: pod.finished().unwrap_or_default(),
            tries: pod.failures_before.saturating_add(1),
            message: (!message.is_empty()).then(|| message.into()),
        });
    }

    /// Iterates over the Pods.
    pub fn iter(&self) -> std::slice::Iter<'_, FailedPod> {
        self.pods.iter()
    }

    /// Returns the number of Pods.
    pub fn count(&self) -> usize {
        self.pods.len()
    }

    /// Returns the cause of a Pod's failure.
    pub fn cause_of(&self, pod: &FailedPod) -> &FailureCause {
        &self.causes[pod.cause as usize]
    }

    /// Groups the Pods by cause, the most frequent cause first.
    pub fn by_cause(&self) -> Vec<FailureGroup<'_>> {
        let mut groups: BTreeMap<u32, FailureGroup<'_>> = BTreeMap::new();
        for pod in &self.pods {
            let group = groups.entry(pod.cause).or_insert_with(|| FailureGroup {
                cause: self.cause_of(pod),
                pods: 0,
                indexes: IndexSet::default(),
                nodes: BTreeSet::new(),
                last: pod,
            });
            group.pods += 1;
            if let Some(index) = pod.index {
                group.indexes.insert(index);
            }
            if !pod.node.is_empty() {
                group.nodes.insert(&pod.node);
            }
            if pod.at > group.last.at {
                group.last = pod;
            }
        }
        let mut groups: Vec<FailureGroup<'_>> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.pods));
        groups
    }

    /// Returns each index's last failure and its number of failures, as far as that is known.
    pub fn by_index(&self) -> BTreeMap<u32, (&FailedPod, u32)> {
        let mut indexes: BTreeMap<u32, (&FailedPod, u32, u32)> = BTreeMap::new();
        for pod in &self.pods {
            let Some(index) = pod.index else { continue };
            let (last, seen, tries) = indexes.entry(index).or_insert((pod, 0, 0));
            *seen += 1;
            // With `backoffLimitPerIndex` a Pod carries the count of failures before it; the Pods of those may be
            // deleted.
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
}
