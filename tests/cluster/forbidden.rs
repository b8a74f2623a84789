//! Tests a kind that may not be listed: only the controller that needs it stops, and probes and log name the kind.

use std::time::Duration;

use serde_json::json;

use crate::support::{
    self, create, http_get, indexed_job, is, job_when,
    logged::Logged,
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
    let controller = Logged::start(&path("config"), path("log"), &[]);

    let client = support::client(&cluster).await;
    let mut job = indexed_job("main", 5, 5);
    job["spec"]["ttlSecondsAfterFinished"] = json!(3600);
    create(&client, &job).await;
    job_when(&client, "main", |job| is(job, "Complete")).await;

    let lines = controller.lines();
    let failed = lines.iter().find(|line| line["kind"] == "cronjobs");
    let failed = failed.unwrap_or_else(|| panic!("{lines:?}"));
    assert!(
        failed["error"]
            .as_str()
            .is_some_and(|error| error.contains("forbidden")),
        "{failed}"
    );
    let listen = controller.listens().expect("an address");
    let ready = http_get(listen, "/readyz").expect("an answer");
    assert!(
        ready.starts_with("HTTP/1.1 503 ") && ready.contains("cronjobs"),
        "{ready}"
    );
}
