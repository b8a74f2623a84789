//! Schedules Pods to hollow nodes.
//!
//! Responsible for: nodes in turn and, if they have a capacity, their allocatable resources and the Pods that wait for
//! them. Must not: hold the reports about a Pod (`reservation`).
//!
//! Without a capacity, the cost of a Pod does not depend on the number of nodes. With one, a Pod costs a check of each
//! node, and of each class of pending Pods when a node releases resources.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    KubeletOptions, NodeCapacity,
    allocatable::Allocatable,
    pending_queue::{FitError, PendingQueue},
    pods::PodId,
    resources::Demand,
    shape::Latest,
};

/// Binds Pods to nodes, round-robin.
#[derive(Debug)]
pub(super) struct Scheduler {
    nodes: Nodes,
    /// Nodes have a capacity; otherwise the fields below are unused.
    is_limited: bool,
    pub(super) allocatable: Allocatable,
    pub(super) pending: PendingQueue,
    /// A node has released resources since the pending Pods were last tried.
    has_freed: bool,
    pub(super) demands: Latest<Demand>,
}

/// The nodes, and the position of the round-robin.
#[derive(Debug)]
struct Nodes {
    count: usize,
    next: usize,
    /// Nodes that no longer exist; Pods are not bound to them.
    gone: BTreeSet<usize>,
}

impl Nodes {
    fn existing(&self) -> impl Iterator<Item = usize> {
        (0..self.count).filter(|node| !self.gone.contains(node))
    }

    /// Returns the next suitable node in turn.
    fn take_where(&mut self, suits: impl Fn(usize) -> bool) -> Option<usize> {
        let mut in_turn = (self.next..self.count).chain(0..self.next);
        let node = in_turn.find(|node| !self.gone.contains(node) && suits(*node))?;
        self.next = (node + 1) % self.count;
        Some(node)
    }
}

/// Decision on a pending Pod: the node to bind it to, or the reason to wait.
pub(super) type Ruling = (PodId, Result<usize, Arc<str>>);

impl Scheduler {
    pub(super) fn new(options: &KubeletOptions) -> Self {
        let nodes = options.node_names.len();
        let capacity = options.capacity.as_ref();
        let limits = capacity.map(NodeCapacity::amounts).unwrap_or_default();
        Self {
            nodes: Nodes {
                count: nodes,
                next: 0,
                gone: BTreeSet::new(),
            },
            is_limited: capacity.is_some(),
            allocatable: Allocatable::new(limits, nodes),
            pending: PendingQueue::default(),
            has_freed: false,
            demands: Latest::default(),
        }
    }

    /// Returns true if Pods' requests matter.
    pub(super) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// Returns the next node in turn, regardless of its resources; none if there are no nodes.
    pub(super) fn take_node(&mut self) -> Option<usize> {
        self.nodes.take_where(|_| true)
    }

    /// Sets whether Pods may be bound to a node.
    pub(super) fn set_exists(&mut self, node: usize, exists: bool) {
        if exists {
            self.has_freed |= self.nodes.gone.remove(&node);
        } else {
            self.nodes.gone.insert(node);
        }
    }

    /// Queues a Pod; returns its turn.
    pub(super) fn join(&mut self, pod: PodId, demand: &Arc<Demand>) -> u64 {
        let turn = self.pending.join(pod, demand);
        if let Some(known) = self.pending.fit_error(demand) {
            // The error may be out of date.
            let fit_error = match known.allocatable_version == self.allocatable.version() {
                true => known.clone(),
                false => explain(&self.allocatable, &self.nodes, demand),
            };
            self.pending.set_fit_error(demand, fit_error);
        }
        turn
    }

    /// Releases the reservation of a Pod.
    pub(super) fn release(&mut self, node: usize, demand: &Demand) {
        self.allocatable.release(node, demand);
        self.has_freed = true;
    }

    /// Returns why a node rejects a Pod that another client bound to it: reason and message.
    pub(super) fn refusal(&self, node: usize, demand: &Demand) -> Option<(String, String)> {
        let insufficient = self.allocatable.insufficient(node, demand).next()?;
        Some(insufficient.for_kubelet())
    }

    /// Returns the next decision on a pending Pod. Pods that have waited longest come first; a Pod that does not fit
    /// does not block others.
    pub(super) fn next_ruling(&mut self) -> Option<Ruling> {
        loop {
            if std::mem::take(&mut self.has_freed) {
                self.pending.open_all();
            }
            if let Some((pod, message)) = self.pending.next_unreported() {
                return Some((pod, Err(message)));
            }
            let (turn, pod, demand) = self.pending.first()?;
            let has_room = |node| self.allocatable.fits(node, &demand);
            if let Some(node) = self.nodes.take_where(has_room) {
                self.allocatable.reserve(node, &demand);
                self.pending.advance(turn, &demand);
                return Some((pod, Ok(node)));
            }
            let fit_error = explain(&self.allocatable, &self.nodes, &demand);
            self.pending.close(turn, &demand, fit_error);
        }
    }
}

/// Explains why no node takes such a Pod, in kube-scheduler's words. Nothing is preempted here, so the preemption part
/// reads as if no Pod had a lower priority.
fn explain(allocatable: &Allocatable, nodes: &Nodes, demand: &Demand) -> FitError {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut preemption: BTreeMap<&str, usize> = BTreeMap::new();
    let mut count = 0;
    for node in nodes.existing() {
        count += 1;
        let mut is_for_ever = false;
        for insufficient in allocatable.insufficient(node, demand) {
            is_for_ever |= insufficient.is_for_ever();
            *reasons.entry(insufficient.for_scheduler()).or_default() += 1;
        }
        let outlook = if is_for_ever { HELPLESS } else { NO_VICTIMS };
        *preemption.entry(outlook).or_default() += 1;
    }
    let message = if count == 0 {
        "no nodes available to schedule pods".to_owned()
    } else {
        format!(
            "0/{count} nodes are available: {}. no new claims to deallocate, preemption: \
             0/{count} nodes are available: {}.",
            counted(reasons),
            counted(preemption)
        )
    };
    FitError {
        message: message.into(),
        allocatable_version: allocatable.version(),
    }
}

/// Lists the number of nodes per reason, sorted as text.
fn counted<T: std::fmt::Display>(reasons: BTreeMap<T, usize>) -> String {
    let mut texts: Vec<String> = reasons
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    texts.sort_unstable();
    texts.join(", ")
}

const HELPLESS: &str = "Preemption is not helpful for scheduling";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
