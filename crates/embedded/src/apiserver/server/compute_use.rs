//! Sums the CPU, memory and other resources that the Pods of a namespace require, if a quota limits them.
//!
//! Must not: know quotas, or the server.

use std::collections::BTreeMap;

use compact_str::CompactString;
use hashbrown::HashMap;

use crate::apiserver::object::{JsonView, Kind, Quantity, Stored, Tree};

/// An amount of a resource in nanos.
pub(super) type Nanos = i128;

/// Nanos in one unit.
pub(super) const ONE: Nanos = 1_000_000_000;

/// The resources that Pods use, by namespace. A namespace is present from the first count that finds a quota on CPU,
/// memory or another resource, until a count finds none.
#[derive(Clone, Debug, Default)]
pub(super) struct ComputeUse(HashMap<CompactString, PodUse>);

/// The requests and limits of Pods that have not terminated.
#[derive(Clone, Debug, Default)]
struct PodUse {
    pods: HashMap<CompactString, Requirements>,
    sum: Requirements,
}

/// Amounts by side (`requests` or `limits`) and resource.
pub(super) type Requirements = BTreeMap<(&'static str, CompactString), Nanos>;

impl ComputeUse {
    /// Starts to keep the sums of a namespace; returns false if they are kept already.
    pub(super) fn begin(&mut self, namespace: &str) -> bool {
        let is_new = !self.0.contains_key(namespace);
        if is_new {
            self.0.insert(namespace.into(), PodUse::default());
        }
        is_new
    }

    /// Drops the sums of a namespace.
    pub(super) fn end(&mut self, namespace: &str) {
        self.0.remove(namespace);
    }

    /// Updates the sums after a Pod was stored or removed.
    pub(super) fn note(&mut self, pod: &Stored, is_gone: bool) {
        if pod.kind != Kind::Pod {
            return;
        }
        let Some(used) = self.0.get_mut(&pod.namespace) else {
            return;
        };
        if is_gone || pod.has_ended() {
            if let Some(requirements) = used.pods.remove(&pod.name) {
                used.add(&requirements, -1);
            }
        } else if !used.pods.contains_key(&pod.name) {
            // Requirements of a Pod are immutable: the server has no `resize`.
            let requirements = requirements(&pod.tree());
            used.add(&requirements, 1);
            used.pods.insert(pod.name.clone(), requirements);
        }
    }

    /// Returns the sum of a namespace; `None` if it is not kept.
    pub(super) fn of(&self, namespace: &str, side: &'static str, resource: &str) -> Option<Nanos> {
        let sum = &self.0.get(namespace)?.sum;
        let found = sum.get(&(side, resource.into()));
        Some(found.copied().unwrap_or_default())
    }
}

impl PodUse {
    fn add(&mut self, requirements: &Requirements, sign: Nanos) {
        for (key, amount) in requirements {
            *self.sum.entry(key.clone()).or_default() += sign * amount;
        }
    }
}

/// The resources that a Pod requires, including its overhead. The base is the sum of its containers and sidecars. It is
/// raised to the need of any init container plus the sidecars before it.
#[doc(alias = "PodRequests")]
pub(super) fn requirements(pod: &Tree) -> Requirements {
    let spec = JsonView::from(pod).at("spec");
    let mut all = Requirements::new();
    for side in ["requests", "limits"] {
        let mut running: BTreeMap<CompactString, Nanos> = BTreeMap::new();
        let mut largest: BTreeMap<CompactString, Nanos> = BTreeMap::new();
        for container in spec.at("initContainers").items() {
            let stays = container.at("restartPolicy").text() == "Always";
            for (resource, amount) in amounts(container.at("resources").at(side)) {
                let before = running.entry(resource.clone()).or_default();
                let with_it = *before + amount;
                if stays {
                    *before = with_it;
                }
                let largest = largest.entry(resource).or_default();
                *largest = with_it.max(*largest);
            }
        }
        for container in spec.at("containers").items() {
            for (resource, amount) in amounts(container.at("resources").at(side)) {
                *running.entry(resource).or_default() += amount;
            }
        }
        for (resource, amount) in largest {
            let running = running.entry(resource).or_default();
            *running = amount.max(*running);
        }
        for (resource, amount) in amounts(spec.at("overhead")) {
            // Overhead adds no limit for a resource without limits.
            match running.get_mut(&resource) {
                Some(running) => *running += amount,
                None if side == "requests" => drop(running.insert(resource, amount)),
                None => {}
            }
        }
        all.extend(
            running
                .into_iter()
                .map(|(resource, amount)| ((side, resource), amount)),
        );
    }
    all
}

fn amounts(list: JsonView<'_>) -> impl Iterator<Item = (CompactString, Nanos)> {
    list.tree().iter().filter_map(|(resource, value)| {
        let amount = Quantity::of_json(value)?;
        Some((resource.into(), amount.nanos()))
    })
}
