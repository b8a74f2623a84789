//! Tables for `kubectl get`: columns and cells per kind.
//!
//! Responsible for: choosing a kind's columns and cells. Must not: encode or fetch objects.

mod cells;
mod duration;
mod jobs;
mod others;
mod pods;

use std::{collections::HashMap, sync::LazyLock};

use serde_json::{Value, json};

use cells::{age, name};

pub(crate) use cells::Row;

use crate::{
    apiserver::object::{JsonView, KINDS, Kind, KindInfo, Tree, sections},
    model::Time,
};

/// The columns of all kinds, in their order; a line has name, type, priority and description.
static COLUMNS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let table: HashMap<_, _> = sections(include_str!("columns.txt")).collect();
    let columns = |row: &KindInfo| table[row.name].iter().copied().map(column).collect();
    KINDS.iter().map(columns).collect()
});

fn column(line: &str) -> Value {
    let parts: Vec<&str> = line.splitn(4, " | ").collect();
    let [name, column_type, priority, description] = parts[..] else {
        panic!("a column has four parts, unlike {line:?}");
    };
    json!({
        "name": name,
        "type": column_type,
        "format": if name == "Name" { "name" } else { "" },
        "description": description,
        "priority": priority.parse::<i32>().expect("priorities are numbers"),
    })
}

/// The column definitions of a kind.
pub(crate) fn columns(kind: Kind) -> &'static Value {
    &COLUMNS[kind as usize]
}

/// The row of one object.
pub(crate) fn row(kind: Kind, tree: &Tree, now: Time) -> Row {
    let object = JsonView::from(tree);
    let with = |cell: Value| vec![name(object), cell, age(object, now)];
    let cells = match kind {
        Kind::Pod => return pods::row(object, now),
        Kind::Job => jobs::cells(object, now),
        Kind::Namespace => with(object.at("status.phase").text().into()),
        Kind::Node => others::node(object, now),
        Kind::Event => others::event(object, now),
        Kind::Lease => with(object.at("spec.holderIdentity").text().into()),
        Kind::CronJob => others::cron_job(object, now),
        Kind::ConfigMap => {
            let entries = ["data", "binaryData"].map(|map| object.at(map).tree().len());
            with(entries.iter().sum::<usize>().into())
        }
        Kind::PodGroup => others::pod_group(object, now),
        Kind::ResourceQuota => others::quota(object, now),
        Kind::ServiceAccount | Kind::Secret | Kind::Workload => {
            vec![name(object), age(object, now)]
        }
    };
    Row {
        cells,
        condition: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_a_cell_for_each_column() {
        for kind in Kind::all() {
            let row = row(kind, &Tree::new(), Time::default());
            let columns = columns(kind).as_array().unwrap();
            assert_eq!(row.cells.len(), columns.len(), "{kind:?}");
        }
    }
}
