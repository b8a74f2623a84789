//! Tests the adoption and the release of Pods.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lakh::{
    client::{self as line, Client, Patch},
    runtime::Controller,
};
use serde_json::{Value, json};

use crate::support::{
    self, FINALIZER, client, cluster, controller, create, get, indexed_job, is, is_held, job_when,
    options,
    proxy::{Fate, Proxy},
};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Returns a Job with a selector of its own.
fn selecting_job(name: &str, count: u32) -> Value {
    let mut job = indexed_job(name, count, count);
    job["spec"]["completionMode"] = json!("NonIndexed");
    job["spec"]["manualSelector"] = json!(true);
    job["spec"]["selector"] = json!({
        "matchLabels": {"app": name},
        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}],
    });
    job["spec"]["template"]["metadata"]["labels"] = json!({"app": name});
    job
}

async fn create_pod(client: &Client, name: &str, labels: Value, finalizers: &[&str]) {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "finalizers": finalizers},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]},
    });
    let created = client.create(PODS, pod.to_string().into_bytes()).await;
    created.expect("a good Pod");
}

async fn patch_pod(client: &Client, name: &str, patch: Value) {
    let path = format!("{PODS}/{name}");
    let body = patch.to_string().into_bytes();
    client
        .patch(&path, Patch::Strategic, body)
        .await
        .expect("a good patch");
}

/// Returns a Pod once the condition holds.
async fn pod_when(client: &Client, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let pod = get(client, &format!("{PODS}/{name}")).await;
        if holds(&pod) {
            return pod;
        }
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "waited for 20 s: {pod:#}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn owner(pod: &Value) -> Option<&str> {
    pod["metadata"]["ownerReferences"][0]["name"].as_str()
}

