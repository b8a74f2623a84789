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

use serde_json::Value;
use support::{
    check_pods_of_complete_job, create, get, indexed_job, is, is_held, job_when, pods_when,
    proxy::{Fate, Proxy, answer, refusal},
};

/// The creation of a Pod, as it starts.
const CREATION: &str = "POST /api/v1/namespaces/default/pods ";

/// Runs a small Job while the first few requests of a kind are answered so; how long it took, and
/// the reasons of the Events on it.
async fn run_against(
    is_meant: impl Fn(&str) -> bool + Send + Sync + 'static,
    answer: String,
    times: u32,
) -> (Duration, Vec<String>) {
    let cluster = support::cluster(Duration::ZERO).await;
    let left = Arc::new(AtomicU32::new(times));
    let still_left = Arc::clone(&left);
    let proxy = Proxy::start(&cluster.url(), move |request| {
        let take = |left: u32| left.checked_sub(1);
        let answered = is_meant(request)
            && left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
                .is_ok();
        match answered {
            true => Fate::Answered(answer.clone()),
            false => Fate::Passed,
        }
    })
    .await;
    let controller = support::controller_over(&proxy).await;
    let client = support::client(&cluster).await;
    let started = Instant::now();
    create(&client, &indexed_job("main", 20, 20)).await;
    let job = job_when(&client, "main", |job| is(job, "Complete")).await;
    let took = started.elapsed();
    assert_eq!(job["status"]["succeeded"], 20);
    let all = pods_when(&client, |all| !all.iter().any(is_held)).await;
    assert_eq!(all.len(), 20, "a Pod too many or too few");
    check_pods_of_complete_job(&all, 20);
    assert_eq!(still_left.load(Ordering::SeqCst), 0, "the line was good");
    let events = get(&client, "/api/v1/namespaces/default/events").await;
    let events = events["items"].as_array().cloned().unwrap_or_default();
    let reason = |event: &Value| event["reason"].as_str().unwrap_or_default().to_owned();
    controller.stop().await;
    cluster.shutdown().await;
    (took, events.iter().map(reason).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_come_later_it_comes_later() {
    let busy = answer(
        429,
        "Retry-After: 1\r\n",
        "Too many requests, please try again later.",
    );
    let (took, events) = run_against(|request| request.starts_with(CREATION), busy, 1).await;
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
    let quota = refusal(403, "Forbidden", "exceeded quota: q");
    let (_, events) = run_against(|request| request.starts_with(CREATION), quota, 3).await;
    assert!(
        events.iter().any(|reason| reason == "FailedCreate"),
        "{events:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_makes_no_second_pods() {
    let failure = answer(500, "", "no");
    let (_, events) = run_against(|request| request.starts_with(CREATION), failure, 3).await;
    assert!(
        events.iter().any(|reason| reason == "Completed"),
        "{events:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizers_whose_removal_is_refused_go_later() {
    for (code, reason) in [(422, "Invalid"), (500, "InternalError")] {
        let refused = refusal(code, reason, "not now");
        let is_removal = |request: &str| {
            request.starts_with("PATCH /api/v1/namespaces/default/pods/")
                && request.contains("$deleteFromPrimitiveList/finalizers")
        };
        run_against(is_removal, refused, 25).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_that_are_refused_are_written_later() {
    for (code, reason) in [(409, "Conflict"), (422, "Invalid"), (503, "Unavailable")] {
        let refused = refusal(code, reason, "not now");
        let is_status = |request: &str| request.contains("/jobs/main/status");
        run_against(is_status, refused, 2).await;
    }
}
