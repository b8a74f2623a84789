//! Renders Events for Pods that no node takes.
//!
//! Responsible for: Events in the form of the scheduler's or a kubelet's. Must not: decide which Pods get one.

use serde_json::json;

use super::life::Pod;

/// Renders the Event for the Pod's placement failure: from its kubelet if it has a node, otherwise from the scheduler.
pub(super) fn of_complaint(pod: &Pod, node_names: &[String]) -> Vec<u8> {
    let Some(placement_failure) = pod.placement_failure() else {
        return Vec::new();
    };
    let millis = placement_failure.since.as_millis();
    // The name is unique among the Pod's Events. A second create of the same Event finds it existing.
    let name = &pod.name[..pod.name.len().min(MAX_NAME)];
    let mut event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{name}.{:016x}", i128::from(millis) * 1_000_000),
            "namespace": pod.namespace.as_str(),
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace.as_str(),
            "name": pod.name.as_str(),
            "uid": pod.uid.as_str(),
        },
        "type": "Warning",
        "reason": placement_failure.reason,
        "message": &*placement_failure.message,
    });
    let time = placement_failure.since.to_rfc3339();
    let more = match pod.run.node {
        Some(node) => json!({
            "source": {"component": "kubelet", "host": node_names[node]},
            "reportingComponent": "kubelet",
            "reportingInstance": node_names[node],
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }),
        None => json!({
            "action": "Scheduling",
            "reportingComponent": "default-scheduler",
            "reportingInstance": "default-scheduler-hollow",
            "eventTime": format!(
                "{}.{:06}Z",
                time.trim_end_matches('Z'),
                millis.rem_euclid(1000) * 1000
            ),
        }),
    };
    for (field, value) in more.as_object().into_iter().flatten() {
        event[field] = value.clone();
    }
    event.to_string().into_bytes()
}

/// Leaves room for the rest of an Event's name.
const MAX_NAME: usize = 230;
