//! Tests several shards: the shard of its namespace runs a Job.

use lakh::{
    embedded::EmbeddedCluster,
    runtime::{Controller, Options},
};
use serde_json::json;

use crate::support::{self, client, indexed_job, is, listening, metrics_when, of_queue, options};

/// Enough that each shard has some.
const NAMESPACES: usize = 12;

async fn make_jobs(cluster: &EmbeddedCluster) {
    let client = client(cluster).await;
    for number in 0..NAMESPACES {
        let name = format!("team-{number}");
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let body = namespace.to_string().into_bytes();
        let made = client.create("/api/v1/namespaces", body).await;
        made.expect("a good namespace");
        let path = format!("/apis/batch/v1/namespaces/{name}/jobs");
        let job = indexed_job("j", 20, 5).to_string().into_bytes();
        client.create(&path, job).await.expect("a good Job");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_all_namespaces_complete() {
    let cluster = support::cluster(std::time::Duration::from_millis(20)).await;
    let before = client(&cluster).await;
    let options = Options {
        shards: 3,
        ..options()
    };
    let controller = Controller::start(before, listening(options)).await;
    let mut controller = controller.expect("a free port");
    controller.ready().await;
    make_jobs(&cluster).await;
    let client = client(&cluster).await;
    for number in 0..NAMESPACES {
        let path = format!("/apis/batch/v1/namespaces/team-{number}/jobs/j");
        let job = support::seen_when(&client, &path, |job| is(job, "Complete")).await;
        assert_eq!(job["status"]["succeeded"], 20, "{job}");
        assert_eq!(job["status"]["completedIndexes"], "0-19");
    }
    let text = metrics_when(&controller, |text| support::is_at_rest(text, "job")).await;
    assert!(of_queue(&text, "job", "adds_total") >= NAMESPACES as f64);
    let made = "job_controller_jobs_finished_total{completion_mode=\"Indexed\",result=\"succeeded\",reason=\"CompletionsReached\"} 12";
    assert!(text.contains(made), "{text}");
    // No part of the controller has ended by itself.
    let ended = tokio::time::timeout(std::time::Duration::from_millis(50), controller.ended());
    assert!(ended.await.is_err());
    controller.stop().await;
    cluster.shutdown().await;
}
