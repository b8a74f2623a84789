//! Reads the Pods of one index from the API server, on request.
//!
//! Must not: read more Pods than the response has.

use serde_json::{Value, json};

use crate::{
    client::{self, Client},
    model::{JobKey, Time},
    wire::{ApiError, Call, ContainerDetails, PodDetails, decode_list_page, paths},
};

/// Maximum number of Pods in a response: more attempts than a user reads.
const TRIES: usize = 50;

/// Returns the index's existing Pods, newest first, and the controller's record of it, if any.
pub(super) async fn tries(
    client: &Client,
    key: &JobKey,
    index: u32,
    record: Option<Value>,
) -> client::Result<Value> {
    let selector = format!(
        "batch.kubernetes.io/job-name={},batch.kubernetes.io/job-completion-index={index}",
        key.name
    );
    let (namespace, selector) = (paths::escaped(&key.namespace), paths::escaped(&selector));
    let pods = paths::pods(Some(&namespace));
    let path = format!("{pods}?labelSelector={selector}&limit={TRIES}");
    let answer = client.send(&Call::get_compact(path)).await?;
    let undecodable = |error| ApiError::no_answer(format!("invalid list of Pods: {error}"));
    let page = decode_list_page(&answer).map_err(undecodable)?;
    let tries: Result<Vec<PodDetails>, _> = page.items.into_iter().map(PodDetails::read).collect();
    let mut tries = tries.map_err(undecodable)?;
    tries.sort_by_key(|pod| std::cmp::Reverse(pod.created));
    let tries: Vec<Value> = tries.iter().map(description).collect();
    Ok(json!({"index": index, "pods": tries, "record": record}))
}

/// Describes a Pod: its state or end, node and times.
pub(super) fn description(pod: &PodDetails) -> Value {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "name": pod.name,
        "index": pod.index,
        "created": pod.created.map(Time::to_rfc3339),
        "deleting": pod.deletion.is_some(),
        "phase": pod.phase.as_str(),
        "reason": some(&pod.reason),
        "message": some(&pod.message),
        "node": pod.node,
        "containers": pod.containers.iter().map(container).collect::<Vec<_>>(),
    })
}

fn container(told: &ContainerDetails) -> Value {
    let (ended, waits) = (told.ended.as_ref(), told.waiting.as_ref());
    let reason = ended.map(|end| end.reason.as_str());
    let message = ended.map(|end| end.message.as_str());
    json!({
        "name": told.name,
        "exitCode": ended.map(|end| end.exit_code),
        "signal": ended.map(|end| end.signal).filter(|signal| *signal != 0),
        "reason": reason.or(waits.map(|(reason, _)| reason.as_str())).filter(|it| !it.is_empty()),
        "message": message.or(waits.map(|(_, message)| message.as_str())).filter(|it| !it.is_empty()),
        "restarts": told.restarts,
        "finished": ended.and_then(|end| end.at).map(Time::to_rfc3339),
    })
}

#[cfg(test)]
mod tests {
    use crate::wire::Object;

    use super::*;

    #[test]
    fn a_failed_pod_is_described_with_its_end() {
        let pod = json!({
            "metadata": {
                "name": "a-7-x", "uid": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
                "creationTimestamp": "2026-11-26T10:00:00Z",
            },
            "spec": {"nodeName": "node-1"},
            "status": {"phase": "Failed", "containerStatuses": [{
                "name": "main", "restartCount": 2,
                "state": {"terminated": {"exitCode": 42, "reason": "Error", "finishedAt": "2026-11-26T10:00:09Z"}},
            }]},
        });
        let pod = PodDetails::read(Object::Json(&pod.to_string())).expect("a Pod");
        let told = description(&pod);
        assert_eq!(
            (&told["phase"], &told["node"]),
            (&json!("Failed"), &json!("node-1"))
        );
        assert_eq!(told["created"], "2026-11-26T10:00:00Z");
        let container = &told["containers"][0];
        assert_eq!(container["exitCode"], 42);
        assert_eq!(container["finished"], "2026-11-26T10:00:09Z");
        assert_eq!(
            (&container["reason"], &container["restarts"]),
            (&json!("Error"), &json!(2))
        );
        assert_eq!(
            (&told["deleting"], &told["reason"]),
            (&json!(false), &Value::Null)
        );
    }
}
