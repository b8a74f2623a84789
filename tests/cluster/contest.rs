//! Tests a Job with a second controller: this controller gives way and reports it, until it is alone.

use std::time::Duration;

use lakh::{
    client::{Client, Patch},
    clock::Clock,
    model::Limits,
    runtime::{Controller, Options},
};
use serde_json::{Value, json};

use crate::support::{
    client, cluster_by, create, get, indexed_job, job_when, listed, listening, metrics_when,
    options, pods_when, seen_when,
};

const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/main";

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Writes the Job's status and changes a Pod as another controller would. The controller decides nothing until its Pods
/// are as recent as such a status.
async fn write_status(client: &Client, ready: u32) {
    let body = json!({"status": {"ready": ready}}).to_string();
    let path = format!("{JOB}/status");
    let written = client.patch(&path, Patch::Merge, body);
    written.await.expect("a good status");
    let pods = get(client, PODS).await;
    let name = pods["items"][0]["metadata"]["name"]
        .as_str()
        .expect("a name");
    let body = json!({"metadata": {"annotations": {"ready": ready.to_string()}}}).to_string();
    let changed = format!("{PODS}/{name}");
    let changed = client.patch(&changed, Patch::Merge, body).await;
    changed.expect("a good annotation");
}

fn stays(pods: &[Value]) -> usize {
    let is_going = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_string();
    pods.len() - pods.iter().filter(is_going).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contested_job_gets_no_pods_until_the_contest_ends() {
    let clock = Clock::default();
    let cluster = cluster_by(&clock, Duration::from_secs(36_000)).await;
    let client = client(&cluster).await;
    let usual = options();
    let options = listening(Options {
        clock: clock.clone(),
        limits: Limits {
            alone_after: Some(Duration::from_secs(60)),
            ..usual.limits
        },
        ..usual
    });
    let controller = Controller::start(client.clone(), options);
    let controller = controller.await.expect("it starts");
    create(&client, &indexed_job("main", 5, 5)).await;
    job_when(&client, "main", |job| job["status"]["ready"] == 5).await;

    // One foreign status is no contest.
    write_status(&client, 4).await;
    job_when(&client, "main", |job| job["status"]["ready"] == 5).await;
    metrics_when(&controller, |text| {
        text.contains("lakh_foreign_statuses_total 1")
    })
    .await;
    clock.move_on_to(clock.now().wall + Duration::from_secs(31));
    for ready in [3, 2] {
        write_status(&client, ready).await;
        job_when(&client, "main", |job| job["status"]["ready"] == 5).await;
    }
    metrics_when(&controller, |text| text.contains("lakh_contests_total 1")).await;
    let told = |events: &Value| {
        let events = listed(events).iter();
        let mut told = events.filter(|event| event["reason"] == "AnotherController");
        told.next().is_some_and(|event| event["type"] == "Warning")
    };
    seen_when(&client, "/api/v1/namespaces/default/events", told).await;

    // Scaled up: three Pods are missing, and none is created.
    let more = json!({"spec": {"parallelism": 8, "completions": 8}}).to_string();
    client
        .patch(JOB, Patch::Merge, more)
        .await
        .expect("it is elastic");
    let generation = get(&client, JOB).await["metadata"]["generation"].clone();
    assert_eq!(generation, 2);
    clock.move_on_to(clock.now().wall + Duration::from_secs(50));
    write_status(&client, 4).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    clock.move_on_to(clock.now().wall + Duration::from_secs(50));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let pods = get(&client, PODS).await;
    assert_eq!(stays(listed(&pods)), 5);
    // There was no foreign write for a minute.
    clock.move_on_to(clock.now().wall + Duration::from_secs(11));
    pods_when(&client, |pods| stays(pods) == 8).await;
    metrics_when(&controller, |text| text.contains("lakh_contests_total 1")).await;
    controller.stop().await;
    cluster.shutdown().await;
}

/// A controller's name is misspelled, and no other component would report it.
#[tokio::test(flavor = "multi_thread")]
async fn an_unserved_job_is_reported() {
    let clock = Clock::default();
    let cluster = cluster_by(&clock, Duration::ZERO).await;
    let client = client(&cluster).await;
    let options = Options {
        clock: clock.clone(),
        ..options()
    };
    let controller = Controller::start(client.clone(), options);
    let controller = controller.await.expect("it starts");
    let mut job = indexed_job("main", 1, 1);
    job["spec"]["managedBy"] = json!("lakh.dev/job-controler");
    create(&client, &job).await;
    // The controller knows of the Job once it has run a later one.
    create(&client, &indexed_job("later", 1, 1)).await;
    job_when(&client, "later", |job| job["status"]["succeeded"] == 1).await;
    clock.move_on_to(clock.now().wall + Duration::from_secs(301));
    let told = |events: &Value| {
        let mut told = listed(events).iter();
        told.any(|event| {
            event["reason"] == "UnservedManagedBy" && event["involvedObject"]["name"] == "main"
        })
    };
    seen_when(&client, "/api/v1/namespaces/default/events", told).await;
    controller.stop().await;
    cluster.shutdown().await;
}
