//! The table of PodGroups.
//!
//! Responsible for: their cells. Workloads show their name and age only.

use serde_json::Value;

use super::cells::{AGE, Column, NAME, age, condition, is_true, name, or_none};
use crate::{
    apiserver::object::tree::{self, Tree},
    model::Time,
};

pub(super) const POD_GROUP_COLUMNS: &[Column] = &[
    NAME,
    (
        "Policy",
        "string",
        0,
        "How Pods of the group are scheduled.",
    ),
    (
        "Workload",
        "string",
        0,
        "Name of the referenced Workload object",
    ),
    ("Status", "string", 0, "Status of the PodGroup"),
    AGE,
];

pub(super) fn pod_group(tree: &Tree, now: Time) -> Vec<Value> {
    let spec = tree::section(tree, "spec");
    let gang = tree::section(spec, "schedulingPolicy").contains_key("gang");
    let reference = tree::section(spec, "podGroupTemplateRef");
    let workload = tree::text(tree::section(reference, "workload"), "workloadName");
    let status = match condition(tree, "DisruptionTarget") {
        Some(disrupted) => disrupted.get("reason").cloned().unwrap_or_default(),
        None if condition(tree, "PodGroupScheduled").is_none() => "Pending".into(),
        None if is_true(tree, "PodGroupScheduled") => "Scheduled".into(),
        None => "Unschedulable".into(),
    };
    vec![
        name(tree),
        if gang { "Gang" } else { "Basic" }.into(),
        or_none(workload),
        status,
        age(tree, now),
    ]
}
