//! Builds the tables of `kubectl get`: columns and cells per kind.
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

/// The columns of all kinds, in the order of [`KINDS`]. Kinds missing in `columns.txt` have name and age.
static COLUMNS: LazyLock<Vec<Columns>> = LazyLock::new(|| {
    let table: HashMap<_, _> = sections(include_str!("columns.txt")).collect();
    let lines = |row: &KindInfo| table.get(row.name).unwrap_or(&table["default"]);
    KINDS.iter().map(|row| Columns::read(lines(row))).collect()
});

struct Columns {
    definitions: Value,
    /// The paths of the columns that print a field unchanged.
    paths: Vec<Option<&'static str>>,
}

impl Columns {
    fn read(lines: &[&'static str]) -> Self {
        let (definitions, paths) = lines.iter().copied().map(column).unzip();
        Self {
            definitions: Value::Array(definitions),
            paths,
        }
    }
}

fn column(line: &'static str) -> (Value, Option<&'static str>) {
    let parts: Vec<&str> = line.splitn(5, " | ").collect();
    let [name, column_type, priority, description, path @ ..] = &parts[..] else {
        panic!("a column has four parts, unlike {line:?}");
    };
    let definition = json!({
        "name": name,
        "type": column_type,
        "format": if *name == "Name" { "name" } else { "" },
        "description": description,
        "priority": priority.parse::<i32>().expect("priorities are numbers"),
    });
    (definition, path.first().copied())
}

/// The column definitions of a kind.
pub(crate) fn columns(kind: Kind) -> &'static Value {
    &COLUMNS[kind as usize].definitions
}

/// The row of one object.
pub(crate) fn row(kind: Kind, tree: &Tree, now: Time) -> Row {
    let object = JsonView::from(tree);
    let own = match kind {
        Kind::Pod => pods::cells(object, now),
        Kind::Job => jobs::cells(object, now),
        Kind::Node => others::node(object),
        Kind::Event => others::event(object, now),
        Kind::CronJob => others::cron_job(object, now),
        Kind::ConfigMap => {
            let entries = ["data", "binaryData"].map(|map| object.at(map).tree().len());
            vec![entries.iter().sum::<usize>().into()]
        }
        Kind::Secret => vec![object.at("data").tree().len().into()],
        Kind::PodGroup => others::pod_group(object),
        Kind::ResourceQuota => others::quota(object),
        Kind::Service => others::service(object),
        _ => Vec::new(),
    };
    let mut own = own.into_iter();
    let Columns { definitions, paths } = &COLUMNS[kind as usize];
    let columns = definitions.as_array().into_iter().flatten().zip(paths);
    let cells = columns.map(|(column, path)| match (column["name"].as_str(), path) {
        (_, Some(path)) => object.at(path).text().into(),
        (Some("Name"), None) => object.at("metadata.name").text().into(),
        (Some("Age"), None) => {
            duration::since(object.at("metadata.creationTimestamp").text(), now).into()
        }
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
