//! Pods: defaults and rules.
//!
//! Responsible for: what only Pods have. Must not: hold the deletion table, which is in
//! the server's `delete`, or pod-spec rules that templates share, which are in `template`.
//!
//! Different from a real server: priority classes, runtime classes, quotas and disruption
//! budgets do not exist; service-account tokens are not mounted.

mod rules;

pub(crate) use rules::{
    prepare_status, restart_policies, validate_create, validate_status, validate_update,
};

use serde_json::{Value, json};

use super::template;
use crate::apiserver::object::tree::{self, Tree};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The defaults among these that admission sets on a real server.
pub(crate) const SET_BY_ADMISSION: [&str; 4] = [
    "preemptionPolicy",
    "priority",
    "serviceAccount",
    "serviceAccountName",
];

/// Applies defaults, those of admission included.
pub(crate) fn default(tree: &mut Tree) {
    let spec = tree::section_mut(tree, "spec");
    default_requests(spec);
    template::default_spec(spec);
    tree::default(spec, "enableServiceLinks", true);
    let priority = match tree::text(spec, "priorityClassName") {
        "system-node-critical" => 2_000_001_000,
        "system-cluster-critical" => 2_000_000_000,
        _ => 0,
    };
    tree::default(spec, "priority", priority);
    tree::default(spec, "preemptionPolicy", "PreemptLowerPriority");
    tree::default(spec, "serviceAccountName", "default");
    tree::default(spec, "serviceAccount", "default");
    if tree::int(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
}

/// Sets status and tolerations of a new Pod.
pub(crate) fn prepare_create(tree: &mut Tree) {
    let spec = tree::section_mut(tree, "spec");
    default_tolerations(spec);
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(spec)});
    let gated = !tree::items(spec, "schedulingGates").is_empty();
    if gated {
        let now = tree::metadata(tree).get("creationTimestamp").cloned();
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null,
            "lastTransitionTime": now,
        }]);
    }
    tree.insert("status".into(), status);
}

fn default_tolerations(spec: &mut Tree) {
    for key in [NOT_READY, UNREACHABLE] {
        let tolerated = tree::items(spec, "tolerations").iter().any(|toleration| {
            let text = |name: &str| {
                toleration
                    .get(name)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            (text("key") == key || text("key").is_empty())
                && matches!(text("effect"), "NoExecute" | "")
        });
        if tolerated {
            continue;
        }
        let toleration = json!({
            "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
        });
        match spec.get_mut("tolerations") {
            Some(Value::Array(list)) => list.push(toleration),
            _ => {
                spec.insert("tolerations".into(), json!([toleration]));
            }
        }
    }
}

/// Limits stand in for requests that are not given.
fn default_requests(spec: &mut Tree) {
    for list in ["containers", "initContainers"] {
        let Some(Value::Array(containers)) = spec.get_mut(list) else {
            continue;
        };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            let Some(Value::Object(resources)) = container.get_mut("resources") else {
                continue;
            };
            let Some(Value::Object(limits)) = resources.get("limits").cloned() else {
                continue;
            };
            let requests = tree::section_mut(resources, "requests");
            for (name, limit) in limits {
                tree::default(requests, &name, limit);
            }
        }
    }
}

fn qos_class(spec: &Tree) -> &'static str {
    let containers = tree::items(spec, "containers")
        .iter()
        .chain(tree::items(spec, "initContainers"));
    let (mut any, mut guaranteed) = (false, true);
    for container in containers {
        let side = |side: &str, name: &str| {
            let quantity = container.get("resources")?.get(side)?.get(name)?;
            quantity.as_str().filter(|text| *text != "0")
        };
        for name in ["cpu", "memory"] {
            let (request, limit) = (side("requests", name), side("limits", name));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
