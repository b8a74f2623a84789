//! Tests isolation: faults in one namespace do not affect another.

use std::time::Duration;

use lakh::{
    client::Client,
    embedded::{ClusterOptions, EmbeddedCluster, ServeOptions},
};
use serde_json::{Value, json};

use crate::support::{self, create, get, indexed_job, is, job_when, listed, seen_when};

/// Selects creations of Pods in the faulty namespace.
const SLOW: &str = "verbs=create,resources=pods,path=/api/v1/namespaces/slow/";

/// Starts a cluster with a fault in the namespace `slow`, and a Job of this many Pods there that has hit it.
async fn beside(fault: &str, pods: u32) -> (EmbeddedCluster, Client) {
    let cluster = EmbeddedCluster::start(ClusterOptions {
        server: ServeOptions {
            faults: vec![format!("{fault},{SLOW}").parse().expect("a good rule")],
            ..ServeOptions::default()
        },
        ..ClusterOptions::default()
    })
    .await
    .expect("a free port");
    let client = support::client(&cluster).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slow"}});
    let body = namespace.to_string().into_bytes();
    let made = client.create("/api/v1/namespaces", body).await;
    made.expect("a new namespace");
    let job = indexed_job("big", pods, pods).to_string().into_bytes();
    let made = client.create("/apis/batch/v1/namespaces/slow/jobs", job);
    made.await.expect("a good Job");
    (cluster, client)
}

/// Waits for this many hits of the fault, and then runs a Job in another namespace to its end. Returns the hits by
/// then.
async fn hits_until_a_neighbour_ends(client: &Client, hits: u64) -> u64 {
    let of = |faults: &Value| faults["rules"][0]["hits"].as_u64().unwrap_or(0);
    seen_when(client, "/lakh/faults", |faults| of(faults) >= hits).await;
    create(client, &indexed_job("other", 5, 5)).await;
    job_when(client, "other", |job| is(job, "Complete")).await;
    of(&get(client, "/lakh/faults").await)
}

async fn reasons(client: &Client, namespace: &str) -> Vec<String> {
    let path = format!("/api/v1/namespaces/{namespace}/events");
    let events = get(client, &path).await;
    let reason = |event: &Value| event["reason"].as_str().unwrap_or_default().to_owned();
    listed(&events).iter().map(reason).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_in_one_namespace_stops_no_other() {
    let (cluster, client) = beside("refuse=429,retryAfter=20s", 20).await;
    let controller = support::controller(&cluster).await;
    let hits = hits_until_a_neighbour_ends(&client, 1).await;
    assert!(hits < 10, "asked {hits} times within 20 s");
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_webhook_is_reported_and_stops_no_other_tenant() {
    let denial =
        "refuse=429,retryAfter=24h,message=admission webhook \"w\" denied the request: busy";
    let (cluster, client) = beside(denial, 20).await;
    let controller = support::controller(&cluster).await;
    let hits = hits_until_a_neighbour_ends(&client, 1).await;
    assert_eq!(hits, 1, "it asked not to be asked again");
    let path = "/api/v1/namespaces/slow/events";
    seen_when(&client, path, |events| !listed(events).is_empty()).await;
    assert_eq!(reasons(&client, "slow").await, ["FailedCreate"]);
    controller.stop().await;
    cluster.shutdown().await;
}

/// The neighbour's five Pods and their end are a dozen consecutive writes. Without free permits each would take ten
/// minutes.
#[tokio::test(flavor = "multi_thread")]
async fn slow_creations_in_one_namespace_slow_down_no_other() {
    let (cluster, client) = beside("latency=10m", 5000).await;
    let controller = support::controller(&cluster).await;
    // Slow start waits for the response to a Job's first creation. So many creations in flight need many Jobs, here of
    // one Pod each.
    for nth in 0..200 {
        let job = indexed_job(&format!("one-{nth}"), 1, 1).to_string();
        let made = client.create("/apis/batch/v1/namespaces/slow/jobs", job.into_bytes());
        made.await.expect("a good Job");
    }
    let max = support::options().max_in_flight as u64;
    let hits = hits_until_a_neighbour_ends(&client, max * 4 / 5).await;
    assert!(hits < max, "{hits} of {max} places");
    drop(controller);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_says_that_names_are_taken_is_not_asked_without_end() {
    let denial = "refuse=409,message=admission webhook \"w\" denied the request: taken";
    let (cluster, client) = beside(denial, 20).await;
    let controller = support::controller(&cluster).await;
    let path = "/api/v1/namespaces/slow/events";
    let told = |events: &Value| {
        let told = listed(events).iter();
        told.filter_map(|event| event["count"].as_u64())
            .sum::<u64>()
            >= 3
    };
    seen_when(&client, path, told).await;
    let faults = get(&client, "/lakh/faults").await;
    let hits = faults["rules"][0]["hits"].as_u64().expect("a number");
    assert!(hits <= 6, "asked {hits} times in three rounds");
    assert_eq!(reasons(&client, "slow").await, ["FailedCreate"]);
    tokio::time::timeout(Duration::from_secs(10), controller.stop())
        .await
        .expect("it stops");
    cluster.shutdown().await;
}
