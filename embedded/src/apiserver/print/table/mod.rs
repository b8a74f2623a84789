//! Tables for `kubectl get`: columns and cells per kind.
//!
//! Responsible for: choosing a kind's columns and cells. Must not: encode or fetch objects.

mod cells;
mod duration;
mod jobs;
mod others;
mod pod_groups;
mod pods;

use serde_json::{Value, json};

use cells::{Column, age, name};

pub(crate) use cells::Row;

use crate::{
    apiserver::object::{kind::Kind, tree::Tree},
    model::Time,
};

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
