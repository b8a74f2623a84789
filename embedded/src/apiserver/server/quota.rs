//! ResourceQuotas: how many objects a namespace may hold.
//!
//! Responsible for: what is used, who is refused, and `status.used`. Must not: count what no quota asks
//! about, or check a quota itself; that is in `kinds`.
//!
//! Different from a real server: only counts are enforced, `pods` (those that have not ended) and
//! `count/RESOURCE[.GROUP]`; CPU, memory and scopes are kept and not looked at. `status` follows soon
//! after, from the server itself.

use std::collections::BTreeMap;

use serde_json::json;

use super::state::ApiServer;
use crate::apiserver::{
    kinds::quota::{counted, number},
    object::{ApiError, Kind, Result, Stored, Tree, tree},
};

impl ApiServer {
    /// Refuses an object that one of the namespace's quotas has no room for.
    pub(crate) fn admit_by_quota(&self, kind: Kind, namespace: &str, tree: &Tree) -> Result<()> {
        for quota in self.store.range(Kind::ResourceQuota, namespace, None) {
            let exceeded = self.exceeded(kind, quota);
            if exceeded.is_empty() {
                continue;
            }
            let list = |number: fn(&(i64, i64)) -> i64| {
                let list = exceeded.iter();
                let list = list.map(|(name, numbers)| format!("{name}={}", number(numbers)));
                list.collect::<Vec<_>>().join(",")
            };
            let name = tree::text(tree, "metadata.name");
            let why = format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                quota.name,
                list(|_| 1),
                list(|(used, _)| *used),
                list(|(_, limit)| *limit)
            );
            return Err(ApiError::forbidden(kind, name, &why));
        }
        Ok(())
    }

    /// What of a quota one more object of a kind would exceed: used and allowed.
    fn exceeded(&self, kind: Kind, quota: &Stored) -> BTreeMap<String, (i64, i64)> {
        let tree = quota.tree();
        let hard = tree::section(&tree, "spec.hard").iter();
        let asked = hard.filter(|(name, _)| counted(name) == Some(kind));
        let full = asked.filter_map(|(name, limit)| {
            let (used, limit) = (self.used(name, &quota.namespace)?, number(limit)?);
            (used >= limit).then(|| (name.clone(), (used, limit)))
        });
        full.collect()
    }

    fn used(&self, name: &str, namespace: &str) -> Option<i64> {
        let used = match (name, counted(name)?) {
            ("pods", _) => self.store.count_live_pods(namespace),
            (_, kind) => self.store.count(kind, namespace),
        };
        i64::try_from(used).ok()
    }

    /// Brings `status` of a namespace's quotas up to date.
    pub(crate) fn count_quotas(&mut self, namespace: &str) {
        let quotas = self.store.range(Kind::ResourceQuota, namespace, None);
        let quotas: Vec<_> = quotas.cloned().collect();
        for quota in quotas {
            let mut tree = quota.tree();
            let hard = tree::section(&tree, "spec.hard").clone();
            let used = hard.keys().filter_map(|name| {
                let used = self.used(name, namespace)?.to_string();
                Some((name.clone(), used))
            });
            let used: BTreeMap<String, String> = used.collect();
            let status = json!({"hard": hard, "used": used});
            if tree.get("status") != Some(&status) {
                tree.insert("status".into(), status);
                self.store_put(Kind::ResourceQuota, &tree);
            }
        }
    }
}
