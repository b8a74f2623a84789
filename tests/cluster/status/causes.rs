//! Causes of `lakh why` that the embedded cluster can produce.

use std::time::Duration;

use lakh::{
    client::Patch,
    clock::Clock,
    embedded::{ClusterOptions, EmbeddedCluster, kubelet::KubeletOptions},
    model::Time,
};
use serde_json::{Value, json};

use crate::support::{
    self, client, cluster, create, indexed_job, is, job_when, listed, pods_when,
    proxy::{Fate, Proxy, refusal},
    seen_when,
};

use super::{LONG, playing, said};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// Checks the cause, and words of the first reason.
#[track_caller]
fn check(why: &Value, cause: &str, words: &[&str]) {
    assert_eq!(why["cause"], cause, "{why:#}");
    let first = &why["reasons"][0];
    let text = format!("{} {}", first["what"], first["remedy"]).replace("\\\"", "\"");
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

fn with(mut job: Value, field: &str, value: Value) -> Value {
    job["spec"][field] = value;
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_no_controller_has_started() {
    let now = Clock::default().now().wall;
    let then = Time::from_millis(now.as_millis() - 600_000);
    let old = support::cluster_by(&Clock::starting_at(then), LONG).await;
    let client = support::client(&old).await;
    let (_folder, config) = support::kubeconfig(&old);
    create(&client, &indexed_job("plain", 1, 1)).await;
    let typo = with(
        indexed_job("typo", 1, 1),
        "managedBy",
        json!("lakh.dev/job-contoller"),
    );
    create(&client, &typo).await;
    let suspended = with(indexed_job("suspended", 1, 1), "suspend", json!(true));
    create(&client, &suspended).await;
    let why = said(&config, "why", "plain").await;
    check(&why, "no-controller", &["--mode replace"]);
    let words = [
        "spelled nearly as lakh.dev/job-controller",
        "cannot be changed",
    ];
    check(&said(&config, "why", "typo").await, "nobody-serves", &words);
    check(
        &said(&config, "why", "suspended").await,
        "suspended",
        &["kubectl patch job -n default suspended"],
    );
    // Another controller starts it, and reports no Pods.
    let other = with(
        indexed_job("other", 1, 1),
        "managedBy",
        json!("example.com/jobs"),
    );
    create(&client, &other).await;
    let status = json!({"status": {"startTime": then.to_rfc3339(), "ready": 0}});
    let path = format!("{JOBS}/other/status?fieldManager=ourjobs");
    client
        .patch(&path, Patch::Merge, status.to_string())
        .await
        .expect("a good status");
    check(
        &said(&config, "why", "other").await,
        "managed-elsewhere",
        &["example.com/jobs", "ourjobs"],
    );
    old.shutdown().await;

    let new = cluster(LONG).await;
    let client = support::client(&new).await;
    let (_folder, config) = support::kubeconfig(&new);
    create(&client, &indexed_job("main", 1, 1)).await;
    check(
        &said(&config, "why", "main").await,
        "just-made",
        &["no controller has begun it yet"],
    );
    new.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_run_and_that_are_over() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let controller = support::controller(&cluster).await;
    create(
        &client,
        &playing(indexed_job("runs", 3, 2), &json!({"duration": "10h"})),
    )
    .await;
    create(
        &client,
        &with(indexed_job("none", 3, 2), "parallelism", json!(0)),
    )
    .await;
    let soon = playing(indexed_job("soon", 3, 2), &json!({"duration": "10h"}));
    create(&client, &with(soon, "activeDeadlineSeconds", json!(200))).await;
    let late = playing(indexed_job("late", 3, 2), &json!({"duration": "10h"}));
    create(&client, &with(late, "activeDeadlineSeconds", json!(1))).await;
    create(&client, &indexed_job("done", 3, 3)).await;
    let fails = |name| {
        playing(
            indexed_job(name, 4, 4),
            &json!({"fail-indexes": "0-2", "exit-code": "42"}),
        )
    };
    create(&client, &with(fails("limit"), "backoffLimit", json!(0))).await;
    let most = with(fails("most"), "backoffLimitPerIndex", json!(0));
    create(&client, &with(most, "maxFailedIndexes", json!(1))).await;
    let policy = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
    create(&client, &with(fails("policy"), "podFailurePolicy", policy)).await;

    job_when(&client, "runs", |job| job["status"]["ready"] == 2).await;
    check(
        &said(&config, "why", "runs").await,
        "running",
        &["2 active, 2 ready", "0 of 3 succeeded"],
    );
    check(
        &said(&config, "why", "none").await,
        "parallelism-zero",
        &["spec.parallelism is 0"],
    );
    job_when(&client, "soon", |job| job["status"]["ready"] == 2).await;
    let soon = said(&config, "why", "soon").await;
    check(
        &soon,
        "deadline-soon",
        &["It fails in ", "activeDeadlineSeconds"],
    );
    assert_eq!(soon["reasons"][1]["cause"], "running", "{soon:#}");
    job_when(&client, "done", |job| is(job, "Complete")).await;
    check(
        &said(&config, "why", "done").await,
        "complete",
        &["3 of 3 succeeded"],
    );
    for (name, cause, words) in [
        (
            "late",
            "deadline-passed",
            "1 s (spec.activeDeadlineSeconds)",
        ),
        ("limit", "backoff-limit", "the 0 of spec.backoffLimit"),
        ("most", "max-failed-indexes", "spec.maxFailedIndexes is 1"),
        ("policy", "pod-failure-policy", "exit code 42"),
    ] {
        job_when(&client, name, |job| is(job, "Failed")).await;
        check(&said(&config, "why", name).await, cause, &[words]);
    }
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_wait_after_failures() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    // Default options: `lakh why` computes with the defaults.
    let controller = lakh::runtime::Controller::start(
        support::client(&cluster).await,
        lakh::runtime::Options::default(),
    )
    .await
    .expect("nothing to listen on");
    let fails = |name| {
        playing(
            indexed_job(name, 2, 2),
            &json!({"fail-indexes": "1", "exit-code": "42"}),
        )
    };
    // A success in the same second would reset the backoff, and there would be no wait.
    let mut whole = playing(
        indexed_job("whole", 2, 1),
        &json!({"fail-indexes": "1", "exit-code": "42"}),
    );
    whole["spec"]["template"]["metadata"]["annotations"]["sim.lakh.dev/duration"] = json!("1500ms");
    create(&client, &whole).await;
    create(
        &client,
        &with(fails("index"), "backoffLimitPerIndex", json!(6)),
    )
    .await;
    for name in ["whole", "index"] {
        job_when(&client, name, |job| {
            job["status"]["completedIndexes"] == "0" && job["status"]["active"].is_null()
        })
        .await;
    }
    let why = said(&config, "why", "index").await;
    check(
        &why,
        "backoff-per-index",
        &["Index 1 waits until about ", "exit code 42"],
    );
    let status = said(&config, "status", "index").await;
    assert_eq!(
        status["waits"]["indexes"],
        json!({"count": 1, "list": "1"}),
        "{status:#}"
    );
    assert_eq!(status["failures"][0]["state"], "waiting");
    assert_eq!(status["failedPods"], 1, "{status:#}");
    check(
        &said(&config, "why", "whole").await,
        "backoff",
        &["It waits until about ", "exit code 42"],
    );
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_the_server_refuses() {
    let cluster = cluster(LONG).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "2"}}});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    client
        .create(quotas, quota.to_string())
        .await
        .expect("a good quota");
    let controller = support::controller(&cluster).await;
    create(&client, &indexed_job("main", 5, 5)).await;
    refused(&client).await;
    job_when(&client, "main", |job| job["status"]["active"] == 2).await;
    let words = [
        "Quota few of namespace default is used up (2 of 2 pods)",
        "3 Pods cannot be made",
    ];
    check(&said(&config, "why", "main").await, "quota", &words);
    controller.stop().await;
    cluster.shutdown().await;

    for (cause, message, words) in [
        (
            "webhook",
            r#"admission webhook \"w.example.com\" denied the request: no latest"#,
            "w.example.com refuses 2 Pods: no latest",
        ),
        (
            "pod-security",
            r#"pods \"main-0\" is forbidden: violates PodSecurity \"restricted:latest\": host namespaces"#,
            "restricted:latest",
        ),
        (
            "rights",
            r#"pods is forbidden: User \"ann\" cannot create resource \"pods\" in API group \"\" in the namespace \"default\""#,
            "The controller, ann, may not create Pods",
        ),
        (
            "service-account",
            r#"pods \"main-0\" is forbidden: error looking up service account default/default: serviceaccount \"default\" not found"#,
            "no service account default",
        ),
    ] {
        let cluster = support::cluster(LONG).await;
        let client = support::client(&cluster).await;
        let (_folder, config) = support::kubeconfig(&cluster);
        let server = cluster.url();
        let line = Proxy::start(&server, move |request| {
            let is_creation = request.starts_with("POST /api/v1/namespaces/default/pods");
            match is_creation {
                true => Fate::Answered(refusal(403, "Forbidden", message)),
                false => Fate::Passed,
            }
        });
        let line = line.await;
        let controller = support::controller_over(&line).await;
        create(&client, &indexed_job("main", 2, 2)).await;
        refused(&client).await;
        check(&said(&config, "why", "main").await, cause, &[words]);
        controller.stop().await;
        cluster.shutdown().await;
    }
}

