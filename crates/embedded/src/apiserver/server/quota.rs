//! Enforces ResourceQuotas.
//!
//! Responsible for: the use of limited resources, rejections, and `status.used`. Must not: count unlimited resources,
//! or validate quotas; `kinds` does.
//!
//! Different from a real server: scopes are stored and ignored. The server itself updates `status`, shortly after a
//! change.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    compute_use::{Nanos, ONE, requirements},
    state::ApiServer,
};
use crate::apiserver::{
    kinds::quota::{Limited, limited},
    object::{ApiError, JsonView, Kind, Quantity, Result, Tree, tree},
};

/// A limit that an object would exceed, with the current use and the requested amount.
struct Exceeded {
    requested: Nanos,
    used: Nanos,
    limit: String,
}

impl ApiServer {
    /// Rejects an object that would exceed a quota of the namespace.
    pub(crate) fn admit_by_quota(&self, kind: Kind, namespace: &str, tree: &Tree) -> Result<()> {
        for quota in self.store.range(Kind::ResourceQuota, namespace, None) {
            let refuse = |why: String| {
                let name = tree::text(tree, "metadata.name");
                Err(ApiError::forbidden(kind, name, &why))
            };
            let quota_tree = quota.tree();
            let hard = tree::section(&quota_tree, "spec.hard");
            if kind == Kind::Pod
                && let Some(missing) = self.missing(hard, namespace, tree)
            {
                return refuse(format!(
                    "failed quota: {}: must specify {missing}",
                    quota.name
                ));
            }
            let exceeded = self.exceeded(kind, namespace, hard, tree);
            if exceeded.is_empty() {
                continue;
            }
            let list = |text: fn(&Exceeded) -> String| {
                let list = exceeded
                    .iter()
                    .map(|(name, it)| format!("{name}={}", text(it)));
                list.collect::<Vec<_>>().join(",")
            };
            return refuse(format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                quota.name,
                list(|it| Quantity::of_nanos(it.requested).canonical()),
                list(|it| Quantity::of_nanos(it.used).canonical()),
                list(|it| it.limit.clone())
            ));
        }
        Ok(())
    }

    /// The limits of a quota that an object would exceed.
    fn exceeded<'h>(
        &self,
        kind: Kind,
        namespace: &str,
        hard: &'h Tree,
        object: &Tree,
    ) -> BTreeMap<&'h str, Exceeded> {
        let mut required = None;
        let exceeded = hard.iter().filter_map(|(name, limit)| {
            let requested = match limited(name)? {
                Limited::Count(counted) if counted == kind => ONE,
                Limited::Compute { side, resource } if kind == Kind::Pod => {
                    let required = required.get_or_insert_with(|| requirements(object));
                    *required.get(&(side, resource.into()))?
                }
                _ => return None,
            };
            let used = self.used(name, namespace)?;
            let most = Quantity::of_json(limit)?;
            (requested > 0 && used + requested > most.nanos()).then(|| {
                let limit = most.canonical();
                (
                    name.as_str(),
                    Exceeded {
                        requested,
                        used,
                        limit,
                    },
                )
            })
        });
        exceeded.collect()
    }

    /// Lists the resources that the containers of a Pod must specify because a quota limits them, but do not.
    fn missing(&self, hard: &Tree, namespace: &str, pod: &Tree) -> Option<String> {
        let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in hard.keys() {
            let Some(Limited::Compute { side, resource }) = limited(name) else {
                continue;
            };
            let is_required = ["cpu", "memory"].contains(&resource);
            if !is_required || self.compute.of(namespace, side, resource).is_none() {
                continue;
            }
            let spec = JsonView::from(pod).at("spec");
            for list in ["containers", "initContainers"] {
                for container in spec.at(list).items() {
                    let said = container.at("resources").at(side).entry(resource);
                    if !said.is_set() {
                        let lacking = missing.entry(name).or_default();
                        lacking.push(container.at("name").text());
                    }
                }
            }
        }
        let list = missing.iter_mut().map(|(name, containers)| {
            containers.sort_unstable();
            format!("{name} for: {}", containers.join(","))
        });
        let list: Vec<String> = list.collect();
        (!list.is_empty()).then(|| list.join("; "))
    }

    fn used(&self, name: &str, namespace: &str) -> Option<Nanos> {
        let count = match limited(name)? {
            Limited::Count(Kind::Pod) if name == "pods" => self.store.count_live_pods(namespace),
            Limited::Count(kind) => self.store.count(kind, namespace),
            Limited::Compute { side, resource } => {
                return self.compute.of(namespace, side, resource);
            }
        };
        Some(count as Nanos * ONE)
    }

    /// Updates the `status` of a namespace's quotas.
    pub(crate) fn count_quotas(&mut self, namespace: &str) {
        let quotas = self.store.range(Kind::ResourceQuota, namespace, None);
        let quotas: Vec<_> = quotas.map(|quota| quota.tree()).collect();
        let limits_compute = |quota: &Tree| {
            let mut names = tree::section(quota, "spec.hard").keys();
            names.any(|name| matches!(limited(name), Some(Limited::Compute { .. })))
        };
        self.watch_compute(namespace, quotas.iter().any(limits_compute));
        for mut quota in quotas {
            let hard = tree::section(&quota, "spec.hard").clone();
            let used: Tree = hard
                .keys()
                .filter_map(|name| {
                    let used = Quantity::of_nanos(self.used(name, namespace)?);
                    Some((name.clone(), used.canonical().into()))
                })
                .collect();
            let status = json!({"hard": hard, "used": Value::Object(used)});
            if quota.get("status") != Some(&status) {
                quota.insert("status".into(), status);
                self.store_put(Kind::ResourceQuota, &quota);
            }
        }
    }

    /// Starts or stops the sums of the resources that a namespace's Pods use.
    fn watch_compute(&mut self, namespace: &str, is_limited: bool) {
        if !is_limited {
            self.compute.end(namespace);
        } else if self.compute.begin(namespace) {
            for pod in self.store.range(Kind::Pod, namespace, None) {
                self.compute.note(pod, false);
            }
        }
    }
}
