//! Runs a load scenario and reports what it took, as JSON.
//!
//! Server, hollow kubelet and controller share this process, so that CPU and memory are of all
//! three together. Figures are reported, never judged here.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use lakh::{
    cluster::{self, Client},
    embedded::{ClusterOptions, EmbeddedCluster},
    model::Limits,
    runtime::{Controller, Mode, Options, Rate},
};
use serde_json::{Value, json};

use crate::{process, scenario::Scenario};

/// Runs a scenario to the end of its Jobs.
pub(crate) async fn run(scenario: &Scenario) -> Result<Value, Box<dyn Error>> {
    let load = scenario.load();
    let cluster = EmbeddedCluster::start(ClusterOptions::default()).await?;
    let client = cluster::connect_url(&cluster.url()).await?;
    let options = Options {
        mode: Mode::Replace,
        workload_with_job: false,
        limits: Limits::default(),
        rate: Rate { qps: 0, burst: 0 },
        max_in_flight: load.max_in_flight,
        concurrent_job_syncs: 2,
        namespaces: Vec::new(),
        listen: None,
    };
    let controller =
        Controller::start(cluster::connect_url(&cluster.url()).await?, options).await?;
    controller.ready().await;
    let jobs = scenario.jobs();
    let (cpu_before, started) = (process::cpu_seconds()?, Instant::now());
    for job in &jobs {
        client
            .create(
                "/apis/batch/v1/namespaces/default/jobs",
                job.to_string().into_bytes(),
            )
            .await?;
    }
    wait_for_ends(&client, jobs.len()).await?;
    let wall = started.elapsed().as_secs_f64();
    let cpu = process::cpu_seconds()? - cpu_before;
    let pods = f64::from(load.size);
    let calls = cluster
        .server()
        .api()
        .request_counts()
        .into_iter()
        .map(|count| {
            let what = format!("{} {} {}", count.verb, count.resource, count.code);
            (what, Value::from(count.count))
        });
    let report = json!({
        "scenario": scenario.name(),
        "jobs": jobs.len(),
        "pods": load.size,
        "wallSeconds": wall,
        "podsPerSecond": pods / wall,
        "cpuMillisecondsPerPod": cpu * 1000.0 / pods,
        "peakMemoryMiB": process::peak_memory_mib()?,
        "calls": calls.collect::<serde_json::Map<_, _>>(),
    });
    controller.stop().await;
    cluster.shutdown().await;
    Ok(report)
}

/// Returns once this many Jobs have ended.
async fn wait_for_ends(client: &Client, wanted: usize) -> Result<(), Box<dyn Error>> {
    loop {
        let body = client.get("/apis/batch/v1/jobs").await?;
        let list: Value = serde_json::from_slice(&body)?;
        let jobs = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        if jobs.iter().filter(|job| has_ended(job)).count() >= wanted {
            return Ok(());
        }
        // Rarely, when there are many: the list is work for the server that is being measured.
        tokio::time::sleep(Duration::from_millis(if wanted > 100 { 1000 } else { 50 })).await;
    }
}

fn has_ended(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["status"] == "True"
            && (condition["type"] == "Complete" || condition["type"] == "Failed")
    })
}
