//! Groups a Job's failed Pods by cause, for the page. Reads them from the API server on request.
//!
//! One response covers several pages of the list, at most [`PODS`] Pods, and has the token for the next request. So a
//! Pod event costs nothing for it. Must not: keep anything.

use lakh_inspect::failures::{FailedPods, FailureGroup};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::{
    client::{self, Client},
    model::{JobKey, Uid},
    wire::{ApiError, Call, PodDetails, decode_job, decode_list_page, paths},
};

/// Page size of the list, as in kubectl.
const LIST_PAGE: usize = 500;

/// Maximum number of Pods in one response: 5 to 20 MB of lists, which a Kubernetes 1.36.2 server returns within a
/// second.
const PODS: usize = 10_000;

/// Maximum number of index ranges of one cause; a Job of 100,000 indexes may have as many ranges.
const RANGES: usize = 2_000;

/// Maximum number of node names of one cause.
const NODES: usize = 200;

/// Field selector for failed Pods.
const FAILED: &str = "status.phase=Failed";

/// Returns the causes, most frequent first. `query` may have a continue token and a limit on Pods.
pub(super) async fn page(client: &Client, key: &JobKey, query: &str) -> client::Result<Value> {
    let undecodable = |why: String| ApiError::no_answer(format!("invalid response: {why}"));
    let (namespace, name) = (paths::escaped(&key.namespace), paths::escaped(&key.name));
    let job = client.get(&paths::job(&namespace, &name)).await?;
    let job = decode_job(&String::from_utf8_lossy(&job))
        .map_err(|error| undecodable(error.to_string()))?;
    let (uid, selector) = (job.job.uid, job.selector.as_deref());
    let list = paths::pods_of_job(&key.namespace, uid, selector, FAILED);
    let mut from = parameter(query, "continue");
    let limit = pod_limit(query);
    let mut failed = FailedPods::default();
    let mut seen = 0;
    loop {
        let path = match from.as_str() {
            "" => format!("{list}&limit={LIST_PAGE}"),
            token => format!(
                "{list}&limit={LIST_PAGE}&continue={}",
                paths::escaped(token)
            ),
        };
        let body = client.send(&Call::get_compact(path)).await?;
        let page = decode_list_page(&body).map_err(|error| undecodable(error.to_string()))?;
        for object in page.items {
            let pod = PodDetails::read(object).map_err(|error| undecodable(error.to_string()))?;
            add_owned(&mut failed, &pod, uid);
            seen += 1;
        }
        from = page.continue_token;
        if from.is_empty() || seen >= limit {
            break;
        }
        // Lets other requests run on this thread.
        tokio::task::yield_now().await;
    }
    let causes = failed.by_cause();
    Ok(json!({
        "pods": failed.count(),
        "counted": job.job.status.failed,
        "continue": from,
        "causes": causes.iter().map(cause_json).collect::<Vec<_>>(),
    }))
}

/// Adds a Pod if the Job owns it: the selector may match other Pods.
fn add_owned(failed: &mut FailedPods, pod: &PodDetails, job: Uid) {
    if pod.owner == Some(job) {
        failed.take(pod);
    }
}

/// Returns a parameter of the query; empty if it is missing.
fn parameter(query: &str, name: &str) -> String {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.find(|(known, _)| *known == name);
    let value = value.map(|(_, value)| percent_decode_str(value).decode_utf8_lossy());
    value.unwrap_or_default().into_owned()
}

/// Returns the limit on Pods of a request.
fn pod_limit(query: &str) -> usize {
    let limit = parameter(query, "limit").parse();
    limit.unwrap_or(PODS).min(PODS)
}

fn cause_json(group: &FailureGroup<'_>) -> Value {
    let last = group.last;
    let list = group.indexes.to_string();
    let mut ranges = list.split(',');
    let shown: Vec<&str> = ranges.by_ref().take(RANGES).collect();
    json!({
        "cause": group.cause.to_string(),
        "exitCode": group.cause.exit_code,
        "reason": group.cause.reason,
        "container": group.cause.container,
        "pods": group.pods,
        "indexes": shown.join(","),
        "moreRanges": ranges.count(),
        "nodes": group.nodes.iter().take(NODES).collect::<Vec<_>>(),
        "moreNodes": group.nodes.len().saturating_sub(NODES),
        "last": {
            "pod": last.name,
            "index": last.index,
            "node": last.node,
            "at": last.at.to_rfc3339(),
            "tries": last.tries,
            "message": last.message,
        },
    })
}

#[cfg(test)]
mod tests {
    use crate::wire::Object;

    use super::*;

    #[test]
    fn pods_are_grouped_by_cause_and_foreign_pods_are_left_out() {
        let uid = Uid::from_u128(7);
        let mut failed = FailedPods::default();
        for (index, code, owner) in [(3, 1, 7), (4, 1, 7), (9, 137, 7), (5, 1, 8)] {
            let pod = json!({
                "metadata": {
                    "name": format!("a-{index}"), "uid": Uid::from_u128(100 + index).to_string(),
                    "annotations": {"batch.kubernetes.io/job-completion-index": index.to_string()},
                    "ownerReferences": [{"uid": Uid::from_u128(owner).to_string(), "controller": true}],
                },
                "spec": {"nodeName": format!("node-{index}")},
                "status": {"phase": "Failed", "containerStatuses": [
                    {"name": "main", "state": {"terminated": {"exitCode": code, "message": "no disk"}}},
                ]},
            });
            let pod = PodDetails::read(Object::Json(&pod.to_string())).expect("a Pod");
            add_owned(&mut failed, &pod, uid);
        }
        let causes: Vec<Value> = failed.by_cause().iter().map(cause_json).collect();
        let [first, second] = causes.as_slice() else {
            panic!("two causes: {causes:?}")
        };
        assert_eq!(
            (&first["cause"], &first["pods"]),
            (&json!("exit code 1"), &json!(2))
        );
        assert_eq!(first["indexes"], "3,4");
        assert_eq!(first["last"]["message"], "no disk");
        assert_eq!(
            (&first["nodes"], &first["moreNodes"]),
            (&json!(["node-3", "node-4"]), &json!(0))
        );
        assert_eq!(second["exitCode"], 137);
    }

    #[test]
    fn continue_token_and_limit_are_read_from_the_query() {
        let token = |query| parameter(query, "continue");
        assert_eq!(token("continue=a%3Db%26limit%3D1"), "a=b&limit=1");
        assert_eq!(token("other=1"), "");
        assert_eq!(token(""), "");
        assert_eq!(pod_limit("continue=a&limit=1000"), 1_000);
        for other in ["", "limit=x", "limit=99999999", "limit=-1"] {
            assert_eq!(pod_limit(other), PODS, "{other}");
        }
    }
}
