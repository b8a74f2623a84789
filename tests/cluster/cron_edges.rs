//! Tests unusual CronJobs on the embedded cluster over HTTP: their Jobs are refused, created by hand or run by another
//! controller, or the server fails.
//!
//! No test waits for the next minute: the status of a CronJob has a last run of long ago, so that a run is due now.
//! Days of usual operation are in `cron_jobs.rs`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use lakh::{
    client::{Client, Patch},
    clock::Clock,
    runtime::{Controller, Options},
};
use serde_json::{Value, json};

use crate::support::{
    self, buckets, client, cluster, cluster_by, create, get, http_send, indexed_job, is,
    is_at_rest, job_when, listed, listening, metrics_when, of_queue, options,
    proxy::{Fate, Proxy, refusal},
    seen_when,
};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Returns a suspended CronJob. Its latest run was due at the beginning of the year, if its last run was a year ago.
fn cron_job(name: &str, spec: &Value) -> Value {
    let usual = json!({"schedule": "0 0 1 1 *", "suspend": true});
    support::cron_job(name, [&usual, spec])
}

async fn make(client: &Client, object: &Value) {
    let body = object.to_string().into_bytes();
    client
        .create(CRON_JOBS, body)
        .await
        .expect("a good CronJob");
}

async fn patch(client: &Client, path: &str, patch: Value) {
    let body = patch.to_string().into_bytes();
    let path = format!("{CRON_JOBS}/{path}");
    client
        .patch(&path, Patch::Merge, body)
        .await
        .expect("it is taken");
}

/// Sets a CronJob's last run to long ago, and resumes it.
async fn let_run(client: &Client, name: &str) {
    let status = json!({"status": {"lastScheduleTime": "2020-06-01T00:00:00Z"}});
    patch(client, &format!("{name}/status"), status).await;
    patch(client, name, json!({"spec": {"suspend": false}})).await;
}

async fn jobs(client: &Client) -> Vec<Value> {
    listed(&get(client, JOBS).await).to_vec()
}

async fn jobs_when(client: &Client, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let list = seen_when(client, JOBS, |list| holds(listed(list))).await;
    listed(&list).to_vec()
}

async fn cron_job_when(client: &Client, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
    seen_when(client, &format!("{CRON_JOBS}/{name}"), holds).await
}

/// Returns an Event on a CronJob once there is one with this reason.
async fn reported(client: &Client, reason: &str) -> Value {
    let is_it =
        |event: &&Value| event["reason"] == reason && event["involvedObject"]["kind"] == "CronJob";
    let told = |list: &Value| listed(list).iter().find(is_it).cloned();
    let list = seen_when(client, EVENTS, |list| told(list).is_some()).await;
    let event = told(&list).expect("it was told");
    assert_eq!(event["source"]["component"], "cronjob-controller");
    assert_eq!(event["reportingComponent"], "cronjob-controller");
    event
}

fn active(cron_job: &Value) -> usize {
    cron_job["status"]["active"].as_array().map_or(0, Vec::len)
}

async fn start(client: &Client, options: Options) -> Controller {
    Controller::start(client.clone(), options)
        .await
        .expect("nothing to listen on")
}

