//! What is left on each hollow node.
//!
//! Responsible for: sums of what Pods take, and what is lacking for another. Must not: choose a node.

use super::resources::{Amount, Demand};

/// The room of all nodes.
#[derive(Debug)]
pub(super) struct Room {
    /// What every node has for Pods.
    limits: Vec<Amount>,
    /// What is taken, by node, in the order of the limits.
    used: Vec<Vec<i64>>,
    /// Counts the changes.
    changes: u64,
}

/// Too little of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lack<'a> {
    pub(super) resource: &'a str,
    pub(super) requested: i64,
    pub(super) used: i64,
    pub(super) capacity: i64,
}

impl Room {
    pub(super) fn new(limits: Vec<Amount>, nodes: usize) -> Self {
        Self {
            used: vec![vec![0; limits.len()]; nodes],
            limits,
            changes: 0,
        }
    }

    /// A number that tells whether anything has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether a Pod has room on a node.
    pub(super) fn fits(&self, node: usize, demand: &Demand) -> bool {
        self.lacks(node, demand).next().is_none()
    }

    /// What is lacking on a node for a Pod.
    pub(super) fn lacks<'a>(
        &'a self,
        node: usize,
        demand: &'a Demand,
    ) -> impl Iterator<Item = Lack<'a>> {
        let amounts = demand.amounts().iter();
        amounts.filter_map(move |(resource, requested)| {
            let place = self.place(resource);
            let lack = Lack {
                resource,
                requested: *requested,
                used: place.map_or(0, |place| self.used[node][place]),
                capacity: place.map_or(0, |place| self.limits[place].1),
            };
            (lack.requested > lack.capacity.saturating_sub(lack.used)).then_some(lack)
        })
    }

    /// A Pod takes its room.
    pub(super) fn take(&mut self, node: usize, demand: &Demand) {
        self.change(node, demand, i64::saturating_add);
    }

    /// A Pod gives it back.
    pub(super) fn give_back(&mut self, node: usize, demand: &Demand) {
        self.change(node, demand, i64::saturating_sub);
    }

    fn change(&mut self, node: usize, demand: &Demand, by: fn(i64, i64) -> i64) {
        self.changes += 1;
        for (resource, amount) in demand.amounts() {
            if let Some(place) = self.place(resource) {
                let used = &mut self.used[node][place];
                *used = by(*used, *amount);
            }
        }
    }

    fn place(&self, resource: &str) -> Option<usize> {
        self.limits.iter().position(|(name, _)| name == resource)
    }
}

impl Lack<'_> {
    /// Whether the node lacks it also when it is empty.
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
