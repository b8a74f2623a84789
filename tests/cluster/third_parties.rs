//! Tests clients without Jobs of their own that write to Jobs and their status: a queue manager, an operator, a user.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use lakh::{
    client::{Client, Patch},
    clock::Clock,
    model::Limits,
    runtime::{Controller, ManagerName, Mode, Options},
};
use serde_json::{Value, json};

use crate::support::{
    client, cluster, cluster_by, create, indexed_job, is, job_when, listening, metrics,
    metrics_when, options, pods_when,
};

const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/main";

/// On a quiet cluster a Pod watch only advances with a bookmark, a minute later. This is long for a busy machine, and
/// shorter than that.
const PROMPT: Duration = Duration::from_secs(15);

fn alone_after(seconds: u64) -> Options {
    let usual = options();
    listening(Options {
        limits: Limits {
            alone_after: Some(Duration::from_secs(seconds)),
            ..usual.limits
        },
        ..usual
    })
}

async fn patch(client: &Client, path: &str, patch: Value) {
    let patched = client.patch(path, Patch::Merge, patch.to_string()).await;
    patched.expect("a good patch");
}

async fn suspend(client: &Client, suspend: bool) {
    patch(client, JOB, json!({"spec": {"suspend": suspend}})).await;
}

fn names(pods: &[Value]) -> BTreeSet<String> {
    let names = pods.iter().map(|pod| pod["metadata"]["name"].as_str());
    names.flatten().map(str::to_owned).collect()
}

/// Kueue stops a Job by three writes: it suspends the Job, clears the start time, and restores the template.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_manager_stops_and_admits_a_job_again_and_again() {
    let own = ManagerName::parse("lakh.dev/job-controller").expect("a good name");
    for mode in [Mode::Replace, Mode::ManagedBy(own)] {
        let manager = match &mode {
            Mode::Replace | Mode::Both => None,
            Mode::ManagedBy(_) => Some("lakh.dev/job-controller"),
        };
        for is_indexed in [true, false] {
            let cluster = cluster(Duration::from_secs(36_000)).await;
            let client = client(&cluster).await;
            let options = Options {
                mode: mode.clone(),
                ..alone_after(60)
            };
            let controller = Controller::start(client.clone(), options).await;
            let controller = controller.expect("it starts");
            let mut job = indexed_job("main", 3, 3);
            job["spec"]["suspend"] = json!(true);
            job["spec"]["managedBy"] = json!(manager);
            job["spec"]["backoffLimit"] = json!(0);
            if !is_indexed {
                job["spec"]["completionMode"] = json!("NonIndexed");
            }
            create(&client, &job).await;
            let mut all = BTreeSet::new();
            let began = Instant::now();
            for round in 0..4 {
                suspend(&client, false).await;
                let pods = pods_when(&client, |pods| pods.len() == 3).await;
                job_when(&client, "main", |job| job["status"]["ready"] == 3).await;
                all.extend(names(&pods));
                assert_eq!(all.len(), 3 * (round + 1), "a name came back: {all:?}");
                suspend(&client, true).await;
                patch(
                    &client,
                    &format!("{JOB}/status"),
                    json!({"status": {"startTime": null}}),
                )
                .await;
                pods_when(&client, <[Value]>::is_empty).await;
                let stopped = |job: &Value| {
                    job["status"]["startTime"].is_null()
                        && job["status"]["active"]
                            .as_u64()
                            .is_none_or(|active| active == 0)
                };
                job_when(&client, "main", |job| stopped(job) && is(job, "Suspended")).await;
                let template = json!({"metadata": {"annotations": {"round": round.to_string()}}});
                patch(&client, JOB, json!({"spec": {"template": template}})).await;
                // A kubelet that identifies Pods by name reports a Pod of this round late.
                let late = names(&pods);
                let late = late.first().expect("three Pods");
                let late = format!("/api/v1/namespaces/default/pods/{late}/status");
                let failed = json!({"status": {"phase": "Failed"}}).to_string();
                assert!(client.patch(&late, Patch::Merge, failed).await.is_err());
            }
            assert!(began.elapsed() < 4 * PROMPT, "{:?}", began.elapsed());
            let text = metrics(&controller);
            assert!(text.contains("lakh_foreign_statuses_total 0"), "{text}");
            assert!(text.contains("lakh_contests_total 0"), "{text}");
            controller.stop().await;
            cluster.shutdown().await;
        }
    }
}

/// Nothing else happens on the cluster, so that no Pod event advances the watch.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_follows_its_spec_at_once_after_a_foreign_status_write() {
    let status = format!("{JOB}/status");
    for foreign in [
        json!({"ready": 1}),
        json!({"failed": 1}),
        json!({"conditions": [{"type": "Third", "status": "True"}]}),
    ] {
        let clock = Clock::default();
        let cluster = cluster_by(&clock, Duration::from_secs(36_000)).await;
        let client = client(&cluster).await;
        let options = Options {
            clock: clock.clone(),
            ..alone_after(60)
        };
        let controller = Controller::start(client.clone(), options).await;
        let controller = controller.expect("it starts");
        create(&client, &indexed_job("main", 9, 2)).await;
        job_when(&client, "main", |job| job["status"]["ready"] == 2).await;
        patch(&client, &status, json!({"status": foreign})).await;
        let began = Instant::now();
        patch(&client, JOB, json!({"spec": {"parallelism": 3}})).await;
        pods_when(&client, |pods| pods.len() == 3).await;
        let scaled = began.elapsed();
        // Two foreign statuses within half a minute are a contest, in which Pods are still deleted.
        clock.move_on_to(clock.now().wall + Duration::from_secs(31));
        patch(&client, &status, json!({"status": foreign})).await;
        let again = json!({"status": {"failed": 2}});
        patch(&client, &status, again).await;
        let began = Instant::now();
        suspend(&client, true).await;
        let is_going = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
        pods_when(&client, |pods| pods.iter().all(is_going)).await;
        job_when(&client, "main", |job| is(job, "Suspended")).await;
        let suspended = began.elapsed();
        assert!(
            scaled < PROMPT && suspended < PROMPT,
            "{foreign}: {scaled:?}, {suspended:?}"
        );
        controller.stop().await;
        cluster.shutdown().await;
    }
}

/// A second Job controller is still recognized by its statuses, and its end by the absence of writes.
#[tokio::test(flavor = "multi_thread")]
async fn two_job_controllers_notice_each_other() {
    let cluster = cluster(Duration::from_millis(500)).await;
    let client = client(&cluster).await;
    let one = Controller::start(client.clone(), alone_after(3)).await;
    let one = one.expect("it starts");
    let other = Controller::start(client.clone(), alone_after(3)).await;
    let other = other.expect("it starts");
    create(&client, &indexed_job("main", 400, 10)).await;
    metrics_when(&one, |text| !text.contains("lakh_contests_total 0")).await;
    other.stop().await;
    let job = job_when(&client, "main", |job| is(job, "Complete")).await;
    assert_eq!(job["status"]["succeeded"], 400);
    one.stop().await;
    cluster.shutdown().await;
}
