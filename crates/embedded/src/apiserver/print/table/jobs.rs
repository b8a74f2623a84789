//! Builds the Job table.
//!
//! Responsible for: cells of Jobs. Must not: validate Jobs.

use serde_json::Value;

use super::{
    cells::{is_true, or_none},
    duration,
};
use crate::{apiserver::object::JsonView, model::Time};

/// Cells of one Job.
pub(super) fn cells(job: JsonView<'_>, now: Time) -> Vec<Value> {
    let own: [Value; 3] = [
        status(job).into(),
        completions(job).into(),
        run_time(job.at("status"), now).into(),
    ];
    [own, of_job_spec(job.at("spec"))].concat()
}

/// The containers, images and selector of a Job spec.
pub(super) fn of_job_spec(spec: JsonView<'_>) -> [Value; 3] {
    let of_containers = |field: &str| -> Value {
        let containers = spec.at("template.spec.containers").items();
        let list = containers.filter_map(|container| container.at(field).as_text());
        list.collect::<Vec<_>>().join(",").into()
    };
    [
        of_containers("name"),
        of_containers("image"),
        or_none(&selector(spec.at("selector"))),
    ]
}

fn status(job: JsonView<'_>) -> &'static str {
    let deleted = job.at("metadata.deletionTimestamp").is_set();
    match () {
        () if is_true(job, "Complete") => "Complete",
        () if is_true(job, "Failed") => "Failed",
        () if deleted => "Terminating",
        () if is_true(job, "Suspended") => "Suspended",
        () if is_true(job, "FailureTarget") => "FailureTarget",
        () if is_true(job, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: JsonView<'_>) -> String {
    let succeeded = job.at("status.succeeded").number();
    let of = |field| job.at("spec").at(field).int();
    match (of("completions"), of("parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, Some(parallelism)) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn run_time(status: JsonView<'_>, now: Time) -> String {
    let time = |field| Time::parse_rfc3339(status.at(field).text());
    match time("startTime") {
        Some(start) => duration::between(start, time("completionTime").unwrap_or(now)),
        None => String::new(),
    }
}

/// A label selector in text form.
fn selector(selector: JsonView<'_>) -> String {
    let labels = selector.at("matchLabels").tree().iter();
    let mut parts: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for item in selector.at("matchExpressions").items() {
        let key = item.at("key").text();
        let values: Vec<&str> = item.at("values").items().map(JsonView::text).collect();
        parts.push(match item.at("operator").text() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.join(",")
}
