//! What the collector knows of Pods and nodes, indexed by its questions.
//!
//! Responsible for: sets that are updated by each change, so that a pass looks only at candidates. Must not: decide
//! which of them are removed.

use std::collections::{BTreeMap, BTreeSet};

use compact_str::CompactString;
use hashbrown::HashMap;

use crate::model::{Time, Uid};

/// The phase of a Pod, as far as the collector distinguishes phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Pending, Running or Unknown: it may still get somewhere.
    Active,
    /// Succeeded or Failed.
    Ended,
    /// No phase, or one that does not exist. It counts as over, but nobody has said how it ended.
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

/// A Pod, as far as it matters here.
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
    /// When it was made.
    pub created: Time,
    /// How far it is.
    pub phase: Phase,
    /// Whether it failed because its node had no room for it.
    pub evicted: bool,
    /// Whether its deletion was asked for.
    pub deleting: bool,
}

/// A node, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: CompactString,
    /// Whether it says that it is Ready; one that does not say is not.
    pub ready: bool,
    /// Whether somebody has marked it as out of service by the taint of that name.
    pub out_of_service: bool,
}

/// A Pod's place among those that go: evicted ones first, then old ones, then by name.
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

/// All Pods that may ever have to go, and all nodes.
///
/// A Pod that waits for a node is of no interest, and one that has ended only where such Pods are
/// counted or it is on a node. Work per change grows with the logarithm of the number of Pods.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Whether Pods that are over are counted.
    counts_terminated: bool,
    pods: HashMap<Uid, PodFacts>,
    by_node: BTreeMap<CompactString, BTreeSet<Uid>>,
    terminated: BTreeSet<Rank>,
    deleting: BTreeSet<Rank>,
    /// The nodes that there are, and which of them hold on to Pods that they will never end: those
    /// that are out of service and not ready.
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
        // As a rule a Pod has no place but that on its node, and stays there.
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

    /// Whether it is counted as one that is over.
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

    /// How many Pods are over, where they are counted.
    pub(super) fn terminated_count(&self) -> usize {
        self.terminated.len()
    }

    /// The Pods that are over, the first to go first.
    pub(super) fn terminated(&self) -> impl Iterator<Item = &PodFacts> {
        self.terminated.iter().map(|rank| &self.pods[&rank.uid])
    }

    /// The Pods that are being deleted, in the same order.
    pub(super) fn deleting(&self) -> impl Iterator<Item = &PodFacts> {
        self.deleting.iter().map(|rank| &self.pods[&rank.uid])
    }

    /// The Pods of a node.
    pub(super) fn on_node(&self, name: &str) -> impl Iterator<Item = &PodFacts> {
        let uids = self.by_node.get(name).into_iter().flatten();
        uids.map(|uid| &self.pods[uid])
    }

    /// Names of nodes that have Pods and do not exist.
    pub(super) fn missing_nodes(&self) -> impl Iterator<Item = &CompactString> {
        let names = self.by_node.keys();
        names.filter(|name| !self.nodes.contains_key(*name))
    }

    pub(super) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Whether a node will never end its Pods.
    pub(super) fn is_out_of_service(&self, name: &str) -> bool {
        self.nodes.get(name) == Some(&true)
    }
}
