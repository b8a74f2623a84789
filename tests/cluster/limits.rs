//! Tests the controller's limits: namespaces, and calls per second.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use lakh::{
    client::{Patch, connect_url},
    embedded::EmbeddedCluster,
    runtime::{Controller, Options, Rate},
};
use serde_json::{Value, json};

use crate::support::{
    self, client, cluster, create, get, indexed_job, is, listed, options,
    proxy::{Fate, Proxy},
};

#[tokio::test(flavor = "multi_thread")]
async fn it_works_in_the_namespaces_it_was_given_and_in_no_other() {
    let cluster = cluster(Duration::ZERO).await;
    let client = client(&cluster).await;
    let mut job = indexed_job("main", 3, 3);
    for namespace in ["one", "other", "two"] {
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        client
            .create("/api/v1/namespaces", body.to_string().into_bytes())
            .await
            .expect("a good name");
        job["metadata"]["namespace"] = namespace.into();
        client
            .create(&jobs(namespace), job.to_string().into_bytes())
            .await
            .expect("a good Job");
    }
    let options = Options {
        namespaces: vec!["one".into(), "two".into()],
        ..options()
    };
    let line = support::client(&cluster).await;
    let controller = Controller::start(line, options).await.expect("no port");
    for namespace in ["one", "two"] {
        let path = format!("{}/main", jobs(namespace));
        let started = Instant::now();
        while !is(&get(&client, &path).await, "Complete") {
            assert!(started.elapsed() < Duration::from_secs(60), "{namespace}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let untouched = get(&client, &format!("{}/main", jobs("other"))).await;
    assert_eq!(untouched["status"], json!({}), "{untouched:#}");
    let pods = get(&client, "/api/v1/namespaces/other/pods").await;
    assert_eq!(pods["items"], json!([]));
    controller.stop().await;
    cluster.shutdown().await;
}

fn jobs(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

/// Returns true if a call starts here. Watches do not count.
fn is_call(piece: &str) -> bool {
    let methods = ["GET /", "POST /", "PATCH /", "DELETE /"];
    methods.iter().any(|method| piece.starts_with(method)) && !piece.contains("watch=true")
}

/// Runs a controller that may make 50 calls per second and 10 at once until the condition holds. Returns the number of
/// calls.
async fn calls_until(cluster: &EmbeddedCluster, done: impl AsyncFn() -> bool) -> u32 {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let proxy = Proxy::start(&cluster.url(), move |piece| {
        counted.fetch_add(u32::from(is_call(piece)), Ordering::SeqCst);
        Fate::Passed
    })
    .await;
    let line = connect_url(&proxy.url()).await.expect("the line is good");
    let rate = Rate { qps: 50, burst: 10 };
    let options = Options { rate, ..options() };
    let connecting = calls.load(Ordering::SeqCst);
    let started = Instant::now();
    let controller = Controller::start(line, options).await.expect("no port");
    while !done().await {
        let made = calls.load(Ordering::SeqCst) - connecting;
        // The time is read after the count, so it allows for all counted calls.
        let allowed = 50.0 * started.elapsed().as_secs_f64() + 10.0;
        assert!(
            f64::from(made) <= allowed + 1.0,
            "{made} of {allowed} calls"
        );
        assert!(started.elapsed() < Duration::from_secs(60), "{made} calls");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let made = calls.load(Ordering::SeqCst) - connecting;
    controller.stop().await;
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn it_makes_no_more_calls_than_it_may() {
    let cluster = cluster(Duration::ZERO).await;
    let client = client(&cluster).await;
    create(&client, &indexed_job("main", 60, 60)).await;
    let path = format!("{}/main", jobs("default"));
    let done = async || is(&get(&client, &path).await, "Complete");
    let made = calls_until(&cluster, done).await;
    assert!(made >= 2 * 60, "{made} calls do not make a Job of 60 Pods");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cron_jobs_and_ttls_are_held_to_the_same() {
    const COUNT: usize = 15;
    const LONG_AGO: &str = "2020-06-01T00:00:00Z";
    let cluster = cluster(Duration::ZERO).await;
    let client = client(&cluster).await;
    let path = "/apis/batch/v1/namespaces/default/cronjobs";
    let spec = json!({"schedule": "0 0 1 1 *"});
    for number in 0..COUNT {
        let mut cron_job = support::cron_job(&format!("c{number}"), [&spec, &json!({})]);
        cron_job["spec"]["jobTemplate"]["spec"]["ttlSecondsAfterFinished"] = 0.into();
        let body = cron_job.to_string().into_bytes();
        client.create(path, body).await.expect("a good CronJob");
        let last = json!({"status": {"lastScheduleTime": LONG_AGO}});
        let status = format!("{path}/c{number}/status");
        let body = last.to_string().into_bytes();
        let told = client.patch(&status, Patch::Merge, body).await;
        told.expect("it is taken");
    }
    let done = async || {
        let cron_jobs = get(&client, path).await;
        // A Job may be gone before its CronJob sees its success, so that is not required.
        let ended = |it: &Value| {
            let status = &it["status"];
            status["lastScheduleTime"] != LONG_AGO && status["active"].is_null()
        };
        let all = listed(&cron_jobs).iter().all(ended);
        all && listed(&get(&client, &jobs("default")).await).is_empty()
    };
    let made = calls_until(&cluster, done).await;
    // Each run takes at least five calls: creation of the Job, its Event, the Event of its end, a read and the
    // deletion.
    let least = 5 * COUNT as u32;
    assert!(made >= least, "{made} calls");
    cluster.shutdown().await;
}