async fn names_of(client: &Client, job: &str) -> Vec<String> {
    let pods = support::pods(client).await.into_iter();
    pods.filter(|pod| owner(pod) == Some(job))
        .map(|pod| {
            pod["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_a_job_means_are_adopted_and_count() {
    let cluster = cluster(Duration::from_secs(1)).await;
    let client = client(&cluster).await;
    create_pod(&client, "before", json!({"app": "train"}), &[]).await;
    create_pod(&client, "other", json!({"app": "other"}), &[]).await;
    create_pod(
        &client,
        "excluded",
        json!({"app": "train", "tier": "web"}),
        &[],
    )
    .await;
    let controller = controller(&cluster).await;
    controller.ready().await;
    create(&client, &selecting_job("train", 3)).await;
    let adopted = pod_when(&client, "before", |pod| owner(pod).is_some()).await;
    let reference = &adopted["metadata"]["ownerReferences"][0];
    assert_eq!(owner(&adopted), Some("train"));
    assert_eq!(
        (&reference["controller"], &reference["blockOwnerDeletion"]),
        (&json!(true), &json!(true))
    );
    assert!(is_held(&adopted));
    controller.stop().await;
    let controller = support::controller(&cluster).await;
    let job = job_when(&client, "train", |job| is(job, "Complete")).await;
    assert_eq!(job["status"]["succeeded"], 3);
    assert_eq!(
        names_of(&client, "train").await.len(),
        3,
        "one adopted, two made"
    );
    for name in ["other", "excluded"] {
        assert_eq!(owner(&pod_when(&client, name, |_| true).await), None);
    }
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_loses_its_labels_is_released_and_replaced() {
    let cluster = cluster(Duration::from_secs(3600)).await;
    let client = client(&cluster).await;
    let controller = controller(&cluster).await;
    create(&client, &selecting_job("train", 2)).await;
    job_when(&client, "train", |job| job["status"]["active"] == 2).await;
    let name = names_of(&client, "train").await.remove(0);
    patch_pod(
        &client,
        &name,
        json!({"metadata": {"labels": {"app": null}}}),
    )
    .await;
    let released = pod_when(&client, &name, |pod| owner(pod).is_none()).await;
    assert!(!is_held(&released));
    controller.stop().await;
    let controller = support::controller(&cluster).await;
    job_when(&client, "train", |job| job["status"]["active"] == 2).await;
    while names_of(&client, "train").await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let job = job_when(&client, "train", |_| true).await;
    assert!(
        job["status"]["failed"].is_null(),
        "the released Pod is not counted: {job:#}"
    );
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_loses_its_owner_comes_back() {
    let cluster = cluster(Duration::from_secs(3600)).await;
    let client = client(&cluster).await;
    let controller = controller(&cluster).await;
    create(&client, &indexed_job("train", 2, 2)).await;
    job_when(&client, "train", |job| job["status"]["active"] == 2).await;
    for _ in 0..5 {
        let name = names_of(&client, "train").await.remove(0);
        patch_pod(
            &client,
            &name,
            json!({"metadata": {"ownerReferences": null}}),
        )
        .await;
        pod_when(&client, &name, |pod| {
            pod["metadata"]["deletionTimestamp"].is_string()
                || (owner(pod) == Some("train") && is_held(pod))
        })
        .await;
        while names_of(&client, "train").await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_being_deleted_adopts_nothing() {
    let cluster = cluster(Duration::from_secs(3600)).await;
    let client = client(&cluster).await;
    let controller = controller(&cluster).await;
    controller.ready().await;
    let mut job = selecting_job("train", 1);
    job["metadata"]["finalizers"] = json!(["example.com/wait"]);
    job["spec"]["suspend"] = json!(true);
    create(&client, &job).await;
    job_when(&client, "train", |job| is(job, "Suspended")).await;
    let path = "/apis/batch/v1/namespaces/default/jobs/train";
    client.delete(path).await.expect("it is there");
    create_pod(&client, "late", json!({"app": "train"}), &[FINALIZER]).await;
    // The removal of its finalizer shows that the controller has processed it.
    let late = pod_when(&client, "late", |pod| !is_held(pod)).await;
    assert_eq!(owner(&late), None);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(owner(&pod_when(&client, "late", |_| true).await), None);
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_cannot_be_adopted_holds_its_job_and_no_other() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let well = Arc::new(AtomicBool::new(false));
    let looks = Arc::new(AtomicUsize::new(0));
    let (is_well, count) = (Arc::clone(&well), Arc::clone(&looks));
    let proxy = Proxy::start(&cluster.url(), move |request| {
        if request.starts_with("GET /apis/batch/v1/namespaces/default/jobs/train ") {
            count.fetch_add(1, Ordering::SeqCst);
        }
        let is_stuck = request.starts_with("PATCH /api/v1/namespaces/default/pods/stuck ");
        let refused = is_stuck && !is_well.load(Ordering::SeqCst);
        let no = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        match refused {
            true => Fate::Answered(no.to_owned()),
            false => Fate::Passed,
        }
    })
    .await;
    for name in ["stuck", "fine", "good"] {
        create_pod(&client, name, json!({"app": "train"}), &[]).await;
    }
    create(&client, &selecting_job("train", 4)).await;
    let mut options = options();
    options.limits.retry_backoff.base = Duration::from_millis(200);
    let through = line::connect_url(&proxy.url()).await.expect("it is good");
    let controller = Controller::start(through, options)
        .await
        .expect("nothing to listen on");
    for name in ["fine", "good"] {
        pod_when(&client, name, |pod| owner(pod) == Some("train")).await;
    }
    assert_eq!(looks.load(Ordering::SeqCst), 1, "one look for the round");
    create(&client, &indexed_job("other", 2, 2)).await;
    job_when(&client, "other", |job| is(job, "Complete")).await;
    while looks.load(Ordering::SeqCst) < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let held = get(&client, "/apis/batch/v1/namespaces/default/jobs/train").await;
    assert!(held["status"]["startTime"].is_null(), "{held:#}");
    assert_eq!(names_of(&client, "train").await.len(), 2);
    well.store(true, Ordering::SeqCst);
    let job = job_when(&client, "train", |job| is(job, "Complete")).await;
    assert_eq!(job["status"]["succeeded"], 4);
    assert_eq!(names_of(&client, "train").await.len(), 4, "three adopted");
    controller.stop().await;
    cluster.shutdown().await;
}
