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

pub(crate) use cells::Row;

use crate::{
    apiserver::object::{JsonView, KINDS, Kind, KindInfo, Tree, sections},
    model::Time,
};

/// The columns of all kinds, in their order; a line has name, type, priority and description. Cells of kinds leave out
/// name and age, which all have in the same way.
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
    let own = match kind {
        Kind::Pod => pods::cells(object, now),
        Kind::Job => jobs::cells(object, now),
        Kind::Namespace => vec![object.at("status.phase").text().into()],
        Kind::Node => others::node(object),
        Kind::Event => others::event(object, now),
        Kind::Lease => vec![object.at("spec.holderIdentity").text().into()],
        Kind::CronJob => others::cron_job(object, now),
        Kind::ConfigMap => {
            let entries = ["data", "binaryData"].map(|map| object.at(map).tree().len());
            vec![entries.iter().sum::<usize>().into()]
        }
        Kind::PodGroup => others::pod_group(object),
        Kind::ResourceQuota => others::quota(object),
        Kind::ServiceAccount | Kind::Secret | Kind::Workload => Vec::new(),
    };
    let mut own = own.into_iter();
    let columns = columns(kind).as_array().into_iter().flatten();
    let cells = columns.map(|column| match column["name"].as_str() {
        Some("Name") => object.at("metadata.name").text().into(),
        Some("Age") => duration::since(object.at("metadata.creationTimestamp").text(), now).into(),
        _ => own.next().expect("each column has a cell"),
    });
    let cells = cells.collect();
    debug_assert_eq!(own.next(), None, "each cell has a column");
    let condition = match kind {
        Kind::Pod => pods::condition(object),
        _ => None,
    };
    Row { cells, condition }
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