#[tokio::test]
async fn no_run_starts_before_all_is_known() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    make(&client, &cron_job("late", &json!({}))).await;
    let_run(&client, "late").await;
    let (left, early) = (
        Arc::new(AtomicU32::new(3)),
        Arc::new(AtomicBool::new(false)),
    );
    let (lists, too_early) = (Arc::clone(&left), Arc::clone(&early));
    let proxy = Proxy::start(&cluster.url(), move |request| {
        if request.starts_with(&format!("POST {JOBS} ")) && lists.load(Ordering::SeqCst) > 0 {
            too_early.store(true, Ordering::SeqCst);
        }
        let take = |left: u32| left.checked_sub(1);
        let refused = request.starts_with("GET /apis/batch/v1/jobs?")
            && lists
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
                .is_ok();
        match refused {
            true => Fate::Answered(refusal(500, "InternalError", "not now")),
            false => Fate::Passed,
        }
    })
    .await;
    let controller = support::controller_over(&proxy).await;
    let ended = |seen: &Value| seen["status"]["lastSuccessfulTime"].is_string();
    cron_job_when(&client, "late", ended).await;
    assert_eq!(left.load(Ordering::SeqCst), 0, "the line was good");
    assert!(
        !early.load(Ordering::SeqCst),
        "a Job before all Jobs were known"
    );
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn how_late_a_job_was_created_is_measured() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let controller = start(&client, listening(options())).await;
    make(&client, &cron_job("late", &json!({}))).await;
    let_run(&client, "late").await;
    let ended = |seen: &Value| seen["status"]["lastSuccessfulTime"].is_string();
    cron_job_when(&client, "late", ended).await;
    let text = metrics_when(&controller, |text| is_at_rest(text, "cronjob")).await;
    // The run was due at the beginning of the year.
    let bounds: Vec<String> = (0..10).map(|power| format!("{}.0", 1 << power)).collect();
    let mut want: Vec<(&str, &str)> = bounds.iter().map(|bound| (&**bound, "0")).collect();
    want.push(("+Inf", "1"));
    let name = "cronjob_controller_job_creation_skew_duration_seconds";
    assert_eq!(buckets(&text, name), want);
    // It was synced at least for its creation, its change and its Job. It then waits for next year.
    assert!(of_queue(&text, "cronjob", "adds_total") >= 3.0);
    assert!(of_queue(&text, "cronjob", "retries_total") >= 1.0);
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_job_that_is_refused_is_tried_again() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let mut options = options();
    options.limits.retry_backoff.base = Duration::from_millis(50);
    let controller = start(&client, options).await;
    // The server accepts such a template, but refuses the Job made from it.
    let mut odd = cron_job("odd", &json!({}));
    odd["spec"]["jobTemplate"]["metadata"]["labels"] = json!({"not a label": "x"});
    make(&client, &odd).await;
    let_run(&client, "odd").await;
    let event = reported(&client, "FailedCreate").await;
    let message = event["message"].as_str().expect("a message");
    let want = "Error creating job: Job.batch \"odd-";
    assert!(message.starts_with(want), "{message}");
    assert_eq!(event["type"], "Warning");
    assert!(jobs(&client).await.is_empty());
    let labels = json!({"not a label": null, "of": "odd"});
    let template = json!({"jobTemplate": {"metadata": {"labels": labels}}});
    patch(&client, "odd", json!({"spec": template})).await;
    let ended = |seen: &Value| seen["status"]["lastSuccessfulTime"].is_string();
    cron_job_when(&client, "odd", ended).await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_job_made_by_hand_counts_in_the_history_and_nowhere_else() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let controller = start(&client, options()).await;
    let limit = json!({"successfulJobsHistoryLimit": 1, "concurrencyPolicy": "Forbid"});
    make(&client, &cron_job("c", &limit)).await;
    let made = cron_job_when(&client, "c", |_| true).await;
    let by_hand = |name: &str, duration: &str| {
        let mut job = indexed_job(name, 1, 1);
        job["metadata"]["annotations"] = json!({"cronjob.kubernetes.io/instantiate": "manual"});
        job["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "name": "c",
            "uid": made["metadata"]["uid"],
            "controller": true,
        }]);
        let annotation = json!({"sim.lakh.dev/duration": duration});
        job["spec"]["template"]["metadata"] = json!({"annotations": annotation});
        job
    };
    create(&client, &by_hand("long", "3000s")).await;
    reported(&client, "UnexpectedJob").await;
    // It does not delay runs that are due.
    create(&client, &by_hand("a-short", "10ms")).await;
    let ended = |seen: &Value| seen["status"]["lastSuccessfulTime"].is_string();
    assert_eq!(active(&cron_job_when(&client, "c", ended).await), 0);
    let_run(&client, "c").await;
    let ran = |seen: &Value| {
        let last = seen["status"]["lastScheduleTime"].as_str();
        last.is_some_and(|last| !last.starts_with("2020")) && active(seen) == 0
    };
    cron_job_when(&client, "c", ran).await;
    // One Complete Job is kept: the later one, or in the same second the one with the later name.
    let left = |all: &[Value]| {
        let gone = |job: &Value| job["metadata"]["name"] == "a-short";
        all.len() == 2 && !all.iter().any(gone)
    };
    jobs_when(&client, left).await;
    let long = job_when(&client, "long", |_| true).await;
    assert!(!is(&long, "Complete"));
    controller.stop().await;
    cluster.shutdown().await;
}

