//! Tables for `kubectl get`: columns and cells per kind.
//!
//! Responsible for: choosing a kind's columns and cells. Must not: encode or fetch objects.

mod duration;
mod jobs;
mod others;
mod pod_groups;
mod pods;

use serde_json::{Value, json};

use crate::{
    apiserver::object::{
        kind::Kind,
        tree::{self, Tree},
    },
    model::Time,
};

/// One row: its cells and, for finished Pods, a condition.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Value>,
    pub(crate) condition: Option<Value>,
}

/// Name, type, priority and description of one column.
type Column = (&'static str, &'static str, i32, &'static str);

const NAME: Column = (
    "Name",
    "string",
    0,
    "Name must be unique within a namespace. Is required when creating resources.",
);
const AGE: Column = (
    "Age",
    "string",
    0,
    "CreationTimestamp is the server time when this object was created.",
);

/// The column definitions of a kind.
pub(crate) fn columns(kind: Kind) -> Value {
    let columns: &[Column] = match kind {
        Kind::Job => jobs::COLUMNS,
        Kind::Pod => pods::COLUMNS,
        Kind::Namespace => others::NAMESPACE_COLUMNS,
        Kind::Node => others::NODE_COLUMNS,
        Kind::Event => others::EVENT_COLUMNS,
        Kind::Lease => others::LEASE_COLUMNS,
        Kind::CronJob => others::CRON_JOB_COLUMNS,
        Kind::ConfigMap => others::CONFIG_MAP_COLUMNS,
        Kind::PodGroup => pod_groups::POD_GROUP_COLUMNS,
        Kind::ResourceQuota => others::QUOTA_COLUMNS,
        Kind::ServiceAccount | Kind::Secret | Kind::Workload => others::PLAIN_COLUMNS,
    };
    let column = |&(name, column_type, priority, description): &Column| {
        json!({
            "name": name,
            "type": column_type,
            "format": if name == "Name" { "name" } else { "" },
            "description": description,
            "priority": priority,
        })
    };
    columns.iter().map(column).collect()
}

/// The row of one object.
pub(crate) fn row(kind: Kind, tree: &Tree, now: Time) -> Row {
    match kind {
        Kind::Job => Row {
            cells: jobs::cells(tree, now),
            condition: None,
        },
        Kind::Pod => pods::row(tree, now),
        Kind::Namespace => plain(others::namespace(tree, now)),
        Kind::Node => plain(others::node(tree, now)),
        Kind::Event => plain(others::event(tree, now)),
        Kind::Lease => plain(others::lease(tree, now)),
        Kind::CronJob => plain(others::cron_job(tree, now)),
        Kind::ConfigMap => plain(others::config_map(tree, now)),
        Kind::PodGroup => plain(pod_groups::pod_group(tree, now)),
        Kind::ResourceQuota => plain(others::quota(tree, now)),
        Kind::ServiceAccount | Kind::Secret | Kind::Workload => {
            plain(vec![name(tree), age(tree, now)])
        }
    }
}

const fn plain(cells: Vec<Value>) -> Row {
    Row {
        cells,
        condition: None,
    }
}

fn name(tree: &Tree) -> Value {
    tree::text(tree::metadata(tree), "name").into()
}

fn age(tree: &Tree, now: Time) -> Value {
    duration::since(tree::text(tree::metadata(tree), "creationTimestamp"), now).into()
}

/// The status of the first condition of a type.
fn condition<'a>(tree: &'a Tree, condition_type: &str) -> Option<&'a Value> {
    tree::items(tree::section(tree, "status"), "conditions")
        .iter()
        .find(|condition| condition.get("type").is_some_and(|it| it == condition_type))
}

fn is_true(tree: &Tree, condition_type: &str) -> bool {
    condition(tree, condition_type)
        .is_some_and(|condition| condition.get("status").is_some_and(|it| it == "True"))
}

/// Text, or `<none>`.
fn or_none(text: &str) -> Value {
    if text.is_empty() {
        "<none>".into()
    } else {
        text.into()
    }
}
