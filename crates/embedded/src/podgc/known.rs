//! Indexes the Pods and nodes that the collector tracks.
//!
//! Responsible for: sets that each event updates, so that a pass looks only at candidates. Must not: decide which Pods
//! are removed.

use std::collections::{BTreeMap, BTreeSet};

use compact_str::CompactString;
use hashbrown::HashMap;

use crate::model::{Time, Uid};

/// Phase of a Pod, as far as the collector distinguishes phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Pending, Running or Unknown: the Pod may still finish.
    Active,
    /// Succeeded or Failed.
    Ended,
    /// No phase or an unknown one. The Pod counts as terminated, but its result is unknown.
    Strange,
}

impl Phase {
    /// Reads `status.phase`.
    pub fn read(text: &str) -> Self {
        match text {
            "Pending" | "Running" | "Unknown" => Self::Active,
            "Succeeded" | "Failed" => Self::Ended,
            _ => Self::Strange,
        }
    }
}

/// The facts about a Pod that the collector needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Its namespace.
    pub namespace: CompactString,
    /// Its name.
    pub name: CompactString,
    /// Its UID.
    pub uid: Uid,
    /// The name of its node; empty if it has none.
    pub node: CompactString,
    /// Its generation; 0 if it has none.
    pub generation: i64,
    /// Creation time.
    pub created: Time,
    /// Its phase.
    pub phase: Phase,
    /// The Pod failed with reason `Evicted`.
    pub evicted: bool,
    /// The Pod has a deletion timestamp.
    pub deleting: bool,
}

/// The facts about a node that the collector needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: CompactString,
    /// The node's Ready condition is True; a missing condition counts as not ready.
    pub ready: bool,
    /// The node has the out-of-service taint.
    pub out_of_service: bool,
}

/// Order in which Pods are removed: evicted Pods first, then older ones, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    not_evicted: bool,
    created: Time,
    name: CompactString,
    uid: Uid,
}

impl Rank {
    fn of(pod: &PodFacts) -> Self {
        Self {
            not_evicted: !pod.evicted,
            created: pod.created,
            name: pod.name.clone(),
            uid: pod.uid,
        }
    }
}

/// All Pods that may have to be removed, and all nodes.
///
/// Keeps Pods that are on a node, are being deleted, or count as terminated. Work per event grows with the logarithm of
/// the number of Pods.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Terminated Pods are counted.
    counts_terminated: bool,
    pods: HashMap<Uid, PodFacts>,
    by_node: BTreeMap<CompactString, BTreeSet<Uid>>,
    terminated: BTreeSet<Rank>,
    deleting: BTreeSet<Rank>,
    /// Existing nodes. The value is true for a node that will never end its Pods: one that is out of service and not
    /// ready.
    nodes: BTreeMap<CompactString, bool>,
}

impl Known {
    pub(super) fn new(counts_terminated: bool) -> Self {
        Self {
            counts_terminated,
            ..Self::default()
        }
    }

    pub(super) fn put_pod(&mut self, pod: PodFacts) {
        let known = self.pods.get(&pod.uid);
        if known == Some(&pod) {
            return;
        }
        // Fast path: most Pods are only in the index of their node, and stay there.
        let is_ranked = |pod: &PodFacts| pod.deleting || self.is_terminated(pod);
        let stays = |known: &PodFacts| known.node == pod.node && !is_ranked(known);
        if known.is_some_and(stays) && !is_ranked(&pod) {
            self.pods.insert(pod.uid, pod);
            return;
        }
        self.remove_pod(pod.uid);
        let terminated = self.is_terminated(&pod);
        if terminated {
            self.terminated.insert(Rank::of(&pod));
        }
        if pod.deleting {
            self.deleting.insert(Rank::of(&pod));
        }
        if !pod.node.is_empty() {
            let on_node = self.by_node.entry(pod.node.clone()).or_default();
            on_node.insert(pod.uid);
        }
        if terminated || pod.deleting || !pod.node.is_empty() {
            self.pods.insert(pod.uid, pod);
        }
    }

    /// Returns true if the Pod counts as terminated.
    fn is_terminated(&self, pod: &PodFacts) -> bool {
        self.counts_terminated && pod.phase != Phase::Active
    }

    pub(super) fn remove_pod(&mut self, uid: Uid) {
        let Some(pod) = self.pods.remove(&uid) else {
            return;
        };
        let rank = Rank::of(&pod);
        self.terminated.remove(&rank);
        self.deleting.remove(&rank);
        if let Some(on_node) = self.by_node.get_mut(&pod.node) {
            on_node.remove(&uid);
            if on_node.is_empty() {
                self.by_node.remove(&pod.node);
            }
        }
    }

    pub(super) fn forget_pods(&mut self) {
        self.pods.clear();
        self.by_node.clear();
        self.terminated.clear();
        self.deleting.clear();
    }

    pub(super) fn put_node(&mut self, node: NodeFacts) {
        self.nodes
            .insert(node.name, node.out_of_service && !node.ready);
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    pub(super) fn forget_nodes(&mut self) {
        self.nodes.clear();
    }

    /// Returns the number of terminated Pods; 0 if they are not counted.
    pub(super) fn terminated_count(&self) -> usize {
        self.terminated.len()
    }

    /// Returns the terminated Pods in order of removal.
    pub(super) fn terminated(&self) -> impl Iterator<Item = &PodFacts> {
        self.terminated.iter().map(|rank| &self.pods[&rank.uid])
    }

    /// Returns the Pods that are being deleted, in the same order.
    pub(super) fn deleting(&self) -> impl Iterator<Item = &PodFacts> {
        self.deleting.iter().map(|rank| &self.pods[&rank.uid])
    }

    /// Returns the Pods of a node.
    pub(super) fn on_node(&self, name: &str) -> impl Iterator<Item = &PodFacts> {
        let uids = self.by_node.get(name).into_iter().flatten();
        uids.map(|uid| &self.pods[uid])
    }

    /// Returns the names of nodes that have Pods but do not exist.
    pub(super) fn missing_nodes(&self) -> impl Iterator<Item = &CompactString> {
        let names = self.by_node.keys();
        names.filter(|name| !self.nodes.contains_key(*name))
    }

    pub(super) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Returns true if the node will never end its Pods.
    pub(super) fn is_out_of_service(&self, name: &str) -> bool {
        self.nodes.get(name) == Some(&true)
    }
}
