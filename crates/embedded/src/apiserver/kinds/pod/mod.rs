//! Implements the defaults and rules of Pods.
//!
//! Responsible for: rules that only Pods have. Must not: hold the deletion table, which is in the server's `delete`, or
//! pod-spec rules that templates share, which are in `template`.
//!
//! Different from a real server: there are no priority classes, runtime classes or disruption budgets that Pods are
//! checked against; service-account tokens are not mounted.

mod rules;

pub(crate) use rules::{
    prepare_status, restart_policies, validate_create, validate_status, validate_update,
};

use serde_json::{Value, json};

use super::{defaults, template};
use crate::apiserver::object::{JsonView, Tree, names, tree};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The defaults that admission sets on a real server.
pub(crate) const SET_BY_ADMISSION: [&str; 4] = [
    "preemptionPolicy",
    "priority",
    "serviceAccount",
    "serviceAccountName",
];

/// Applies defaults, including those of admission.
pub(crate) fn default(tree: &mut Tree) {
    let spec = tree::section_mut(tree, "spec");
    default_requests(spec);
    template::default_spec(spec);
    defaults::fill(spec, "pod");
    let priority = match tree::text(spec, "priorityClassName") {
        "system-node-critical" => 2_000_001_000,
        "system-cluster-critical" => 2_000_000_000,
        _ => 0,
    };
    tree::default(spec, "priority", priority);
    if tree::int(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
}

/// Sets the status and the default tolerations of a new Pod.
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

/// Warnings for a new Pod.
pub(crate) fn warnings(tree: &Tree) -> Vec<String> {
    let mut warnings = template::warnings("", tree);
    let problems = names::dns_label_problems(tree::text(tree, "metadata.name"));
    if !problems.is_empty() {
        let why = format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            problems.join(" ")
        );
        warnings.insert(0, why);
    }
    warnings
}

/// Adds the tolerations that admission adds to new and updated Pods.
#[doc(alias = "DefaultTolerationSeconds")]
pub(crate) fn default_tolerations(spec: &mut Tree) {
    for key in [NOT_READY, UNREACHABLE] {
        let covers = |have: JsonView<'_>, wanted| ["", wanted].contains(&have.text());
        let mut given = JsonView::from(&*spec).at("tolerations").list().iter();
        if given.any(|it| {
            let toleration = JsonView::from(Some(it));
            covers(toleration.at("key"), key) && covers(toleration.at("effect"), "NoExecute")
        }) {
            continue;
        }
        let toleration = json!({
            "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
        });
        tree::list_mut(spec, "tolerations").push(toleration);
    }
}

/// Sets missing requests to the limits.
fn default_requests(spec: &mut Tree) {
    for list in ["containers", "initContainers"] {
        for container in tree::objects_mut(spec, list) {
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
    let spec = JsonView::from(spec);
    let containers = spec.at("containers").items();
    let (mut any, mut guaranteed) = (false, true);
    for container in containers.chain(spec.at("initContainers").items()) {
        let said = |quantity: &str| {
            let quantity = container.at("resources").at(quantity).as_text();
            quantity.filter(|text| *text != "0")
        };
        for (request, limit) in [
            (said("requests.cpu"), said("limits.cpu")),
            (said("requests.memory"), said("limits.memory")),
        ] {
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
