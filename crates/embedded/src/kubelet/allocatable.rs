//! Tracks the resources that each hollow node can still allocate.
//!
//! Responsible for: sums of Pods' requests, and the resources that are insufficient for another Pod. Must not: choose a
//! node.

use super::resources::{Amount, Demand};

/// The resources of all nodes.
#[doc(alias = "NodeInfo")]
#[derive(Debug)]
pub(super) struct Allocatable {
    /// Capacity of every node.
    limits: Vec<Amount>,
    /// Reserved amounts by node, in the order of the limits.
    used: Vec<Vec<i64>>,
    /// Raised by each change.
    version: u64,
}

/// A resource of which a node has too little.
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

    /// Returns a number that differs after any change.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Returns true if a Pod fits on a node.
    pub(super) fn fits(&self, node: usize, demand: &Demand) -> bool {
        self.insufficient(node, demand).next().is_none()
    }

    /// Returns the resources of which a node has too little for a Pod.
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

    /// Reserves the requests of a Pod.
    pub(super) fn reserve(&mut self, node: usize, demand: &Demand) {
        self.change(node, demand, i64::saturating_add);
    }

    /// Releases the reservation of a Pod.
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
    /// Returns true if even the empty node has too little of the resource.
    pub(super) fn is_for_ever(&self) -> bool {
        self.requested > self.capacity && self.resource != "pods"
    }

    /// Returns the scheduler's message.
    pub(super) fn for_scheduler(&self) -> String {
        match self.resource {
            "pods" => "Too many pods".to_owned(),
            resource => format!("Insufficient {resource}"),
        }
    }

    /// Returns the kubelet's reason and message.
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
