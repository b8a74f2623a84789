//! Tests the TTL of finished Jobs on the embedded cluster over HTTP.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lakh::{
    client::{Client, Patch},
    clock::Clock,
    model::Time,
    runtime::{Controller, Controllers, ManagerName, Mode, Options},
};
use serde_json::{Value, json};

use crate::support::{
    self, buckets, client, cluster, cluster_by, create, get, indexed_job, is, is_at_rest, job_when,
    listed, listening, metrics_when, options, pods_when,
    proxy::{Fate, Proxy, refusal},
    seen_when,
};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const HOUR: u32 = 3600;
const DAY: u32 = 24 * HOUR;

fn job(name: &str, ttl: u32) -> Value {
    let mut job = indexed_job(name, 2, 2);
    job["spec"]["ttlSecondsAfterFinished"] = ttl.into();
    job
}

async fn patch(client: &Client, name: &str, patch: Value) {
    let body = patch.to_string().into_bytes();
    let path = format!("{JOBS}/{name}");
    client
        .patch(&path, Patch::Merge, body)
        .await
        .expect("it is taken");
}

async fn set_ttl(client: &Client, name: &str, ttl: Option<u32>) {
    let spec = json!({"ttlSecondsAfterFinished": ttl});
    patch(client, name, json!({ "spec": spec })).await;
}

/// Waits until exactly these Jobs exist.
async fn names_become(client: &Client, want: &[&str]) {
    let name = |job: &Value| job["metadata"]["name"].as_str().map(str::to_owned);
    let names = |list: &Value| -> Vec<String> { listed(list).iter().filter_map(name).collect() };
    seen_when(client, JOBS, |list| names(list) == want).await;
}

async fn start(client: &Client, options: Options) -> Controller {
    Controller::start(client.clone(), options)
        .await
        .expect("nothing to listen on")
}

fn by(clock: &Clock) -> Options {
    Options {
        clock: clock.clone(),
        ..options()
    }
}

/// Moves the clock to this long after a Job's end.
fn pass(clock: &Clock, ended: &Value, secs: u32) {
    clock.move_on_to(end(ended) + Duration::from_secs(secs.into()));
}

fn end(job: &Value) -> Time {
    let text = job["status"]["completionTime"].as_str().expect("a time");
    Time::parse_rfc3339(text).expect("a time")
}

