//! A kind that may not be listed stops the controller that needs it, and no other; probes and log name it.

use std::{fs::File, net::SocketAddr, time::Duration};

use serde_json::{Value, json};

use crate::support::{
    self, Running, create, http_get, indexed_job, is, job_when,
    proxy::{Fate, Proxy, refusal},
};

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_where_cron_jobs_may_not_be_listed() {
    let cluster = support::cluster(Duration::ZERO).await;
    let server = cluster.url();
    let line = Proxy::start(&server, |request| {
        match request.starts_with("GET /apis/batch/v1/cronjobs") {
            true => Fate::Answered(refusal(403, "Forbidden", "cronjobs is forbidden: no")),
            false => Fate::Passed,
        }
    });
    let line = line.await;
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = |name: &str| folder.path().join(name);
    support::write_kubeconfig(&path("config"), &line.url());
    let config = path("config").display().to_string();
    let arguments = [
        "controller",
        "--mode=replace",
        "--log-format=json",
        "--listen=127.0.0.1:0",
        "--kubeconfig",
        &config,
    ];
    let controller = support::lakh(&arguments)
        .stderr(File::create(path("log")).expect("it can be written"))
        .spawn()
        .expect("the binary runs");
    let _controller = Running(controller);

    let client = support::client(&cluster).await;
    let mut job = indexed_job("main", 5, 5);
    job["spec"]["ttlSecondsAfterFinished"] = json!(3600);
    create(&client, &job).await;
    job_when(&client, "main", |job| is(job, "Complete")).await;

    let log = std::fs::read_to_string(path("log")).expect("it can be read");
    let lines: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let failed = lines.iter().find(|line| line["kind"] == "cronjobs");
    let failed = failed.unwrap_or_else(|| panic!("{log}"));
    assert!(
        failed["error"]
            .as_str()
            .is_some_and(|error| error.contains("forbidden")),
        "{failed}"
    );
    let probes = lines.iter().find_map(|line| line["listen"].as_str());
    let listen: SocketAddr = probes.and_then(|at| at.parse().ok()).expect("an address");
    let ready = http_get(listen, "/readyz").expect("an answer");
    assert!(
        ready.starts_with("HTTP/1.1 503 ") && ready.contains("cronjobs"),
        "{ready}"
    );
}
