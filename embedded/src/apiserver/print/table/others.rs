//! Tables of the kinds with few columns.
//!
//! Responsible for: their cells. Must not: hold Jobs or Pods.

use serde_json::Value;

use super::{
    cells::{AGE, Column, NAME, age, condition, is_true, name, or_none},
    duration,
    jobs::{CONTAINERS, IMAGES, SELECTOR, of_job_spec},
};
use crate::{
    apiserver::object::tree::{self, Tree},
    model::Time,
};

pub(super) const PLAIN_COLUMNS: &[Column] = &[NAME, AGE];

pub(super) const NAMESPACE_COLUMNS: &[Column] = &[
    NAME,
    ("Status", "string", 0, "The status of the namespace"),
    AGE,
];

pub(super) const NODE_COLUMNS: &[Column] = &[
    NAME,
    ("Status", "string", 0, "The status of the node"),
    ("Roles", "string", 0, "The roles of the node"),
    AGE,
    (
        "Version",
        "string",
        0,
        "Kubelet version reported by the node",
    ),
];

pub(super) const QUOTA_COLUMNS: &[Column] = &[
    NAME,
    (
        "Request",
        "string",
        0,
        "What is used of what may be requested.",
    ),
    (
        "Limit",
        "string",
        0,
        "What is used of what limits may sum up to.",
    ),
    AGE,
];

pub(super) const EVENT_COLUMNS: &[Column] = &[
    (
        "Last Seen",
        "string",
        0,
        "Time of the most recent occurrence of the event.",
    ),
    ("Type", "string", 0, "Type of the event (Normal, Warning)."),
    (
        "Reason",
        "string",
        0,
        "Why the event was generated, for machines.",
    ),
    (
        "Object",
        "string",
        0,
        "The object that this event is about.",
    ),
    (
        "Subobject",
        "string",
        1,
        "The part of the object that this event is about.",
    ),
    ("Source", "string", 1, "The component reporting this event."),
    ("Message", "string", 0, "What happened, for humans."),
    (
        "First Seen",
        "string",
        1,
        "Time of the first occurrence of the event.",
    ),
    ("Count", "string", 1, "How often the event occurred."),
    ("Name", "string", 1, "Name of the event."),
];

pub(super) const LEASE_COLUMNS: &[Column] = &[
    NAME,
    (
        "Holder",
        "string",
        0,
        "The identity of the holder of the lease.",
    ),
    AGE,
];

pub(super) const CONFIG_MAP_COLUMNS: &[Column] =
    &[NAME, ("Data", "string", 0, "Number of entries."), AGE];

pub(super) const CRON_JOB_COLUMNS: &[Column] = &[
    NAME,
    ("Schedule", "string", 0, "The schedule in Cron format."),
    ("Timezone", "string", 0, "The time zone of the schedule."),
    (
        "Suspend",
        "boolean",
        0,
        "Whether further runs are suspended.",
    ),
    ("Active", "integer", 0, "Number of running jobs."),
    (
        "Last Schedule",
        "string",
        0,
        "When a job was last scheduled.",
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn namespace(tree: &Tree, now: Time) -> Vec<Value> {
    let phase = tree::text(tree::section(tree, "status"), "phase");
    vec![name(tree), phase.into(), age(tree, now)]
}

pub(super) fn node(tree: &Tree, now: Time) -> Vec<Value> {
    let mut state = if condition(tree, "Ready").is_none() {
        "Unknown"
    } else if is_true(tree, "Ready") {
        "Ready"
    } else {
        "NotReady"
    }
    .to_owned();
    if tree::flag(tree::section(tree, "spec"), "unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    let labels = tree::section(tree::metadata(tree), "labels");
    let roles: Vec<&str> = labels
        .keys()
        .filter_map(|key| key.strip_prefix("node-role.kubernetes.io/"))
        .filter(|role| !role.is_empty())
        .collect();
    let node_info = tree::section(tree::section(tree, "status"), "nodeInfo");
    let version = tree::text(node_info, "kubeletVersion");
    vec![
        name(tree),
        state.into(),
        or_none(&roles.join(",")),
        age(tree, now),
        version.into(),
    ]
}

pub(super) fn event(tree: &Tree, now: Time) -> Vec<Value> {
    let about = tree::section(tree, "involvedObject");
    let first = tree::text(tree, "firstTimestamp");
    let last = tree::text(tree, "lastTimestamp");
    let event_time = tree::text(tree, "eventTime");
    let either = |text: &str| duration::since(if text.is_empty() { event_time } else { text }, now);
    let source = tree::section(tree, "source");
    let reporter = match tree::text(source, "component") {
        "" => tree::text(tree, "reportingComponent"),
        component => component,
    };
    let kind = tree::text(about, "kind").to_lowercase();
    vec![
        either(last).into(),
        tree::text(tree, "type").into(),
        tree::text(tree, "reason").into(),
        format!("{kind}/{}", tree::text(about, "name")).into(),
        tree::text(about, "fieldPath").into(),
        reporter.into(),
        tree::text(tree, "message").trim().into(),
        either(first).into(),
        tree::int(tree, "count").unwrap_or(1).into(),
        name(tree),
    ]
}

pub(super) fn lease(tree: &Tree, now: Time) -> Vec<Value> {
    let holder = tree::text(tree::section(tree, "spec"), "holderIdentity");
    vec![name(tree), holder.into(), age(tree, now)]
}

pub(super) fn config_map(tree: &Tree, now: Time) -> Vec<Value> {
    let entries = tree::section(tree, "data").len() + tree::section(tree, "binaryData").len();
    vec![name(tree), entries.into(), age(tree, now)]
}

pub(super) fn cron_job(tree: &Tree, now: Time) -> Vec<Value> {
    let spec = tree::section(tree, "spec");
    let status = tree::section(tree, "status");
    let last = tree::text(status, "lastScheduleTime");
    let mut cells = vec![
        name(tree),
        tree::text(spec, "schedule").into(),
        or_none(tree::text(spec, "timeZone")),
        match spec.get("suspend").and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        }
        .into(),
        tree::items(status, "active").len().into(),
        if last.is_empty() {
            "<none>".into()
        } else {
            duration::since(last, now).into()
        },
        age(tree, now),
    ];
    let template = tree::section(tree::section(spec, "jobTemplate"), "spec");
    cells.extend(of_job_spec(template));
    cells
}

/// The cells of a ResourceQuota.
pub(super) fn quota(tree: &Tree, now: Time) -> Vec<Value> {
    let status = tree::section(tree, "status");
    let (hard, used) = (tree::section(status, "hard"), tree::section(status, "used"));
    let list = |limits: bool| {
        let hard = hard.iter();
        let hard = hard.filter(|(name, _)| name.starts_with("limits.") == limits);
        let entry = |(name, limit): (&String, &Value)| {
            let limit = limit.as_str().unwrap_or_default();
            format!("{name}: {}/{limit}", tree::text(used, name))
        };
        hard.map(entry).collect::<Vec<_>>().join(", ").into()
    };
    vec![name(tree), list(false), list(true), age(tree, now)]
}
