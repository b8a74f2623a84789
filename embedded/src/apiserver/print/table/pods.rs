//! The Pod table.
//!
//! Responsible for: cells of Pods, above all the Status cell. Must not: judge Pods.

use serde_json::{Value, json};

use super::{
    cells::{AGE, Column, NAME, Row, age, condition, is_true, name, or_none},
    duration,
};
use crate::{
    apiserver::object::tree::{self, Tree},
    model::Time,
};

/// Columns of Pods.
pub(super) const COLUMNS: &[Column] = &[
    NAME,
    (
        "Ready",
        "string",
        0,
        "The aggregate readiness state of this pod for accepting traffic.",
    ),
    (
        "Status",
        "string",
        0,
        "The aggregate status of the containers in this pod.",
    ),
    (
        "Restarts",
        "string",
        0,
        "The number of times the containers in this pod were restarted.",
    ),
    AGE,
    ("IP", "string", 1, "The address of the pod."),
    ("Node", "string", 1, "The node the pod is bound to."),
    (
        "Nominated Node",
        "string",
        1,
        "The node the pod may be bound to after preemption.",
    ),
    (
        "Readiness Gates",
        "string",
        1,
        "Readiness gates that are true, of all.",
    ),
];

/// The row of one Pod.
pub(super) fn row(tree: &Tree, now: Time) -> Row {
    let status = tree::section(tree, "status");
    let spec = tree::section(tree, "spec");
    let phase = tree::text(status, "phase");
    let finished = |message: &str| json!({"type": "Completed", "status": "True", "reason": phase, "message": message});
    let condition = match phase {
        "Succeeded" => Some(finished("The pod has completed successfully.")),
        "Failed" => Some(finished("The pod failed.")),
        _ => None,
    };
    let summary = summarize(tree);
    let cells = vec![
        name(tree),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts(summary.restarts, summary.restarted_at, now).into(),
        age(tree, now),
        or_none(tree::text(status, "podIP")),
        or_none(tree::text(spec, "nodeName")),
        or_none(tree::text(status, "nominatedNodeName")),
        gates(tree),
    ];
    Row { cells, condition }
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
    fn count_restarts(&mut self, container: &Tree) {
        self.restarts += tree::int(container, "restartCount").unwrap_or_default();
        let last = tree::section(tree::section(container, "lastState"), "terminated");
        let finished = Time::parse_rfc3339(tree::text(last, "finishedAt"));
        self.restarted_at = self.restarted_at.max(finished);
    }
}

fn summarize(tree: &Tree) -> Summary {
    let status = tree::section(tree, "status");
    let spec = tree::section(tree, "spec");
    let total = tree::items(spec, "containers").len() + sidecars(spec).count();
    let mut summary = Summary {
        total,
        ..Summary::default()
    };
    let reason = tree::text(status, "reason");
    let phase = tree::text(status, "phase");
    summary.reason = if reason.is_empty() { phase } else { reason }.to_owned();
    if condition(tree, "PodScheduled").is_some_and(|it| {
        it.get("reason")
            .is_some_and(|reason| reason == "SchedulingGated")
    }) {
        summary.reason = "SchedulingGated".to_owned();
    }
    let initializing = init_containers(spec, status, &mut summary);
    if !initializing || is_true(tree, "Initialized") {
        containers(tree, status, &mut summary);
    }
    if tree::metadata(tree).contains_key("deletionTimestamp") {
        if reason == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

fn sidecars(spec: &Tree) -> impl Iterator<Item = &str> {
    tree::items(spec, "initContainers")
        .iter()
        .filter(|container| {
            container
                .get("restartPolicy")
                .is_some_and(|it| it == "Always")
        })
        .filter_map(|container| container.get("name")?.as_str())
}

/// Walks the init containers up to the first that is not done; true if there is one.
fn init_containers(spec: &Tree, status: &Tree, summary: &mut Summary) -> bool {
    let total = tree::items(spec, "initContainers").len();
    let mut sidecar_summary = Summary::default();
    for (index, item) in tree::items(status, "initContainerStatuses")
        .iter()
        .enumerate()
    {
        let Some(container) = item.as_object() else {
            continue;
        };
        let sidecar = sidecars(spec).any(|name| name == tree::text(container, "name"));
        summary.count_restarts(container);
        if sidecar {
            sidecar_summary.count_restarts(container);
        }
        let state = tree::section(container, "state");
        if let Some(Value::Object(terminated)) = state.get("terminated") {
            if tree::int(terminated, "exitCode").unwrap_or_default() == 0 {
                continue;
            }
            summary.reason = format!("Init:{}", termination(terminated));
            return true;
        }
        if sidecar && tree::flag(container, "started") {
            summary.ready += usize::from(tree::flag(container, "ready"));
            continue;
        }
        let waiting = tree::text(tree::section(state, "waiting"), "reason");
        summary.reason = if waiting.is_empty() || waiting == "PodInitializing" {
            format!("Init:{index}/{total}")
        } else {
            format!("Init:{waiting}")
        };
        return true;
    }
    summary.restarts = sidecar_summary.restarts;
    summary.restarted_at = sidecar_summary.restarted_at;
    false
}

fn containers(tree: &Tree, status: &Tree, summary: &mut Summary) {
    let mut running = false;
    let mut last_error = String::new();
    for item in tree::items(status, "containerStatuses").iter().rev() {
        let Some(container) = item.as_object() else {
            continue;
        };
        summary.count_restarts(container);
        let state = tree::section(container, "state");
        let waiting = tree::text(tree::section(state, "waiting"), "reason");
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if let Some(Value::Object(terminated)) = state.get("terminated") {
            summary.reason = termination(terminated);
            if tree::int(terminated, "exitCode").unwrap_or_default() != 0 {
                last_error.clone_from(&summary.reason);
            }
        } else if tree::flag(container, "ready") && state.contains_key("running") {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" {
        if !last_error.is_empty() {
            summary.reason = last_error;
        } else if running {
            let ready = is_true(tree, "Ready");
            summary.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
}

fn termination(terminated: &Tree) -> String {
    let reason = tree::text(terminated, "reason");
    let number = |name: &str| tree::int(terminated, name).unwrap_or_default();
    if !reason.is_empty() {
        reason.to_owned()
    } else if number("signal") != 0 {
        format!("Signal:{}", number("signal"))
    } else {
        format!("ExitCode:{}", number("exitCode"))
    }
}

fn restarts(count: i64, at: Option<Time>, now: Time) -> String {
    match at {
        Some(at) if count > 0 => format!("{count} ({} ago)", duration::between(at, now)),
        _ => count.to_string(),
    }
}

fn gates(tree: &Tree) -> Value {
    let gates = tree::items(tree::section(tree, "spec"), "readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let open = gates
        .iter()
        .filter_map(|gate| gate.get("conditionType")?.as_str())
        .filter(|gate| is_true(tree, gate))
        .count();
    format!("{open}/{}", gates.len()).into()
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
            let row = row(&tree, Time::from_secs(0));
            let shown = format!(
                "{} {}",
                row.cells[1].as_str().unwrap(),
                row.cells[2].as_str().unwrap()
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
