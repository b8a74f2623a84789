//! Builds the Pod table.
//!
//! Responsible for: cells of Pods, mainly the Status cell. Must not: validate Pods.

use serde_json::{Value, json};

use super::{
    cells::{self, is_true, or_none},
    duration,
};
use crate::{apiserver::object::JsonView, model::Time};

/// Cells of one Pod.
pub(super) fn cells(pod: JsonView<'_>, now: Time) -> Vec<Value> {
    let summary = summarize(pod);
    vec![
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts(summary.restarts, summary.restarted_at, now).into(),
        or_none(pod.at("status.podIP").text()),
        or_none(pod.at("spec.nodeName").text()),
        or_none(pod.at("status.nominatedNodeName").text()),
        gates(pod),
    ]
}

/// The condition in the row of a terminated Pod.
pub(super) fn condition(pod: JsonView<'_>) -> Option<Value> {
    let phase = pod.at("status.phase").text();
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!({"type": "Completed", "status": "True", "reason": phase, "message": message}))
}

#[derive(Default)]
struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    restarted_at: Option<Time>,
}

impl Summary {
    fn count_restarts(&mut self, container: JsonView<'_>) {
        self.restarts += container.at("restartCount").number();
        let finished = container.at("lastState.terminated.finishedAt").text();
        self.restarted_at = self.restarted_at.max(Time::parse_rfc3339(finished));
    }
}

fn summarize(pod: JsonView<'_>) -> Summary {
    let phase = pod.at("status.phase").text();
    let (reason, shown) = match pod.at("status.reason").text() {
        "" => ("", phase),
        reason => (reason, reason),
    };
    let gated = cells::condition(pod, "PodScheduled")
        .is_some_and(|scheduled| scheduled.at("reason").text() == "SchedulingGated");
    let mut summary = Summary {
        reason: if gated { "SchedulingGated" } else { shown }.to_owned(),
        total: pod.at("spec.containers").list().len() + sidecars(pod).count(),
        ..Summary::default()
    };
    let initializing = init_containers(pod, &mut summary);
    if !initializing || is_true(pod, "Initialized") {
        containers(pod, &mut summary);
    }
    if pod.at("metadata.deletionTimestamp").is_set() {
        if reason == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

fn sidecars<'v>(pod: JsonView<'v>) -> impl Iterator<Item = &'v str> {
    let inits = pod.at("spec.initContainers").items();
    let sidecars = inits.filter(|container| container.at("restartPolicy").text() == "Always");
    sidecars.filter_map(|container| container.at("name").as_text())
}

/// Walks the init containers up to the first incomplete one; returns true if there is one.
fn init_containers(pod: JsonView<'_>, summary: &mut Summary) -> bool {
    let total = pod.at("spec.initContainers").list().len();
    let mut of_sidecars = Summary::default();
    let statuses = pod.at("status.initContainerStatuses").items();
    for (index, container) in statuses.enumerate() {
        let sidecar = sidecars(pod).any(|name| name == container.at("name").text());
        summary.count_restarts(container);
        if sidecar {
            of_sidecars.count_restarts(container);
        }
        let terminated = container.at("state.terminated");
        if terminated.is_set() {
            if terminated.at("exitCode").number() == 0 {
                continue;
            }
            summary.reason = format!("Init:{}", termination(terminated));
            return true;
        }
        if sidecar && container.at("started").flag() {
            summary.ready += usize::from(container.at("ready").flag());
            continue;
        }
        summary.reason = match container.at("state.waiting.reason").text() {
            "" | "PodInitializing" => format!("Init:{index}/{total}"),
            waiting => format!("Init:{waiting}"),
        };
        return true;
    }
    summary.restarts = of_sidecars.restarts;
    summary.restarted_at = of_sidecars.restarted_at;
    false
}

fn containers(pod: JsonView<'_>, summary: &mut Summary) {
    let mut running = false;
    let mut last_error = String::new();
    for container in pod.at("status.containerStatuses").items().rev() {
        summary.count_restarts(container);
        let waiting = container.at("state.waiting.reason").text();
        let terminated = container.at("state.terminated");
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if terminated.is_set() {
            summary.reason = termination(terminated);
            if terminated.at("exitCode").number() != 0 {
                last_error.clone_from(&summary.reason);
            }
        } else if container.at("ready").flag() && container.at("state.running").is_set() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" {
        if !last_error.is_empty() {
            summary.reason = last_error;
        } else if running {
            let ready = is_true(pod, "Ready");
            summary.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
}

fn termination(terminated: JsonView<'_>) -> String {
    let number = |name: &str| terminated.at(name).number();
    match (terminated.at("reason").text(), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn restarts(count: i64, at: Option<Time>, now: Time) -> String {
    match at {
        Some(at) if count > 0 => format!("{count} ({} ago)", duration::between(at, now)),
        _ => count.to_string(),
    }
}

fn gates(pod: JsonView<'_>) -> Value {
    let gates = pod.at("spec.readinessGates");
    let kinds = gates
        .items()
        .filter_map(|gate| gate.at("conditionType").as_text());
    let open = kinds.filter(|kind| is_true(pod, kind)).count();
    match gates.list().len() {
        0 => "<none>".into(),
        all => format!("{open}/{all}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_tell_when_the_last_one_was() {
        let at = Time::parse_rfc3339("2020-01-01T00:00:00Z");
        let now = Time::parse_rfc3339("2026-11-22T12:00:00Z").expect("a time");
        assert_eq!(restarts(3, at, now), "3 (6y327d ago)");
        assert_eq!(
            (restarts(3, None, now), restarts(0, at, now)),
            ("3".into(), "0".into())
        );
    }

    #[test]
    fn status_cells() {
        let check = |pod: Value, expected: &str| {
            let Value::Object(tree) = pod else {
                unreachable!()
            };
            let cells = cells((&tree).into(), Time::from_secs(0));
            let shown = format!(
                "{} {}",
                cells[0].as_str().unwrap(),
                cells[1].as_str().unwrap()
            );
            assert_eq!(shown, expected, "{tree:?}");
        };
        let spec = json!({"containers": [{"name": "a"}]});
        check(
            json!({"spec": spec, "status": {"phase": "Pending"}}),
            "0/1 Pending",
        );
        check(
            json!({"spec": spec, "status": {"phase": "Running", "containerStatuses": [
                {"name": "a", "ready": true, "state": {"running": {}}}]}}),
            "1/1 Running",
        );
        check(
            json!({"spec": spec, "status": {"phase": "Failed", "containerStatuses": [
                {"name": "a", "state": {"terminated": {"exitCode": 3}}}]}}),
            "0/1 ExitCode:3",
        );
        check(
            json!({"metadata": {"deletionTimestamp": "x"}, "spec": spec,
                   "status": {"phase": "Running"}}),
            "0/1 Terminating",
        );
        check(
            json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]},
                   "status": {"phase": "Pending", "initContainerStatuses": [
                       {"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]}}),
            "0/1 Init:0/1",
        );
    }
}
