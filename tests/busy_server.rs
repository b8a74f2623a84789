//! A server that is busy, or fails: what was told to come later comes later, and nothing is lost.

#![cfg(feature = "runtime")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use lakh::{cluster, runtime::Controller};
use serde_json::Value;
use support::{
    check_pods_of_complete_job, create, get, indexed_job, is, job_when, pods, proxy::Proxy,
};

/// Runs a small Job while the first few creations of Pods are answered so; how long it took, and the
/// reasons of the Events on it.
async fn run_against(answer: &'static str, times: u32) -> (Duration, Vec<String>) {
    let cluster = support::cluster(Duration::ZERO).await;
    let left = Arc::new(AtomicU32::new(times));
    let proxy = Proxy::start(&cluster.url(), move |request| {
        let is_create = request.starts_with("POST /api/v1/namespaces/default/pods ");
        let take = |left: u32| left.checked_sub(1);
        let answered = is_create
            && left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
                .is_ok();
        answered.then(|| {
            let length = answer.len() - answer.find("\r\n\r\n").expect("a head") - 4;
            answer.replacen(
                "\r\n",
                &format!("\r\nContent-Length: {length}\r\nConnection: close\r\n"),
                1,
            )
        })
    })
    .await;
    let mut options = support::options();
    options.limits.retry_backoff.base = Duration::from_millis(100);
    let line = cluster::connect_url(&proxy.url())
        .await
        .expect("the line is good");
    let controller = Controller::start(line, options)
        .await
        .expect("nothing to listen on");
    let client = support::client(&cluster).await;
    let started = Instant::now();
    create(&client, &indexed_job("main", 20, 20)).await;
    job_when(&client, "main", |job| is(job, "Complete")).await;
    let took = started.elapsed();
    let all = pods(&client).await;
    assert_eq!(all.len(), 20, "a Pod too many or too few");
    check_pods_of_complete_job(&all, 20);
    let events = get(&client, "/api/v1/namespaces/default/events").await;
    let events = events["items"].as_array().cloned().unwrap_or_default();
    let reason = |event: &Value| event["reason"].as_str().unwrap_or_default().to_owned();
    controller.stop().await;
    cluster.shutdown().await;
    (took, events.iter().map(reason).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_come_later_it_comes_later() {
    let busy = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\n\r\n\
                Too many requests, please try again later.";
    let (took, events) = run_against(busy, 1).await;
    // The one time that is asserted: the server asked for it.
    assert!(
        took >= Duration::from_secs(1),
        "it came back after {took:?}"
    );
    assert!(
        !events.iter().any(|reason| reason == "FailedCreate"),
        "{events:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_creations_are_told_of_and_tried_again() {
    let quota = "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\n\r\n\
                 {\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"exceeded quota: q\",\"code\":403}";
    let (_, events) = run_against(quota, 3).await;
    assert!(
        events.iter().any(|reason| reason == "FailedCreate"),
        "{events:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_makes_no_second_pods() {
    let failure = "HTTP/1.1 500 Internal Server Error\r\n\r\nno";
    let (_, events) = run_against(failure, 3).await;
    assert!(
        events.iter().any(|reason| reason == "Completed"),
        "{events:?}"
    );
}
