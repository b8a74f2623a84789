//! Tests Pods that keep a finalizer for no reason: the doctor finds them, and frees only those that it may.

use std::time::Duration;

use lakh::client::{Client, Patch};
use serde_json::{Value, json};

use crate::support::{
    self, FINALIZER, client, create, finalizers, get, indexed_job, pods_when,
    proxy::{Fate, Proxy, answer, refusal},
};

use super::{JOBS, doctor, kubeconfig_of, old_cluster, output};

const PODS: &str = "/api/v1/namespaces/default/pods";
const OWN_FINALIZER: &str = "lakh.dev/job-tracking";

async fn uid(client: &Client, path: &str) -> String {
    let object = get(client, path).await;
    object["metadata"]["uid"]
        .as_str()
        .expect("a UID")
        .to_owned()
}

/// Creates a Pod with a finalizer, owned by a Job if one is named.
async fn create_pod(client: &Client, name: &str, finalizer: &str, job: Option<&str>) {
    let mut metadata = json!({"name": name, "finalizers": [finalizer], "labels": {"for": name}});
    if let Some(job) = job {
        let uid = uid(client, &format!("{JOBS}/{job}")).await;
        metadata["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": job,
            "uid": uid, "controller": true, "blockOwnerDeletion": true}]);
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}});
    client
        .create(PODS, pod.to_string())
        .await
        .expect("a good Pod");
}

/// Marks a Job as Complete since long ago.
async fn complete(client: &Client, job: &str) {
    let at = "2026-01-01T00:00:00Z";
    let is = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": at});
    let status = json!({"startTime": at, "completionTime": at,
        "conditions": [is("SuccessCriteriaMet"), is("Complete")]});
    let path = format!("{JOBS}/{job}/status");
    let body = json!({"status": status}).to_string();
    let written = client.patch(&path, Patch::Merge, body).await;
    written.expect("a good status");
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_pods_are_found_and_released_and_no_others() {
    let cluster = old_cluster(Duration::from_secs(20 * 60)).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let mut jobs = ["gone", "over", "foreign", "busy"].map(|name| indexed_job(name, 1, 1));
    jobs[2]["spec"]["managedBy"] = json!("example.com/other");
    jobs[3]["spec"]["manualSelector"] = json!(true);
    jobs[3]["spec"]["selector"] = json!({"matchLabels": {"for": "meant"}});
    jobs[3]["spec"]["template"]["metadata"] = json!({"labels": {"for": "meant"}});
    for job in &jobs {
        create(&client, job).await;
    }
    for (name, finalizer, job) in [
        ("gone-0", OWN_FINALIZER, Some("gone")),
        ("over-0", FINALIZER, Some("over")),
        ("foreign-0", FINALIZER, Some("foreign")),
        ("busy-0", OWN_FINALIZER, Some("busy")),
        ("lost", FINALIZER, None),
        ("meant", FINALIZER, None),
        ("else", "example.com/else", Some("over")),
    ] {
        create_pod(&client, name, finalizer, job).await;
    }
    complete(&client, "over").await;
    complete(&client, "foreign").await;
    // By default, the deletion of a Job over the API orphans its Pods.
    let background = r#"{"propagationPolicy":"Background"}"#;
    for path in [format!("{JOBS}/gone"), format!("{PODS}/busy-0")] {
        let deleted = client.delete_with(&path, background).await;
        deleted.expect("it is there");
    }
    pods_when(&client, |pods| {
        let is_going = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_string();
        pods.iter().filter(is_going).count() == 2
    })
    .await;

    let said = doctor(&config, &[]).await;
    assert_eq!(said.code, Some(1));
    said.is("held-pods", "failed").finds(
        "held-pods",
        &[
            "1 Pod of Jobs that are gone (default/gone): default/gone-0",
            "1 Pod of Jobs that are over (default/over): default/over-0",
            "1 Pod that nobody owns: default/lost",
            "1 Pod of Jobs that are over and of another controller (default/foreign): default/foreign-0",
            "of unfinished Jobs (default/busy): default/busy-0",
        ],
    );
    assert!(said.json["fixed"].is_null());
    let held = async |name: &str| {
        let pods = get(&client, PODS).await;
        let mut pods = support::listed(&pods).iter();
        let pod = pods.find(|pod| pod["metadata"]["name"] == name);
        pod.map(|pod| finalizers(pod).len())
    };
    assert_eq!(
        held("gone-0").await,
        Some(1),
        "it only looks unless told otherwise"
    );

    // The proxy answers lists of Jobs with an empty one. The doctor takes Jobs for gone, until it reads each by its
    // name.
    let server = cluster.url();
    let line = Proxy::start(&server, |request| {
        let is_list = request.starts_with("GET /apis/batch/v1/jobs?");
        let empty = r#"{"kind":"JobList","apiVersion":"batch/v1","metadata":{"resourceVersion":"1"},"items":[]}"#;
        match is_list {
            true => Fate::Answered(answer(200, "", empty)),
            false if request.contains("/pods/gone-0?") && request.starts_with("PATCH") => {
                Fate::Answered(refusal(409, "Conflict", "the object has been modified"))
            }
            false => Fate::Passed,
        }
    });
    let line = line.await;
    let (_other_folder, deceived) = kubeconfig_of(&line.url());
    let said = doctor(&deceived, &["--fix"]).await;
    let fate = |name: &str| {
        let pods = said.json["fixed"]["pods"]
            .as_array()
            .expect("a list")
            .iter();
        let pod = pods
            .clone()
            .find(|pod| pod["pod"] == format!("default/{name}"));
        pod.cloned().unwrap_or_default()
    };
    assert_eq!(fate("busy-0")["why"], "its Job is still active");
    assert_eq!(
        fate("meant")["why"],
        "a Job selects the Pod and may adopt it"
    );
    assert_eq!(
        fate("gone-0")["why"],
        "the Pod has changed; run lakh doctor again"
    );
    assert_eq!(
        fate("lost"),
        json!({"pod": "default/lost", "fate": "freed", "finalizer": FINALIZER})
    );
    assert_eq!(held("lost").await, Some(0));

    let output = output(&config, &["--fix"]).await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains(&format!(
            "freed       default/gone-0: removed {OWN_FINALIZER}\n"
        )),
        "{text}"
    );
    assert!(
        text.contains(&format!(
            "freed       default/over-0: removed {FINALIZER}\n"
        )),
        "{text}"
    );
    assert_eq!(text.matches("\nfreed ").count(), 2, "{text}");
    // The remaining findings are still reported.
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(held("gone-0").await, None);
    assert_eq!(held("over-0").await, Some(0));
    for name in ["foreign-0", "busy-0", "meant", "else"] {
        assert_eq!(held(name).await, Some(1), "{name}");
    }
    cluster.shutdown().await;
}
