//! Tests a busy or failing server: the controller waits for `retryAfter`, and nothing is lost.

use std::time::{Duration, Instant};

use lakh::embedded::{ClusterOptions, EmbeddedCluster, ServeOptions};
use serde_json::Value;

use crate::support::{
    self, check_pods_of_complete_job, create, get, indexed_job, is, is_held, job_when, pods_when,
};

/// Runs a small Job while the first few requests of a kind are refused. Returns its duration, and the reasons of its
/// Events.
async fn run_against(refusal: &str, meant: &str, times: u32) -> (Duration, Vec<String>) {
    let rule = format!("refuse={refusal},{meant},times={times}");
    let cluster = EmbeddedCluster::start(ClusterOptions {
        server: ServeOptions {
            faults: vec![rule.parse().expect("a good rule")],
            ..ServeOptions::default()
        },
        ..ClusterOptions::default()
    })
    .await
    .expect("a free port");
    let controller = support::impatient_controller(&cluster.url()).await;
    let client = support::client(&cluster).await;
    let started = Instant::now();
    create(&client, &indexed_job("main", 20, 20)).await;
    let job = job_when(&client, "main", |job| is(job, "Complete")).await;
    let took = started.elapsed();
    assert_eq!(job["status"]["succeeded"], 20);
    let all = pods_when(&client, |all| !all.iter().any(is_held)).await;
    assert_eq!(all.len(), 20, "a Pod too many or too few");
    check_pods_of_complete_job(&all, 20);
    let faults = get(&client, "/lakh/faults").await;
    assert_eq!(faults["rules"][0]["hits"], times, "nothing went wrong");
    let events = get(&client, "/api/v1/namespaces/default/events").await;
    let events = events["items"].as_array().cloned().unwrap_or_default();
    let reason = |event: &Value| event["reason"].as_str().unwrap_or_default().to_owned();
    controller.stop().await;
    cluster.shutdown().await;
    (took, events.iter().map(reason).collect())
}

/// The creation of a Pod.
const CREATION: &str = "verbs=create,resources=pods";

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_respected() {
    let (took, events) = run_against("429,retryAfter=1s", CREATION, 1).await;
    // The server asked for this delay, so an earlier retry is an error.
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
async fn refused_creations_are_reported_and_retried() {
    let (_, events) = run_against("403,message=exceeded quota: q", CREATION, 3).await;
    assert!(
        events.iter().any(|reason| reason == "FailedCreate"),
        "{events:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_makes_no_second_pods() {
    let (_, events) = run_against("500", CREATION, 3).await;
    assert!(
        events.iter().any(|reason| reason == "Completed"),
        "{events:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_finalizer_removals_are_retried() {
    for code in ["422", "500"] {
        run_against(code, "verbs=patch,resources=pods", 25).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_that_are_refused_are_written_later() {
    for code in ["409", "422", "503"] {
        run_against(code, "resources=jobs/status", 2).await;
    }
}
