//! The Job table.
//!
//! Responsible for: cells of Jobs. Must not: judge Jobs.

use serde_json::Value;

use super::{
    cells::{AGE, Column, NAME, age, is_true, name},
    duration,
};
use crate::{
    apiserver::object::tree::{self, Tree},
    model::Time,
};

/// Columns of Jobs.
pub(super) const COLUMNS: &[Column] = &[
    NAME,
    ("Status", "string", 0, "Status of the job."),
    (
        "Completions",
        "string",
        0,
        "Succeeded pods of those the job should be run with.",
    ),
    (
        "Duration",
        "string",
        0,
        "Time required to complete the job.",
    ),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

/// The columns of [`of_job_spec`], which CronJobs have, too.
pub(super) const CONTAINERS: Column = (
    "Containers",
    "string",
    1,
    "Names of each container in the template.",
);
pub(super) const IMAGES: Column = (
    "Images",
    "string",
    1,
    "Images referenced by each container in the template.",
);
pub(super) const SELECTOR: Column = (
    "Selector",
    "string",
    1,
    "A label query over pods that should match the pod count.",
);

/// Cells of one Job.
pub(super) fn cells(tree: &Tree, now: Time) -> Vec<Value> {
    let mut cells = vec![
        name(tree),
        status(tree).into(),
        completions(tree).into(),
        run_time(tree, now).into(),
        age(tree, now),
    ];
    cells.extend(of_job_spec(tree::section(tree, "spec")));
    cells
}

/// What a Job's spec says of containers, images and selector.
pub(super) fn of_job_spec(spec: &Tree) -> [Value; 3] {
    let pod = tree::section(tree::section(spec, "template"), "spec");
    let of_containers = |field: &str| -> Value {
        let list: Vec<&str> = tree::items(pod, "containers")
            .iter()
            .filter_map(|container| container.get(field)?.as_str())
            .collect();
        list.join(",").into()
    };
    [
        of_containers("name"),
        of_containers("image"),
        selector(tree::section(spec, "selector")).into(),
    ]
}

fn status(tree: &Tree) -> &'static str {
    let deleted = tree::metadata(tree).contains_key("deletionTimestamp");
    match () {
        () if is_true(tree, "Complete") => "Complete",
        () if is_true(tree, "Failed") => "Failed",
        () if deleted => "Terminating",
        () if is_true(tree, "Suspended") => "Suspended",
        () if is_true(tree, "FailureTarget") => "FailureTarget",
        () if is_true(tree, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(tree: &Tree) -> String {
    let spec = tree::section(tree, "spec");
    let succeeded = tree::int(tree::section(tree, "status"), "succeeded").unwrap_or_default();
    match (
        tree::int(spec, "completions"),
        tree::int(spec, "parallelism"),
    ) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, Some(parallelism)) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn run_time(tree: &Tree, now: Time) -> String {
    let status = tree::section(tree, "status");
    let Some(start) = Time::parse_rfc3339(tree::text(status, "startTime")) else {
        return String::new();
    };
    let end = Time::parse_rfc3339(tree::text(status, "completionTime")).unwrap_or(now);
    duration::between(start, end)
}

/// A label selector as text.
fn selector(selector: &Tree) -> String {
    let labels = tree::section(selector, "matchLabels");
    let mut parts: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for item in tree::items(selector, "matchExpressions") {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        let values: Vec<&str> = item
            .as_object()
            .map(|item| tree::strings(item, "values").collect())
            .unwrap_or_default();
        parts.push(match text("operator") {
            "In" => format!("{} in ({})", text("key"), values.join(",")),
            "NotIn" => format!("{} notin ({})", text("key"), values.join(",")),
            "DoesNotExist" => format!("!{}", text("key")),
            _ => text("key").to_owned(),
        });
    }
    if parts.is_empty() {
        "<none>".to_owned()
    } else {
        parts.join(",")
    }
}
