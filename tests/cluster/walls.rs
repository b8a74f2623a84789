//! Tests the isolation of tenants. A user with the right to create Pods in one namespace controls their content.
//! Nothing of another namespace may be changed or counted because of it.

use std::time::Duration;

use lakh::{
    client::{Client, Patch},
    model::Uid,
    wire::{exact_deletion, freeing_patch},
};
use serde_json::{Value, json};

use crate::support::{
    FINALIZER, client, cluster, controller, create, get, indexed_job, is, is_held, job_when,
    listed, pods_when,
};

const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const TEAM_B: &str = "/api/v1/namespaces/team-b/pods";

/// Returns a Pod with metadata that its creator has forged.
fn forged(name: &str, owner: &Value, index: u32) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            // The second finalizer keeps the garbage collector from deleting it soon.
            "finalizers": [FINALIZER, "example.com/stays"],
            "annotations": {"batch.kubernetes.io/job-completion-index": index.to_string()},
            "ownerReferences": [{
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": true,
            }],
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]},
    })
}

async fn post(client: &Client, path: &str, object: &Value) {
    let made = client.create(path, object.to_string().into_bytes()).await;
    made.expect("a good object");
}

async fn patch(client: &Client, path: &str, patch: Value) {
    let body = patch.to_string().into_bytes();
    let patched = client.patch(path, Patch::Merge, body).await;
    patched.expect("a good patch");
}

async fn team_b(client: &Client) {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}});
    post(client, "/api/v1/namespaces", &namespace).await;
}

/// Waits until the controller has received all earlier events: a watch keeps the order.
async fn all_is_heard(client: &Client, marker: &str) {
    create(client, &indexed_job(marker, 1, 1)).await;
    job_when(client, marker, |job| job["status"]["active"] == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_another_namespace_is_no_lever_to_delete_pods_here() {
    let cluster = cluster(Duration::from_secs(3600)).await;
    let client = client(&cluster).await;
    let controller = controller(&cluster).await;
    team_b(&client).await;
    let mut victim = forged("victim-db-0", &json!({}), 0);
    victim["metadata"] = json!({"name": "victim-db-0", "finalizers": [FINALIZER]});
    // The Pod has another owner, so its finalizer must stay.
    victim["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Thing", "name": "x", "uid": "x", "controller": true}]);
    post(&client, PODS, &victim).await;
    create(&client, &indexed_job("train", 2, 2)).await;
    let job = job_when(&client, "train", |job| job["status"]["active"] == 2).await;
    for index in 0..2 {
        let name = if index == 0 {
            "victim-db-0"
        } else {
            "victim-db-1"
        };
        post(&client, TEAM_B, &forged(name, &job, index)).await;
    }
    all_is_heard(&client, "marker").await;
    // All Pods of the Job must go.
    let path = format!("{JOBS}/train");
    patch(&client, &path, json!({"spec": {"suspend": true}})).await;
    job_when(&client, "train", |job| {
        is(job, "Suspended") && job["status"]["terminating"] == 0
    })
    .await;
    all_is_heard(&client, "marker-2").await;
    let victim = get(&client, &format!("{PODS}/victim-db-0")).await;
    assert!(is_held(&victim), "{victim:#}");
    assert_eq!(victim["metadata"]["deletionTimestamp"], Value::Null);
    let events = get(&client, "/api/v1/namespaces/default/events").await;
    let told = listed(&events).iter().any(|event| {
        event["message"]
            .as_str()
            .is_some_and(|text| text.contains("victim"))
    });
    assert!(!told, "{events:#}");
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_of_pods_of_another_namespace_do_not_count() {
    let cluster = cluster(Duration::from_secs(3600)).await;
    let client = client(&cluster).await;
    let first = controller(&cluster).await;
    team_b(&client).await;
    let mut fragile = indexed_job("fragile", 2, 2);
    fragile["spec"]["backoffLimit"] = json!(0);
    for job in [&indexed_job("steady", 2, 2), &fragile] {
        create(&client, job).await;
    }
    for name in ["steady", "fragile"] {
        job_when(&client, name, |job| job["status"]["active"] == 2).await;
    }
    first.stop().await;
    // The next controller gets all Pods in one list.
    for (name, phase) in [("steady", "Succeeded"), ("fragile", "Failed")] {
        let job = get(&client, &format!("{JOBS}/{name}")).await;
        for index in 0..2 {
            let name = format!("{name}-{index}-forged");
            post(&client, TEAM_B, &forged(&name, &job, index)).await;
            let path = format!("{TEAM_B}/{name}/status");
            patch(&client, &path, json!({"status": {"phase": phase}})).await;
        }
    }
    let second = controller(&cluster).await;
    all_is_heard(&client, "marker").await;
    for name in ["steady", "fragile"] {
        // Each Job is synced after all of that.
        let path = format!("{JOBS}/{name}");
        patch(&client, &path, json!({"spec": {"suspend": true}})).await;
        let job = job_when(&client, name, |job| {
            is(job, "Suspended") || is(job, "Failed")
        })
        .await;
        let status = &job["status"];
        let counted = ["succeeded", "failed", "completedIndexes"].map(|field| &status[field]);
        assert!(counted.iter().all(|count| count.is_null()), "{status:#}");
        assert!(
            !is(&job, "Complete") && !is(&job, "FailureTarget"),
            "{status:#}"
        );
        assert_eq!(status["uncountedTerminatedPods"], json!({}), "{status:#}");
    }
    second.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_pod_of_the_same_name_is_neither_deleted_nor_freed() {
    let cluster = cluster(Duration::from_secs(3600)).await;
    let client = client(&cluster).await;
    let mut pod = forged("p", &json!({}), 0);
    pod["metadata"] = json!({"name": "p", "finalizers": [FINALIZER]});
    post(&client, PODS, &pod).await;
    let path = format!("{PODS}/p");
    let found = get(&client, &path).await;
    let uid = found["metadata"]["uid"].as_str().and_then(Uid::parse);
    let uid = uid.expect("a UID");
    let other = Uid::from_u128(uid.as_u128() ^ 1);
    let delete = |uid| client.delete_with(&path, exact_deletion(uid));
    let free = |uid| client.patch(&path, Patch::Strategic, freeing_patch(uid, FINALIZER));
    for refused in [free(other).await, delete(other).await] {
        let error = refused.expect_err("it is another one");
        assert!(error.is_of_no_such_object(), "{error:?}");
    }
    let same = get(&client, &path).await;
    assert_eq!(
        same["metadata"]["finalizers"],
        found["metadata"]["finalizers"]
    );
    assert_eq!(same["metadata"]["deletionTimestamp"], Value::Null);
    delete(uid).await.expect("it is the one");
    free(uid).await.expect("it is the one");
    // Only a kubelet still delays the deletion, if the Pod has come to run on its node meanwhile.
    pods_when(&client, <[Value]>::is_empty).await;
    cluster.shutdown().await;
}
