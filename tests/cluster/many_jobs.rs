//! Tests many Jobs at once, and a small one beside a giant.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;

use crate::support::{
    self, check_pods_of_complete_job, create, get, indexed_job, is, job_when, pods, pods_when,
};

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_small_jobs_get_a_pod_each() {
    let cluster = support::cluster(Duration::ZERO).await;
    let controller = support::controller(&cluster).await;
    let client = support::client(&cluster).await;
    for number in 0..2000 {
        create(&client, &indexed_job(&format!("small-{number}"), 1, 1)).await;
    }
    for number in 0..2000 {
        job_when(&client, &format!("small-{number}"), |job| {
            is(job, "Complete")
        })
        .await;
    }
    let all = pods(&client).await;
    assert_eq!(all.len(), 2000, "a Pod too many or too few");
    let owners: BTreeSet<&str> = all
        .iter()
        .filter_map(|pod| pod["metadata"]["ownerReferences"][0]["uid"].as_str())
        .collect();
    assert_eq!(owners.len(), 2000, "each Pod has a Job of its own");
    for pod in &all {
        check_pods_of_complete_job(std::slice::from_ref(pod), 1);
    }
    controller.stop().await;
    cluster.shutdown().await;
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.expect("a version").parse().expect("a number")
}

fn is_of(pod: &Value, job: &str) -> bool {
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == job
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_job_does_not_wait_for_a_giant() {
    const GIANT: u32 = 20_000;
    let cluster = support::cluster(Duration::from_secs(3600)).await;
    let controller = support::controller(&cluster).await;
    let client = support::client(&cluster).await;
    create(&client, &indexed_job("giant", GIANT, GIANT)).await;
    pods_when(&client, |all| all.len() > 500).await;
    create(&client, &indexed_job("small", 1, 1)).await;
    let job = get(&client, "/apis/batch/v1/namespaces/default/jobs/small").await;
    let all = pods_when(&client, |all| all.iter().any(|pod| is_of(pod, "small"))).await;
    // Versions count the server's writes: they give the number of the giant's Pods before the small Job's one.
    let asked = version(&job);
    let small = all.iter().find(|pod| is_of(pod, "small"));
    let given = version(small.expect("just seen"));
    let between = all
        .iter()
        .filter(|pod| is_of(pod, "giant") && (asked..given).contains(&version(pod)))
        .count();
    assert!(
        between < GIANT as usize / 4,
        "{between} Pods of the giant went first"
    );
    controller.stop().await;
    cluster.shutdown().await;
}
