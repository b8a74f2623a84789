//! Runs lakh on a real cluster with hundreds of Jobs near the API server's size limit in one namespace.

use std::time::Instant;

use serde_json::json;
use tokio::time::sleep;

use super::{Cluster, PATIENCE};
use crate::support;

const LARGE_JOBS: usize = 300;

const TEMPLATE_BYTES: usize = 900 << 10;

/// The memory limit in `deploy/` is 512 MiB, and the built-in controller needs as much for these Jobs.
const MEMORY_MAX: u64 = 128 << 20;

/// Returns the peak memory of a process in bytes.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.expect("a number of KiB") << 10
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real cluster, see CONTRIBUTING.md"]
async fn large_jobs_of_one_namespace_keep_no_other_from_its_pods() {
    let cluster = Cluster::connect().await;
    let (large, bystanders) = (
        cluster.namespace("large").await,
        cluster.namespace("by").await,
    );
    let text = "x".repeat(TEMPLATE_BYTES);
    for number in 0..LARGE_JOBS {
        let mut job = support::indexed_job(&format!("large-{number}"), 1, 1);
        job["spec"]["suspend"] = json!(true);
        job["spec"]["template"]["spec"]["containers"][0]["env"] =
            json!([{"name": "LARGE", "value": text}]);
        cluster.create(&large, &job).await;
    }
    let bystander = support::indexed_job("bystander", 1, 1);
    cluster.create(&bystanders, &bystander).await;
    let lakh = cluster.grant("replace").start().await;
    let began = Instant::now();
    while cluster.pods(&bystanders).await.is_empty() {
        assert!(began.elapsed() < PATIENCE, "{}", lakh.process.log());
        sleep(std::time::Duration::from_millis(100)).await;
    }
    let peak = peak_memory(lakh.process.child.id());
    assert!(peak < MEMORY_MAX, "{} MiB", peak >> 20);
    lakh.check(&[]);
    // The bystander's Pod goes when lakh has removed its finalizer.
    cluster.remove(&large);
    cluster.remove(&bystanders);
    drop(lakh);
}
