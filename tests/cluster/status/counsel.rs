//! Counsel where writes of a controller that works are refused: `why` and `doctor` name the refusal, and never advise to
//! start a second controller.

use std::time::Duration;

use lakh::{
    client::Patch,
    clock::Clock,
    embedded::{ClusterOptions, EmbeddedCluster, Rule, ServeOptions, kubelet::KubeletOptions},
    model::Time,
    wire::Call,
};
use serde_json::{Value, json};

use crate::support::{self, client, create, indexed_job, is, job_when, listed, seen_when};

use super::{output, playing, said, stderr, stdout};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// The words of a webhook.
const DENIED: &str = "admission webhook \"v.example.com\" denied the request: policy P-17";

/// A cluster that refuses some writes as a webhook does. What is made is ten minutes old at once, so that nothing is new.
async fn refusing(rule: Value) -> EmbeddedCluster {
    let mut rule = rule;
    rule["fault"] = json!("refuse");
    rule["message"] = json!(DENIED);
    let rule: Rule = serde_json::from_value(rule).expect("a good rule");
    let now = Clock::default().now().wall;
    let clock = Clock::starting_at(Time::from_millis(now.as_millis() - 600_000));
    let cluster = EmbeddedCluster::start(ClusterOptions {
        server: ServeOptions {
            clock,
            faults: vec![rule],
            ..ServeOptions::default()
        },
        kubelet: KubeletOptions {
            default_duration: Duration::from_millis(50),
            ..KubeletOptions::with_nodes(3)
        },
        ..ClusterOptions::default()
    });
    cluster.await.expect("a free port")
}

/// Checks what `why` and `doctor` say once the controller has reported the refusal.
async fn check(cluster: &EmbeddedCluster, event: &str, cause: &str, words: &str) {
    let client = client(cluster).await;
    let (_folder, config) = support::kubeconfig(cluster);
    seen_when(&client, "/api/v1/namespaces/default/events", |events| {
        let mut events = listed(events).iter();
        events.any(|seen| seen["reason"] == event)
    })
    .await;
    let why = said(&config, "why", "main").await;
    assert_eq!(why["cause"], cause, "{why:#}");
    let first = &why["reasons"][0];
    let text = format!("{} {}", first["what"], first["remedy"]);
    for word in [
        "v.example.com",
        "policy P-17",
        "tries again by itself",
        words,
    ] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
    let doctor = output(&config, &["doctor", "--mode=replace"]).await;
    let doctor = format!("{}{}", stdout(&doctor), stderr(&doctor));
    assert!(doctor.contains("policy P-17"), "{doctor}");
    for said in [why.to_string(), doctor] {
        for counsel in ["kube-controller-manager", "lakh with --mode", "not begun"] {
            assert!(!said.contains(counsel), "{counsel:?} in {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_statuses() {
    let cluster =
        refusing(json!({"code": 403, "verbs": ["patch"], "resources": ["jobs/status"]})).await;
    let controller = support::controller(&cluster).await;
    create(&client(&cluster).await, &indexed_job("main", 3, 3)).await;
    let words = "updates of the Job's status";
    check(&cluster, "FailedUpdateStatus", "status-refused", words).await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_finalizer_removals() {
    let cluster = refusing(json!({"code": 403, "verbs": ["patch"], "resources": ["pods"]})).await;
    let controller = support::controller(&cluster).await;
    let jobs = client(&cluster).await;
    create(&jobs, &indexed_job("main", 3, 3)).await;
    job_when(&jobs, "main", |job| is(job, "SuccessCriteriaMet")).await;
    let words = "removals of the tracking finalizer from the Job's Pods";
    check(
        &cluster,
        "FailedRemoveFinalizer",
        "finalizer-refused",
        words,
    )
    .await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_deletions() {
    let cluster = refusing(json!({"code": 403, "verbs": ["delete"], "resources": ["pods"]})).await;
    let controller = support::controller(&cluster).await;
    let jobs = client(&cluster).await;
    let long = playing(indexed_job("main", 3, 3), &json!({"duration": "10h"}));
    create(&jobs, &long).await;
    job_when(&jobs, "main", |job| job["status"]["ready"] == 3).await;
    let suspend = json!({"spec": {"suspend": true}}).to_string();
    let suspended = jobs
        .patch(&format!("{JOBS}/main"), Patch::Merge, suspend)
        .await;
    suspended.expect("a good patch");
    let words = "deletions of the Job's Pods";
    check(&cluster, "FailedDelete", "deletion-refused", words).await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn creations_that_are_refused_for_a_while() {
    let rule =
        json!({"code": 429, "retryAfter": "120s", "verbs": ["create"], "resources": ["pods"]});
    let cluster = refusing(rule).await;
    let controller = support::controller(&cluster).await;
    create(&client(&cluster).await, &indexed_job("main", 3, 3)).await;
    check(&cluster, "FailedCreate", "webhook", "refuses 3 Pods").await;
    controller.stop().await;
    cluster.shutdown().await;
}

/// With a full etcd no Event can be written: the API server's own Lease shows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_store() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let cluster = EmbeddedCluster::start(ClusterOptions {
        kubelet: KubeletOptions::with_nodes(3),
        ..ClusterOptions::default()
    });
    let cluster = cluster.await.expect("a free port");
    let controller = support::controller(&cluster).await;
    let api = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let renewed_before = |seconds: i64| {
        let now = Clock::default().now().wall.as_millis();
        let renewed = Time::from_millis(now - 1_000 * seconds).to_rfc3339_micros();
        json!({"metadata": {"name": "apiserver-one"}, "spec": {"renewTime": renewed}})
    };
    let lease = renewed_before(5).to_string();
    api.create(LEASES, lease).await.expect("a good Lease");
    let long = playing(indexed_job("main", 3, 3), &json!({"duration": "10h"}));
    create(&api, &long).await;
    job_when(&api, "main", |job| job["status"]["ready"] == 3).await;
    let why = said(&config, "why", "main").await;
    assert_eq!(why["cause"], "running", "{why:#}");

    let path = format!("{LEASES}/apiserver-one");
    let silent = renewed_before(150).to_string();
    let silent = api.patch(&path, Patch::Merge, silent).await;
    silent.expect("a good patch");
    let full = json!({"rules": [{
        "fault": "refuse",
        "code": 500,
        "message": "etcdserver: mvcc: database space exceeded",
        "verbs": ["create", "update", "patch", "delete"],
        "resources": ["pods", "pods/status", "jobs", "jobs/status", "events", "leases"],
    }]});
    let full = Call::replace("/lakh/faults", full.to_string());
    api.send(&full).await.expect("good rules");
    let why = said(&config, "why", "main").await;
    assert_eq!(why["cause"], "store-stuck", "{why:#}");
    let doctor = output(&config, &["doctor", "--mode=replace"]).await;
    let doctor = format!("{}{}", stdout(&doctor), stderr(&doctor));
    for said in [why.to_string(), doctor] {
        for words in [
            "has not renewed its Lease kube-system/apiserver-one for 2 min",
            "etcdctl alarm list",
            "Do not restart or add controllers",
        ] {
            assert!(said.contains(words), "no {words:?} in {said}");
        }
    }
    controller.stop().await;
    cluster.shutdown().await;
}