/// Waits for the Event about refused Pods.
async fn refused(client: &lakh::client::Client) {
    seen_when(client, "/api/v1/namespaces/default/events", |events| {
        listed(events)
            .iter()
            .any(|event| event["reason"] == "FailedCreate")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_do_not_run() {
    let cluster = EmbeddedCluster::start(ClusterOptions {
        kubelet: KubeletOptions {
            capacity: Some("cpu=1,pods=50".parse().expect("a capacity")),
            default_duration: LONG,
            ..KubeletOptions::with_nodes(2)
        },
        ..ClusterOptions::default()
    });
    let cluster = cluster.await.expect("a free port");
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let controller = support::controller(&cluster).await;
    let mut large = indexed_job("large", 5, 5);
    large["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "1"}});
    create(&client, &large).await;
    job_when(&client, "large", |job| job["status"]["ready"] == 2).await;
    pods_when(&client, |pods| {
        let refused = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array();
            conditions
                .into_iter()
                .flatten()
                .any(|it| it["reason"] == "Unschedulable")
        };
        pods.iter().filter(refused).count() == 3
    })
    .await;
    let words =
        ["3 Pods are pending because no node fits: 0/2 nodes are available: 2 Insufficient cpu"];
    check(&said(&config, "why", "large").await, "no-node-fits", &words);
    assert_eq!(said(&config, "status", "large").await["pending"], 3);

    let mut gated = indexed_job("gated", 2, 2);
    gated["spec"]["template"]["spec"]["schedulingGates"] = json!([{"name": "example.com/data"}]);
    create(&client, &gated).await;
    job_when(&client, "gated", |job| job["status"]["active"] == 2).await;
    check(
        &said(&config, "why", "gated").await,
        "scheduling-gates",
        &["2 Pods", "example.com/data"],
    );

    // A kubelet's status of a Pod with containers that cannot be created.
    let pods = support::pods(&client).await;
    let is_gated = |pod: &&Value| {
        pod["metadata"]["name"]
            .as_str()
            .is_some_and(|it| it.starts_with("gated-"))
    };
    let pods: Vec<&Value> = pods.iter().filter(is_gated).collect();
    for (reason, message, cause) in [
        (
            "ImagePullBackOff",
            "Back-off pulling image \"bussybox\"",
            "image",
        ),
        (
            "CreateContainerConfigError",
            "configmap \"settings\" not found",
            "missing-config",
        ),
        (
            "CrashLoopBackOff",
            "back-off 40s restarting failed container",
            "crash-loop",
        ),
        (
            "RunContainerError",
            "executable file not found",
            "container-start",
        ),
    ] {
        for pod in &pods {
            let name = pod["metadata"]["name"].as_str().expect("a name");
            let waiting = json!({"waiting": {"reason": reason, "message": message}});
            let container = json!({"name": "main", "image": "busybox", "imageID": "", "ready": false,
                "restartCount": 0, "state": waiting});
            let status = json!({"status": {"containerStatuses": [container]}});
            let path = format!("/api/v1/namespaces/default/pods/{name}/status");
            client
                .patch(&path, Patch::Merge, status.to_string())
                .await
                .expect("a good status");
        }
        check(&said(&config, "why", "gated").await, cause, &["2 Pods"]);
    }
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_do_not_go() {
    let cluster = cluster(LONG).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let controller = support::controller(&cluster).await;
    let mut kept = indexed_job("kept", 2, 2);
    kept["spec"]["template"]["metadata"]["finalizers"] = json!(["example.com/logs"]);
    // The garbage collector may be faster than the controller's watch of Jobs: then terminating Pods would be replaced.
    kept["spec"]["podReplacementPolicy"] = json!("Failed");
    create(&client, &kept).await;
    job_when(&client, "kept", |job| job["status"]["ready"] == 2).await;
    let foreground =
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"});
    let path = format!("{JOBS}/kept");
    client
        .delete_with(&path, foreground.to_string())
        .await
        .expect("it is there");
    pods_when(&client, |pods| {
        pods.iter()
            .all(|pod| pod["metadata"]["deletionTimestamp"].is_string())
    })
    .await;
    let why = said(&config, "why", "kept").await;
    check(
        &why,
        "kept-pods",
        &[
            "It is being deleted since",
            "the finalizer example.com/logs keeps 2 Pods",
        ],
    );
    controller.stop().await;

    // No controller counts its Pods or removes its finalizer.
    let mut held = indexed_job("held", 1, 1);
    held["metadata"]["finalizers"] = json!(["example.com/keep"]);
    create(&client, &held).await;
    client
        .delete(&format!("{JOBS}/held"))
        .await
        .expect("it is there");
    check(
        &said(&config, "why", "held").await,
        "being-deleted",
        &["the finalizer example.com/keep keeps it"],
    );
    cluster.shutdown().await;
}
