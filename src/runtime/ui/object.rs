//! Reads the parts of a Job that the controller does not keep: images, owner, queue and limits.
//!
//! The page asks once when it opens a Job, and again when the Job's generation changes. Must not: keep anything.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    client::{self, Client},
    model::JobKey,
    wire::{ApiError, paths},
};

/// Containers in an answer. A Pod template rarely has more, and may have hundreds.
const CONTAINERS: usize = 20;

/// Characters of a text in an answer.
const TEXT: usize = 300;

/// The label that assigns a Job to one of Kueue's queues.
const QUEUE: &str = "kueue.x-k8s.io/queue-name";

#[derive(Deserialize)]
struct RawShownJob {
    metadata: RawShownMetadata,
    spec: RawShownSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawShownMetadata {
    uid: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<RawShownOwner>,
}

#[derive(Deserialize)]
struct RawShownOwner {
    kind: String,
    name: String,
    #[serde(default)]
    controller: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawShownSpec {
    backoff_limit: Option<u32>,
    backoff_limit_per_index: Option<u32>,
    max_failed_indexes: Option<u32>,
    ttl_seconds_after_finished: Option<u32>,
    template: RawShownTemplate,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawShownTemplate {
    spec: RawShownPodSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawShownPodSpec {
    init_containers: Vec<RawShownContainer>,
    containers: Vec<RawShownContainer>,
    service_account_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawShownContainer {
    name: String,
    image: String,
}

/// Reads a Job from the API server and describes it.
pub(super) async fn describe(client: &Client, key: &JobKey) -> client::Result<Value> {
    let (namespace, name) = (paths::escaped(&key.namespace), paths::escaped(&key.name));
    let body = client.get(&paths::job(&namespace, &name)).await?;
    let job = serde_json::from_slice(&body)
        .map_err(|error| ApiError::no_answer(format!("invalid response: {error}")))?;
    Ok(description(&job))
}

fn description(job: &RawShownJob) -> Value {
    let (metadata, spec) = (&job.metadata, &job.spec);
    let pod = &spec.template.spec;
    let containers = pod.init_containers.iter().chain(&pod.containers);
    let images = containers
        .clone()
        .take(CONTAINERS)
        .map(|it| json!({"container": short(&it.name), "image": short(&it.image)}));
    let owner = metadata.owner_references.iter().find(|it| it.controller);
    let account = pod.service_account_name.as_str();
    json!({
        "uid": metadata.uid,
        "images": images.collect::<Vec<_>>(),
        "moreImages": containers.count().saturating_sub(CONTAINERS),
        "owner": owner.map(|it| json!({"kind": short(&it.kind), "name": short(&it.name)})),
        "queue": metadata.labels.get(QUEUE).map(|queue| short(queue)),
        "serviceAccount": if account.is_empty() { "default" } else { account },
        "backoffLimit": spec.backoff_limit,
        "backoffLimitPerIndex": spec.backoff_limit_per_index,
        "maxFailedIndexes": spec.max_failed_indexes,
        "ttlSecondsAfterFinished": spec.ttl_seconds_after_finished,
    })
}

fn short(text: &str) -> String {
    text.chars().take(TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_bounded() {
        let containers: Vec<Value> = (0..50)
            .map(|number| json!({"name": format!("c{number}"), "image": "x".repeat(5_000)}))
            .collect();
        let job = json!({
            "metadata": {
                "uid": "u", "labels": {QUEUE: "q"},
                "ownerReferences": [
                    {"kind": "Other", "name": "no"},
                    {"kind": "CronJob", "name": "nightly", "controller": true},
                ],
            },
            "spec": {"backoffLimit": 6, "template": {"spec": {
                "initContainers": [{"name": "fetch", "image": "curl"}], "containers": containers,
            }}},
        });
        let job = serde_json::from_value(job).expect("a Job");
        let description = description(&job);
        assert_eq!(description["images"][0]["image"], "curl");
        assert_eq!(description["moreImages"], 51 - CONTAINERS);
        assert_eq!(
            description["owner"],
            json!({"kind": "CronJob", "name": "nightly"})
        );
        assert_eq!(
            (&description["queue"], &description["serviceAccount"]),
            (&json!("q"), &json!("default"))
        );
        assert!(description.to_string().len() < 10_000);
    }
}
