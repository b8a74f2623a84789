//! Tests a restore: the API server suddenly has the data of an older backup, and the controller has seen later data.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use lakh::{
    client::{Client, Patch},
    embedded::{ClusterOptions, EmbeddedCluster, ServeOptions, kubelet::KubeletOptions},
};
use serde_json::json;

use crate::support::{
    self, PATIENCE, check_pods_of_complete_job, create, impatient_controller, indexed_job, is,
    job_when, pods,
};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Starts a cluster with the folder's data. Its Pods run until a client ends them.
async fn start(folder: &Path, port: u16, faults: &[&str]) -> EmbeddedCluster {
    let kubelet = KubeletOptions {
        default_duration: Duration::from_secs(3600),
        ..KubeletOptions::with_nodes(1)
    };
    EmbeddedCluster::start(ClusterOptions {
        server: ServeOptions {
            port,
            state: Some(folder.to_owned()),
            faults: faults
                .iter()
                .map(|text| text.parse().expect(text))
                .collect(),
            ..ServeOptions::default()
        },
        kubelet,
        ..ClusterOptions::default()
    })
    .await
    .expect("the cluster starts")
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("the state can be read") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name");
        fs::copy(&path, to.join(name)).expect("it can be copied");
    }
}

/// Ends all Pods that have not ended.
async fn end_pods(client: &Client) {
    for pod in pods(client).await {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        if pod["status"]["phase"] != "Succeeded" {
            let body = json!({"status": {"phase": "Succeeded"}}).to_string();
            let path = format!("{PODS}/{name}/status");
            let ended = client.patch(&path, Patch::Merge, body.into_bytes()).await;
            // The controller may have just released the Pod, so that it is gone.
            ended.map_or_else(|error| assert_eq!(error.code, 404, "{error}"), drop);
        }
    }
}

/// Ends Pods again and again: a kubelet that takes over an earlier Pod reports it as running.
async fn keep_ending_pods(client: &Client) {
    loop {
        end_pods(client).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns how often a controller has dropped its cache and listed anew, by its metrics.
fn cache_resets(metrics: &str) -> u64 {
    let sample = "lakh_cache_resets_total ";
    let value = metrics.lines().find_map(|line| line.strip_prefix(sample));
    let value = value.unwrap_or_else(|| panic!("no {sample}in\n{metrics}"));
    value.parse().expect("a number")
}

/// Restores a backup, so that a Job of four loses its later progress. If `passed`, the server's versions soon exceed
/// those that the controller has seen.
async fn goes_on_after_a_backup(passed: bool) {
    let [folder, backup] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let first = start(folder.path(), 0, &[]).await;
    let address = first.url();
    let port = address
        .rsplit(':')
        .next()
        .and_then(|port| port.trim_matches('/').parse().ok());
    let port = port.expect("a port");
    let client = support::client(&first).await;
    let controller = impatient_controller(&address).await;
    create(&client, &indexed_job("old", 4, 2)).await;
    job_when(&client, "old", |job| job["status"]["active"] == 2).await;
    first.shutdown().await;
    copy(folder.path(), backup.path());

    let second = start(folder.path(), port, &[]).await;
    let client = support::client(&second).await;
    end_pods(&client).await;
    job_when(&client, "old", |job| {
        job["status"]["succeeded"] == 2 && job["status"]["active"] == 2
    })
    .await;
    second.shutdown().await;
    let metrics = controller.metrics();
    let resets = || cache_resets(&metrics());
    let before = resets();

    copy(backup.path(), folder.path());
    // As on a real server, whatever happened before the start is not in the watch cache: earlier watches expire.
    let begin = ["expire,verbs=watch,times=9"];
    let third = start(folder.path(), port, &begin[..usize::from(passed)]).await;
    let client = support::client(&third).await;
    for number in 0..if passed { 200 } else { 0 } {
        let map = json!({"metadata": {"name": format!("m{number}")}}).to_string();
        let path = "/api/v1/namespaces/default/configmaps";
        client
            .create(path, map.into_bytes())
            .await
            .expect("a good map");
    }
    if !passed {
        // Wait until the controller has detected the older data. A Pod that ends earlier may bring versions that the
        // controller has seen, which is the other test.
        let started = Instant::now();
        while resets() == before {
            assert!(started.elapsed() < PATIENCE, "it has noticed nothing");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    // The earlier successes are lost.
    let job = job_when(&client, "old", |job| job["status"]["active"] == 2).await;
    assert_eq!(job["status"]["succeeded"], json!(null));
    tokio::select! {
        () = keep_ending_pods(&client) => {}
        _ = job_when(&client, "old", |job| is(job, "Complete")) => {}
    }
    // If a Pod ends before the controller detects the restore, it takes the event for one of the old data, and its
    // index may run again. The test can then only require that the Job goes on.
    if !passed {
        check_pods_of_complete_job(&pods(&client).await, 4);
    }
    controller.stop().await;
    third.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_on_from_an_older_backup() {
    goes_on_after_a_backup(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_on_from_a_backup_whose_versions_have_passed() {
    goes_on_after_a_backup(true).await;
}
