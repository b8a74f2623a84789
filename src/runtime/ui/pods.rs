//! Lists the Pods of a Job without indexes, failed ones first.
//!
//! Must not: read more Pods than the answer has, or keep anything.

use serde_json::{Value, json};

use crate::{
    client::{self, Client},
    model::{JobKey, JobStatus},
    wire::{ApiError, Call, PodDetails, decode_job, decode_list_page, paths},
};

use super::index;

/// Pods that are listed together, in the order of the answer.
struct PodGroup {
    name: &'static str,
    fields: &'static str,
    /// Pods in an answer.
    limit: usize,
    /// The Job's own count of such Pods.
    count: fn(&JobStatus) -> u32,
}

const GROUPS: [PodGroup; 3] = [
    PodGroup {
        name: "failed",
        fields: "status.phase=Failed",
        limit: 100,
        count: |status| status.failed,
    },
    PodGroup {
        name: "active",
        fields: "status.phase!=Failed,status.phase!=Succeeded",
        limit: 100,
        count: |status| status.active + status.terminating.unwrap_or(0),
    },
    PodGroup {
        name: "succeeded",
        fields: "status.phase=Succeeded",
        limit: 50,
        count: |status| status.succeeded,
    },
];

/// Reads some Pods of each group from the API server.
pub(super) async fn of_job(client: &Client, key: &JobKey) -> client::Result<Value> {
    let undecodable = |why: String| ApiError::no_answer(format!("invalid response: {why}"));
    let (namespace, name) = (paths::escaped(&key.namespace), paths::escaped(&key.name));
    let job = client.get(&paths::job(&namespace, &name)).await?;
    let job = decode_job(&String::from_utf8_lossy(&job))
        .map_err(|error| undecodable(error.to_string()))?;
    let (uid, selector) = (job.job.uid, job.selector.as_deref());
    let status = &job.job.status;
    let mut groups = Vec::new();
    for group in &GROUPS {
        // An empty list has its price, too. The counts of a Job that is over are final.
        if status.is_finished() && (group.count)(status) == 0 {
            continue;
        }
        let list = paths::pods_of_job(&key.namespace, uid, selector, group.fields);
        let body = client
            .send(&Call::get_compact(format!("{list}&limit={}", group.limit)))
            .await?;
        let page = decode_list_page(&body).map_err(|error| undecodable(error.to_string()))?;
        let has_more = !page.continue_token.is_empty();
        let pods: Result<Vec<PodDetails>, _> =
            page.items.into_iter().map(PodDetails::read).collect();
        let mut pods = pods.map_err(|error| undecodable(error.to_string()))?;
        // The selector may match another Job's Pods.
        pods.retain(|pod| pod.owner == Some(uid));
        pods.sort_by_key(|pod| std::cmp::Reverse(pod.created));
        let pods: Vec<Value> = pods.iter().map(index::description).collect();
        groups.push(json!({"name": group.name, "pods": pods, "more": has_more}));
    }
    Ok(json!({"groups": groups}))
}