/// Another client takes a Job's name between the controller's read and its deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_job_that_has_just_taken_the_name_of_one_to_be_replaced_stays() {
    let cluster = cluster(Duration::from_secs(3000)).await;
    let client = client(&cluster).await;
    let server = cluster.url().trim_start_matches("http://").to_owned();
    let taken = Arc::new(AtomicBool::new(false));
    let take = Arc::clone(&taken);
    let proxy = Proxy::start(&cluster.url(), move |request| {
        let Some(name) = request.strip_prefix(&format!("DELETE {JOBS}/")) else {
            return Fate::Passed;
        };
        let name = name.split(' ').next().unwrap_or_default();
        if !take.swap(true, Ordering::SeqCst) {
            let address = server.parse().expect("an address");
            let send = |method: &str, path: &str, body: &Value| {
                let send = || http_send(address, method, path, &body.to_string());
                let answer = tokio::task::block_in_place(send).expect("it answers");
                assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
            };
            let background = json!({"propagationPolicy": "Background"});
            send("DELETE", &format!("{JOBS}/{name}"), &background);
            send("POST", JOBS, &indexed_job(name, 1, 1));
        }
        Fate::Passed
    })
    .await;
    let controller = support::controller_over(&proxy).await;
    let replace = json!({"concurrencyPolicy": "Replace"});
    make(&client, &cron_job("c", &replace)).await;
    let_run(&client, "c").await;
    let first = cron_job_when(&client, "c", |seen| active(seen) == 1).await;
    let name = |seen: &Value| seen["status"]["active"][0]["name"].clone();
    let uid = first["status"]["active"][0]["uid"].clone();
    patch(&client, "c", json!({"spec": {"schedule": "0 0 1 2 *"}})).await;
    let_run(&client, "c").await;
    let event = reported(&client, "FailedDelete").await;
    let message = event["message"].as_str().expect("a message");
    assert!(message.contains("the UID in the precondition"), "{message}");
    let next = |seen: &Value| active(seen) == 1 && name(seen) != name(&first);
    cron_job_when(&client, "c", next).await;
    assert!(taken.load(Ordering::SeqCst));
    let others = name(&first);
    let others = others.as_str().expect("a name");
    let stays = job_when(&client, others, |_| true).await;
    assert_ne!(stays["metadata"]["uid"], uid);
    assert_eq!(stays["metadata"].get("deletionTimestamp"), None);
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn each_is_looked_at_again_after_half_a_day() {
    let clock = Clock::default();
    let cluster = cluster_by(&clock, Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let by_clock = Options {
        clock: clock.clone(),
        ..options()
    };
    let controller = start(&client, by_clock).await;
    let never = json!({"schedule": "59 23 31 2 *", "suspend": false});
    make(&client, &cron_job("never", &never)).await;
    let told = |list: &Value| -> u64 {
        let events = listed(list).iter();
        let events = events.filter(|event| event["reason"] == "InvalidSchedule");
        events.filter_map(|event| event["count"].as_u64()).sum()
    };
    seen_when(&client, EVENTS, |list| told(list) == 1).await;
    let made = cron_job_when(&client, "never", |_| true).await;
    for times in [2, 3] {
        clock.move_on_to(clock.now().wall + Duration::from_secs(12 * 3600));
        seen_when(&client, EVENTS, |list| told(list) == times).await;
    }
    let seen = cron_job_when(&client, "never", |_| true).await;
    assert_eq!(seen, made, "there is nothing to write");
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_job_of_another_manager_ends_by_its_conditions() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let controller = start(&client, options()).await;
    let mut theirs = cron_job("theirs", &json!({}));
    theirs["spec"]["jobTemplate"]["spec"]["managedBy"] = "example.com/other".into();
    make(&client, &theirs).await;
    let_run(&client, "theirs").await;
    let seen = cron_job_when(&client, "theirs", |seen| active(seen) == 1).await;
    let name = seen["status"]["active"][0]["name"]
        .as_str()
        .expect("a name");
    let time = "2026-01-01T00:00:00Z";
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": time});
    let status = json!({"status": {
        "startTime": time,
        "completionTime": time,
        "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }});
    let path = format!("{JOBS}/{name}/status");
    let body = status.to_string().into_bytes();
    let patched = client.patch(&path, Patch::Merge, body).await;
    patched.expect("its manager may");
    let ended = |seen: &Value| active(seen) == 0 && seen["status"]["lastSuccessfulTime"] == time;
    cron_job_when(&client, "theirs", ended).await;
    controller.stop().await;
    cluster.shutdown().await;
}
