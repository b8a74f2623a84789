//! Tests the main job: ten thousand indexes, each run once and counted once, and no needless call.

use std::time::Duration;

use crate::support::{self, check_pods_of_complete_job, create, indexed_job, is, job_when, pods};

const INDEXES: u32 = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_indexes_are_run_and_counted_once() {
    let cluster = support::cluster(Duration::ZERO).await;
    let client = support::client(&cluster).await;
    let controller = support::controller(&cluster).await;
    create(&client, &indexed_job("main", INDEXES, 1000)).await;
    let job = job_when(&client, "main", |job| is(job, "Complete")).await;

    let status = &job["status"];
    assert_eq!(status["completedIndexes"], "0-9999");
    assert_eq!(status["succeeded"], INDEXES);
    assert_eq!(status["failed"], serde_json::Value::Null);
    assert_eq!(status["uncountedTerminatedPods"], serde_json::json!({}));
    let pods = pods(&client).await;
    assert_eq!(pods.len(), INDEXES as usize, "a Pod too many or too few");
    check_pods_of_complete_job(&pods, INDEXES as usize);

    let count = |verb: &str, resource: &str| -> u64 {
        let counts = cluster.server().api().request_counts();
        let same = counts
            .iter()
            .filter(|count| count.verb == verb && count.resource == resource);
        same.map(|count| count.count).sum()
    };
    // A binding is a creation below Pods, and a status write a patch below them.
    let (created, patched) = (count("create", "pods"), count("patch", "pods"));
    assert_eq!(
        (created, patched),
        (2 * u64::from(INDEXES), 2 * u64::from(INDEXES))
    );
    let status_writes = count("patch", "jobs");
    assert!(status_writes <= 100, "{status_writes} status writes");
    controller.stop().await;
    cluster.shutdown().await;
}
