//! Builds the tables of kinds with few columns.
//!
//! Responsible for: their cells. Must not: handle Jobs or Pods.

use serde_json::Value;

use super::{
    cells::{condition, is_true, or_none},
    duration,
    jobs::of_job_spec,
};
use crate::{apiserver::object::JsonView, model::Time};

pub(super) fn node(node: JsonView<'_>) -> Vec<Value> {
    let state = match condition(node, "Ready") {
        None => "Unknown",
        Some(_) if is_true(node, "Ready") => "Ready",
        Some(_) => "NotReady",
    };
    let cordoned = match node.at("spec.unschedulable").flag() {
        true => ",SchedulingDisabled",
        false => "",
    };
    let labels = node.at("metadata.labels").tree().keys();
    let roles: Vec<&str> = labels
        .filter_map(|key| key.strip_prefix("node-role.kubernetes.io/"))
        .filter(|role| !role.is_empty())
        .collect();
    let address = |address_type: &str| {
        let mut addresses = node.at("status.addresses").items();
        let first = addresses.find(|address| address.at("type").text() == address_type);
        or_none(first.map_or("", |address| address.at("address").text()))
    };
    let info = |field: &str| match node.at("status.nodeInfo").at(field).text() {
        "" => "<unknown>",
        text => text,
    };
    let kernel = match node.at("status.nodeInfo.architecture").text() {
        "" => info("kernelVersion").to_owned(),
        architecture => format!("{} ({architecture})", info("kernelVersion")),
    };
    vec![
        format!("{state}{cordoned}").into(),
        or_none(&roles.join(",")),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}

/// The cells of a Service.
pub(super) fn service(service: JsonView<'_>) -> Vec<Value> {
    let spec = service.at("spec");
    let texts = |field: &str| {
        spec.at(field)
            .items()
            .map(JsonView::text)
            .collect::<Vec<_>>()
    };
    let external = match spec.at("type").text() {
        "ExternalName" => spec.at("externalName").text().into(),
        "LoadBalancer" if texts("externalIPs").is_empty() => "<pending>".into(),
        _ => or_none(&texts("externalIPs").join(",")),
    };
    let port = |port: JsonView<'_>| {
        let (number, protocol) = (port.at("port").number(), port.at("protocol").text());
        match port.at("nodePort").number() {
            0 => format!("{number}/{protocol}"),
            on_node => format!("{number}:{on_node}/{protocol}"),
        }
    };
    let ports: Vec<String> = spec.at("ports").items().map(port).collect();
    let label =
        |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    let selector: Vec<String> = spec.at("selector").tree().iter().map(label).collect();
    vec![
        or_none(texts("clusterIPs").first().unwrap_or(&"")),
        external,
        or_none(&ports.join(",")),
        or_none(&selector.join(",")),
    ]
}

pub(super) fn event(event: JsonView<'_>, now: Time) -> Vec<Value> {
    let text = |field: &str| event.at(field).text();
    let either = |one: &str, other: &str| match text(one) {
        "" => text(other).to_owned(),
        text => text.to_owned(),
    };
    let kind = text("involvedObject.kind").to_lowercase();
    vec![
        duration::since(&either("lastTimestamp", "eventTime"), now).into(),
        text("type").into(),
        text("reason").into(),
        format!("{kind}/{}", text("involvedObject.name")).into(),
        text("involvedObject.fieldPath").into(),
        either("source.component", "reportingComponent").into(),
        text("message").trim().into(),
        duration::since(&either("firstTimestamp", "eventTime"), now).into(),
        event.at("count").int().unwrap_or(1).into(),
    ]
}

pub(super) fn cron_job(cron_job: JsonView<'_>, now: Time) -> Vec<Value> {
    let suspend = match cron_job.at("spec.suspend").value() {
        Value::Bool(true) => "True",
        Value::Bool(false) => "False",
        _ => "<unset>",
    };
    let last = match cron_job.at("status.lastScheduleTime").text() {
        "" => String::new(),
        last => duration::since(last, now),
    };
    let mut cells = vec![
        cron_job.at("spec.schedule").text().into(),
        or_none(cron_job.at("spec.timeZone").text()),
        suspend.into(),
        cron_job.at("status.active").list().len().into(),
        or_none(&last),
    ];
    cells.extend(of_job_spec(cron_job.at("spec.jobTemplate.spec")));
    cells
}

/// The cells of a PodGroup.
pub(super) fn pod_group(group: JsonView<'_>) -> Vec<Value> {
    let gang = group.at("spec.schedulingPolicy.gang").is_set();
    let workload = group.at("spec.podGroupTemplateRef.workload.workloadName");
    let status = match condition(group, "DisruptionTarget") {
        Some(disrupted) => disrupted.at("reason").value().clone(),
        None if condition(group, "PodGroupScheduled").is_none() => "Pending".into(),
        None if is_true(group, "PodGroupScheduled") => "Scheduled".into(),
        None => "Unschedulable".into(),
    };
    vec![
        if gang { "Gang" } else { "Basic" }.into(),
        or_none(workload.text()),
        status,
    ]
}

/// The cells of a ResourceQuota.
pub(super) fn quota(quota: JsonView<'_>) -> Vec<Value> {
    let (hard, used) = (quota.at("status.hard"), quota.at("status.used"));
    let list = |limits: bool| {
        let names = hard.tree().keys();
        let names = names.filter(|name| name.starts_with("limits.") == limits);
        let entry = |name: &String| {
            let (used, hard) = (used.entry(name).text(), hard.entry(name).text());
            format!("{name}: {used}/{hard}")
        };
        names.map(entry).collect::<Vec<_>>().join(", ").into()
    };
    vec![list(false), list(true)]
}
