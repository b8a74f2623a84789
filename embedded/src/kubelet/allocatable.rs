//! What each hollow node can still allocate.
//!
//! Responsible for: sums of what Pods request, and what is insufficient for another. Must not: choose a node.

use super::resources::{Amount, Demand};

/// The resources of all nodes.
#[doc(alias = "NodeInfo")]
#[derive(Debug)]
pub(super) struct Allocatable {
    /// What every node has for Pods.
    limits: Vec<Amount>,
    /// What is reserved, by node, in the order of the limits.
    used: Vec<Vec<i64>>,
    /// Raised by each change.
    version: u64,
}

/// Too little of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InsufficientResource<'a> {
    pub(super) resource: &'a str,
    pub(super) requested: i64,
    pub(super) used: i64,
    pub(super) capacity: i64,
}

impl Allocatable {
    pub(super) fn new(limits: Vec<Amount>, nodes: usize) -> Self {
        Self {
            used: vec![vec![0; limits.len()]; nodes],
            limits,
            version: 0,
        }
    }

    /// Differs if anything has changed.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Whether a Pod fits on a node.
    pub(super) fn fits(&self, node: usize, demand: &Demand) -> bool {
        self.insufficient(node, demand).next().is_none()
    }

    /// What a node has too little of for a Pod.
    pub(super) fn insufficient<'a>(
        &'a self,
        node: usize,
        demand: &'a Demand,
    ) -> impl Iterator<Item = InsufficientResource<'a>> {
        let amounts = demand.amounts().iter();
        amounts.filter_map(move |(resource, requested)| {
            let position = self.position(resource);
            let insufficient = InsufficientResource {
                resource,
                requested: *requested,
                used: position.map_or(0, |position| self.used[node][position]),
                capacity: position.map_or(0, |position| self.limits[position].1),
            };
            (insufficient.requested > insufficient.capacity.saturating_sub(insufficient.used))
                .then_some(insufficient)
        })
    }

    /// Reserves what a Pod requests.
    pub(super) fn reserve(&mut self, node: usize, demand: &Demand) {
        self.change(node, demand, i64::saturating_add);
    }

    /// Releases what a Pod reserved.
    pub(super) fn release(&mut self, node: usize, demand: &Demand) {
        self.change(node, demand, i64::saturating_sub);
    }

    fn change(&mut self, node: usize, demand: &Demand, by: fn(i64, i64) -> i64) {
        self.version += 1;
        for (resource, amount) in demand.amounts() {
            if let Some(position) = self.position(resource) {
                let used = &mut self.used[node][position];
                *used = by(*used, *amount);
            }
        }
    }

    fn position(&self, resource: &str) -> Option<usize> {
        self.limits.iter().position(|(name, _)| name == resource)
    }
}

impl InsufficientResource<'_> {
    /// Whether even the empty node has too little of it.
    pub(super) fn is_for_ever(&self) -> bool {
        self.requested > self.capacity && self.resource != "pods"
    }

    /// The scheduler's words.
    pub(super) fn for_scheduler(&self) -> String {
        match self.resource {
            "pods" => "Too many pods".to_owned(),
            resource => format!("Insufficient {resource}"),
        }
    }

    /// The kubelet's reason and its words.
    pub(super) fn for_kubelet(&self) -> (String, String) {
        let Self {
            resource,
            requested,
            used,
            capacity,
        } = self;
        let message = format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, \
             capacity: {capacity}"
        );
        (format!("OutOf{resource}"), message)
    }
}
