//! What a Job's Pods failed of, by cause: its failed Pods as the API server has them, read when somebody looks.
//!
//! A page of the answer is made of some pages of the list; where there are more, it says where to go on. So no answer costs
//! more than [`PODS`] Pods, and nobody on the way of a Pod knows of it. Must not: keep anything.

use lakh_inspect::failures::{FailedPods, FailureGroup};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::{
    client::{self, Client},
    model::{JobKey, Uid},
    wire::{ApiError, Call, PodDetails, decode_job, decode_list_page, paths},
};

/// Pods in a page of the list. kubectl asks for as many.
const LIST_PAGE: usize = 500;

/// How many Pods an answer is made of at most: 5 to 20 MB of lists, which a server (Kubernetes 1.36.2) gives in a second.
const PODS: usize = 10_000;

/// As many ranges of indexes are told of one cause; a Job of 100,000 may have as many ranges.
const RANGES: usize = 2_000;

/// Names of nodes in an answer, for each cause.
const NODES: usize = 200;

/// What is asked of a list: the one thing of it that is read.
const FAILED: &str = "status.phase=Failed";

/// The causes, the most frequent first; `query` may say where to go on, and after how many Pods to stop.
pub(super) async fn page(client: &Client, key: &JobKey, query: &str) -> client::Result<Value> {
    let odd = |why: String| ApiError::no_answer(format!("the answer cannot be read: {why}"));
    let (namespace, name) = (paths::escaped(&key.namespace), paths::escaped(&key.name));
    let job = client.get(&paths::job(&namespace, &name)).await?;
    let job = decode_job(&String::from_utf8_lossy(&job)).map_err(|error| odd(error.to_string()))?;
    let (uid, selector) = (job.job.uid, job.selector.as_deref());
    let list = paths::pods_of_job(&key.namespace, uid, selector, FAILED);
    let mut from = parameter(query, "continue");
    let most = most(query);
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
        let page = decode_list_page(&body).map_err(|error| odd(error.to_string()))?;
        for object in page.items {
            let pod = PodDetails::read(object).map_err(|error| odd(error.to_string()))?;
            take(&mut failed, &pod, uid);
            seen += 1;
        }
        from = page.continue_token;
        if from.is_empty() || seen >= most {
            break;
        }
        // Others have the thread in between.
        tokio::task::yield_now().await;
    }
    let causes = failed.by_cause();
    Ok(json!({
        "pods": failed.count(),
        "counted": job.job.status.failed,
        "continue": from,
        "causes": causes.iter().map(told).collect::<Vec<_>>(),
    }))
}

/// The selector may be anybody's.
fn take(failed: &mut FailedPods, pod: &PodDetails, job: Uid) {
    if pod.owner == Some(job) {
        failed.take(pod);
    }
}

/// A parameter of a query; empty if it is not there.
fn parameter(query: &str, name: &str) -> String {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.find(|(known, _)| *known == name);
    let value = value.map(|(_, value)| percent_decode_str(value).decode_utf8_lossy());
    value.unwrap_or_default().into_owned()
}

/// After how many Pods an answer ends.
fn most(query: &str) -> usize {
    let asked = parameter(query, "limit").parse();
    asked.unwrap_or(PODS).min(PODS)
}

fn told(group: &FailureGroup<'_>) -> Value {
    let last = group.last;
    let list = group.indexes.to_string();
    let mut ranges = list.split(',');
    let told: Vec<&str> = ranges.by_ref().take(RANGES).collect();
    json!({
        "cause": group.cause.to_string(),
        "exitCode": group.cause.exit_code,
        "reason": group.cause.reason,
        "container": group.cause.container,
        "pods": group.pods,
        "indexes": told.join(","),
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
    fn pods_of_one_cause_are_one_and_those_of_others_are_not_counted() {
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
            take(&mut failed, &pod, uid);
        }
        let causes: Vec<Value> = failed.by_cause().iter().map(told).collect();
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
    fn where_to_go_on_and_to_stop_is_read_from_the_query() {
        let go_on = |query| parameter(query, "continue");
        assert_eq!(go_on("continue=a%3Db%26limit%3D1"), "a=b&limit=1");
        assert_eq!(go_on("other=1"), "");
        assert_eq!(go_on(""), "");
        assert_eq!(most("continue=a&limit=1000"), 1_000);
        for other in ["", "limit=x", "limit=99999999", "limit=-1"] {
            assert_eq!(most(other), PODS, "{other}");
        }
    }
}
