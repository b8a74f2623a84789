//! What the controller may be held to: namespaces, and calls per second.

#![cfg(feature = "runtime")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use lakh::{
    cluster::connect_url,
    runtime::{Controller, Options, Rate},
};
use serde_json::json;
use support::{
    client, cluster, create, get, indexed_job, is, options,
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

/// Whether this is the start of a call that counts: of any but a watch.
fn is_call(piece: &str) -> bool {
    let methods = ["GET /", "POST /", "PATCH /", "DELETE /"];
    methods.iter().any(|method| piece.starts_with(method)) && !piece.contains("watch=true")
}

#[tokio::test(flavor = "multi_thread")]
async fn it_makes_no_more_calls_than_it_may() {
    let cluster = cluster(Duration::ZERO).await;
    let client = client(&cluster).await;
    create(&client, &indexed_job("main", 60, 60)).await;
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
    let path = format!("{}/main", jobs("default"));
    while !is(&get(&client, &path).await, "Complete") {
        let made = calls.load(Ordering::SeqCst) - connecting;
        // What was made until now may have been made by now.
        let allowed = 50.0 * started.elapsed().as_secs_f64() + 10.0;
        assert!(
            f64::from(made) <= allowed + 1.0,
            "{made} of {allowed} calls"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let made = calls.load(Ordering::SeqCst) - connecting;
    assert!(made >= 2 * 60, "{made} calls do not make a Job of 60 Pods");
    controller.stop().await;
    cluster.shutdown().await;
}