#[tokio::test]
async fn finished_jobs_go_with_their_pods_when_their_time_has_come() {
    let clock = Clock::default();
    let cluster = cluster_by(&clock, Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let controller = start(&client, by(&clock)).await;
    create(&client, &job("at-once", 0)).await;
    create(&client, &job("day", DAY)).await;
    create(&client, &job("hour", HOUR)).await;
    create(&client, &indexed_job("stays", 2, 2)).await;
    let mut last = json!(null);
    for name in ["day", "hour", "stays"] {
        last = job_when(&client, name, |job| is(job, "Complete")).await;
    }
    names_become(&client, &["day", "hour", "stays"]).await;
    pods_when(&client, |pods| pods.len() == 6).await;
    pass(&clock, &last, HOUR);
    names_become(&client, &["day", "stays"]).await;
    pods_when(&client, |pods| pods.len() == 4).await;
    pass(&clock, &last, DAY);
    names_become(&client, &["stays"]).await;
    pods_when(&client, |pods| pods.len() == 2).await;
    // A Job that gets a TTL after its end, or a shorter one while it waits, is deleted when that expires.
    set_ttl(&client, "stays", Some(3 * DAY)).await;
    pass(&clock, &last, 2 * DAY);
    create(&client, &job("sooner", 3 * DAY)).await;
    let sooner = job_when(&client, "sooner", |job| is(job, "Complete")).await;
    set_ttl(&client, "sooner", Some(HOUR)).await;
    pass(&clock, &sooner, HOUR);
    names_become(&client, &["stays"]).await;
    pass(&clock, &last, 3 * DAY);
    names_become(&client, &[]).await;
    pods_when(&client, <[Value]>::is_empty).await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_foreign_finalizer_keeps_the_job_and_a_raised_ttl_counts() {
    let clock = Clock::default();
    let cluster = cluster_by(&clock, Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let controller = start(&client, by(&clock)).await;
    let mut kept = job("kept", HOUR);
    kept["metadata"]["finalizers"] = json!(["example.com/mine"]);
    create(&client, &kept).await;
    create(&client, &job("raised", HOUR)).await;
    create(&client, &job("removed", HOUR)).await;
    let mut last = json!(null);
    for name in ["raised", "removed", "kept"] {
        last = job_when(&client, name, |job| is(job, "Complete")).await;
    }
    set_ttl(&client, "raised", Some(DAY)).await;
    set_ttl(&client, "removed", None).await;
    pass(&clock, &last, HOUR);
    let going = |job: &Value| job["metadata"]["deletionTimestamp"].is_string();
    let seen = job_when(&client, "kept", going).await;
    let deleted = seen["metadata"]["deletionTimestamp"].as_str();
    let deleted = deleted.and_then(Time::parse_rfc3339).expect("a time");
    assert!(deleted >= end(&seen) + Duration::from_secs(HOUR.into()));
    names_become(&client, &["kept", "raised", "removed"]).await;
    patch(&client, "kept", json!({"metadata": {"finalizers": null}})).await;
    names_become(&client, &["raised", "removed"]).await;
    pass(&clock, &last, DAY);
    names_become(&client, &["removed"]).await;
    pods_when(&client, |pods| pods.len() == 2).await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_new_controller_deletes_expired_jobs_of_its_own() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let jobs_only = Options {
        controllers: Controllers {
            ttl: false,
            ..Controllers::default()
        },
        ..options()
    };
    let controller = start(&client, jobs_only).await;
    create(&client, &job("found", 0)).await;
    job_when(&client, "found", |job| is(job, "Complete")).await;
    controller.stop().await;
    let own = "lakh.dev/job-controller";
    let beside = Options {
        mode: Mode::ManagedBy(ManagerName::parse(own).expect("a good name")),
        ..options()
    };
    let controller = start(&client, beside).await;
    let mut managed = job("managed", 0);
    managed["spec"]["managedBy"] = own.into();
    create(&client, &managed).await;
    names_become(&client, &["found"]).await;
    controller.stop().await;
    let ttl_only = Options {
        controllers: Controllers {
            job: false,
            ..Controllers::default()
        },
        ..options()
    };
    let controller = start(&client, ttl_only).await;
    create(&client, &job("nobody", 0)).await;
    names_become(&client, &["nobody"]).await;
    let nobody = get(&client, &format!("{JOBS}/nobody")).await;
    assert_eq!(nobody["status"], json!({}), "nobody runs it");
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_server_that_fails_is_asked_again() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let (looks, deletions) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (seen_looks, seen_deletions) = (Arc::clone(&looks), Arc::clone(&deletions));
    let proxy = Proxy::start(&cluster.url(), move |request| {
        if request.starts_with(&format!("GET {JOBS}/main ")) {
            return match looks.fetch_add(1, Ordering::SeqCst) {
                0 | 1 => Fate::Answered(refusal(500, "InternalError", "not now")),
                _ => Fate::Passed,
            };
        }
        if request.starts_with(&format!("DELETE {JOBS}/main ")) {
            return match deletions.fetch_add(1, Ordering::SeqCst) {
                0 => Fate::Answered(refusal(409, "Conflict", "it is another one")),
                1 => Fate::AnswerLost,
                _ => Fate::Passed,
            };
        }
        Fate::Passed
    })
    .await;
    let controller = support::controller_over(&proxy).await;
    create(&client, &job("main", 0)).await;
    names_become(&client, &[]).await;
    pods_when(&client, <[Value]>::is_empty).await;
    // Two refused reads, and one before each deletion.
    assert!(seen_looks.load(Ordering::SeqCst) >= 4);
    assert!(seen_deletions.load(Ordering::SeqCst) >= 2);
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_delay_is_measured_without_events() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let controller = start(&client, listening(options())).await;
    create(&client, &job("main", 0)).await;
    names_become(&client, &[]).await;
    let text = metrics_when(&controller, |text| is_at_rest(text, "ttl_jobs_to_delete")).await;
    let bounds: Vec<String> = (0..14)
        .map(|power| format!("{:?}", 0.1 * f64::from(1 << power)))
        .collect();
    let mut want: Vec<&str> = bounds.iter().map(String::as_str).collect();
    want.push("+Inf");
    let name = "ttl_after_finished_controller_job_deletion_duration_seconds";
    let buckets = buckets(&text, name);
    let told: Vec<&str> = buckets.iter().map(|(bound, _)| *bound).collect();
    assert_eq!(told, want);
    assert_eq!(buckets.last(), Some(&("+Inf", "1")));
    let events = get(&client, "/api/v1/namespaces/default/events").await;
    let events = events["items"].as_array().expect("a list");
    let of = |event: &Value| event["source"]["component"].as_str().map(str::to_owned);
    let told: BTreeSet<String> = events.iter().filter_map(of).collect();
    assert!(
        told.iter().all(|source| source == "job-controller"),
        "{told:?}"
    );
    controller.stop().await;
    cluster.shutdown().await;
}
