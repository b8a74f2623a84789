//! The Pods of one index, as the API server has them: asked for when somebody points at it.
//!
//! Must not: read more Pods than are shown.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    cluster::{self, Client},
    model::JobKey,
    wire::{ApiError, paths},
};

/// More tries than a person reads.
const TRIES: usize = 50;

#[derive(Deserialize)]
struct PodList {
    items: Vec<Value>,
}

/// What became of an index' Pods that are still there, the newest first, as JSON; with what the controller has recorded of
/// it, if it has.
pub(super) async fn tries(
    client: &Client,
    key: &JobKey,
    index: u32,
    record: Option<Value>,
) -> cluster::Result<String> {
    let selector = format!(
        "batch.kubernetes.io/job-name={},batch.kubernetes.io/job-completion-index={index}",
        key.name
    );
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let (namespace, selector) = (encoded(&key.namespace), encoded(&selector));
    let pods = paths::pods(Some(&namespace));
    let path = format!("{pods}?labelSelector={selector}&limit={TRIES}");
    let answer = client.get(&path).await?;
    let list: PodList = serde_json::from_slice(&answer)
        .map_err(|error| ApiError::no_answer(format!("the list of Pods: {error}")))?;
    let mut tries: Vec<Value> = list.items.iter().map(told).collect();
    tries.sort_by_key(|told| std::cmp::Reverse(told["created"].to_string()));
    Ok(json!({"index": index, "pods": tries, "record": record}).to_string())
}

/// What a person wants to know of a Pod.
fn told(pod: &Value) -> Value {
    let status = &pod["status"];
    let containers = status["containerStatuses"].as_array();
    let containers = containers.into_iter().flatten().map(|container| {
        let (state, ended) = (&container["state"], &container["state"]["terminated"]);
        let waits = &state["waiting"];
        let either = |one: &Value, other: &Value| match one {
            Value::Null => other.clone(),
            said => said.clone(),
        };
        json!({
            "name": container["name"],
            "exitCode": ended["exitCode"],
            "signal": ended["signal"],
            "reason": either(&ended["reason"], &waits["reason"]),
            "message": either(&ended["message"], &waits["message"]),
            "restarts": container["restartCount"],
            "started": either(&ended["startedAt"], &state["running"]["startedAt"]),
            "finished": ended["finishedAt"],
        })
    });
    json!({
        "name": pod["metadata"]["name"],
        "created": pod["metadata"]["creationTimestamp"],
        "deleting": !pod["metadata"]["deletionTimestamp"].is_null(),
        "phase": status["phase"],
        "reason": status["reason"],
        "message": status["message"],
        "node": pod["spec"]["nodeName"],
        "containers": containers.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_pod_says_is_kept() {
        let told = told(&json!({
            "metadata": {"name": "a-7-x", "creationTimestamp": "2026-11-26T10:00:00Z"},
            "spec": {"nodeName": "node-1"},
            "status": {"phase": "Failed", "containerStatuses": [{
                "name": "main", "restartCount": 2,
                "state": {"terminated": {"exitCode": 42, "reason": "Error", "finishedAt": "2026-11-26T10:00:09Z"}},
            }]},
        }));
        assert_eq!(
            (&told["phase"], &told["node"]),
            (&json!("Failed"), &json!("node-1"))
        );
        let container = &told["containers"][0];
        assert_eq!(container["exitCode"], 42);
        assert_eq!(
            (&container["reason"], &container["restarts"]),
            (&json!("Error"), &json!(2))
        );
        assert_eq!(told["deleting"], false);
    }
}
