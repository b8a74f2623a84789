//! CronJobs on the embedded cluster, over HTTP.
//!
//! Nobody waits for the next minute here: a CronJob is told that its latest run was long ago, so that a
//! run is due now. What is due when, the tables say (`cron_golden.rs`).

#![cfg(feature = "runtime")]

mod support;

use std::time::{Duration, Instant};

use lakh::{
    cluster::{Client, Patch},
    runtime::{Controller, ManagerName, Mode, Options},
};
use serde_json::{Value, json};
use support::{client, cluster, get, is, options, pods_when};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// A suspended CronJob: its latest run was due at the beginning of the year, if `last` is of a year ago.
fn cron_job(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {
            "schedule": "0 0 1 1 *",
            "suspend": true,
            "jobTemplate": {
                "metadata": {"labels": {"of": name}},
                "spec": {"template": {"spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox"}],
                }}},
            },
        },
    });
    for (field, value) in spec.as_object().expect("members") {
        object["spec"][field] = value.clone();
    }
    object
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

/// Tells a CronJob that it ran long ago, and lets it run.
async fn let_run(client: &Client, name: &str) {
    let status = json!({"status": {"lastScheduleTime": "2020-06-01T00:00:00Z"}});
    patch(client, &format!("{name}/status"), status).await;
    patch(client, name, json!({"spec": {"suspend": false}})).await;
}

/// Makes another run due, a month later in the year than the last one.
async fn let_run_again(client: &Client, name: &str) {
    patch(client, name, json!({"spec": {"schedule": "0 0 1 2 *"}})).await;
    // The change by itself only sets an alarm for the next run; any other news is a look.
    patch(
        client,
        name,
        json!({"metadata": {"labels": {"look": "now"}}}),
    )
    .await;
}

async fn jobs(client: &Client) -> Vec<Value> {
    let list = get(client, JOBS).await;
    list["items"].as_array().cloned().expect("a list")
}

async fn jobs_when(client: &Client, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let started = Instant::now();
    loop {
        let all = jobs(client).await;
        if holds(&all) {
            return all;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "waited for 60 s: {all:#?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn cron_job_when(client: &Client, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let seen = get(client, &format!("{CRON_JOBS}/{name}")).await;
        if holds(&seen) {
            return seen;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "waited for 60 s: {seen:#}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn reported(client: &Client, reason: &str) {
    let started = Instant::now();
    loop {
        let list = get(client, EVENTS).await;
        let events = list["items"].as_array().expect("a list");
        let told = |event: &&Value| {
            event["reason"] == reason && event["involvedObject"]["kind"] == "CronJob"
        };
        if let Some(event) = events.iter().find(told) {
            assert_eq!(event["source"]["component"], "cronjob-controller");
            return;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{reason}: {events:#?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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
async fn a_late_run_starts_once_and_is_told_of() {
    let cluster = cluster(Duration::from_millis(100)).await;
    let client = client(&cluster).await;
    make(
        &client,
        &cron_job("late", &json!({"timeZone": "America/New_York"})),
    )
    .await;
    make(
        &client,
        &cron_job("too-late", &json!({"startingDeadlineSeconds": 60})),
    )
    .await;
    make(&client, &cron_job("suspended", &json!({}))).await;
    for name in ["late", "too-late"] {
        let_run(&client, name).await;
    }
    let controller = start(&client, options()).await;
    let ended = |job: &Value| job["status"]["lastSuccessfulTime"].is_string() && active(job) == 0;
    let seen = cron_job_when(&client, "late", ended).await;
    let all = jobs(&client).await;
    assert_eq!(all.len(), 1, "{all:#?}");
    let last = seen["status"]["lastScheduleTime"].as_str().expect("a time");
    assert!(last.ends_with("-01-01T05:00:00Z"), "{last}");
    let metadata = &all[0]["metadata"];
    let stamp = &metadata["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert!(
        stamp
            .as_str()
            .expect("a time")
            .ends_with("-01-01T00:00:00-05:00"),
        "{stamp}"
    );
    assert_eq!(metadata["labels"]["of"], "late");
    let owner = &metadata["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["controller"]),
        (&json!("CronJob"), &json!(true))
    );
    reported(&client, "SuccessfulCreate").await;
    reported(&client, "SawCompletedJob").await;
    // With the CronJob go its Jobs and their Pods.
    client
        .delete(&format!("{CRON_JOBS}/late"))
        .await
        .expect("it is there");
    jobs_when(&client, <[Value]>::is_empty).await;
    pods_when(&client, <[Value]>::is_empty).await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn allow_forbid_and_replace() {
    let cluster = cluster(Duration::from_secs(3000)).await;
    let client = client(&cluster).await;
    let controller = start(&client, options()).await;
    for policy in ["Allow", "Forbid", "Replace"] {
        let name = policy.to_lowercase();
        make(
            &client,
            &cron_job(&name, &json!({"concurrencyPolicy": policy})),
        )
        .await;
        let_run(&client, &name).await;
        cron_job_when(&client, &name, |seen| active(seen) == 1).await;
    }
    let first = cron_job_when(&client, "replace", |_| true).await;
    for name in ["allow", "forbid", "replace"] {
        let_run_again(&client, name).await;
    }
    cron_job_when(&client, "allow", |seen| active(seen) == 2).await;
    reported(&client, "JobAlreadyActive").await;
    let replaced = |seen: &Value| seen["status"]["active"] != first["status"]["active"];
    let second = cron_job_when(&client, "replace", replaced).await;
    assert_eq!(active(&second), 1);
    let of = |all: &[Value], name: &str| {
        let of = |job: &&Value| job["metadata"]["labels"]["of"] == name;
        all.iter().filter(of).count()
    };
    let all = jobs_when(&client, |all| of(all, "replace") == 1).await;
    assert_eq!((of(&all, "allow"), of(&all, "forbid")), (2, 1));
    // Once the Job is gone, the run that was due starts late.
    let forbidden = cron_job_when(&client, "forbid", |seen| active(seen) == 1).await;
    let name = forbidden["status"]["active"][0]["name"]
        .as_str()
        .expect("a name");
    client
        .delete(&format!("{JOBS}/{name}"))
        .await
        .expect("it is there");
    let next = |seen: &Value| active(seen) == 1 && seen["status"]["active"][0]["name"] != name;
    cron_job_when(&client, "forbid", next).await;
    reported(&client, "MissingJob").await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn history_is_kept_short_and_ttl_takes_the_rest() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let controller = start(&client, options()).await;
    make(
        &client,
        &cron_job("one", &json!({"successfulJobsHistoryLimit": 1})),
    )
    .await;
    let mut clean = cron_job("clean", &json!({}));
    clean["spec"]["jobTemplate"]["spec"]["ttlSecondsAfterFinished"] = 0.into();
    make(&client, &clean).await;
    for name in ["one", "clean"] {
        let_run(&client, name).await;
        let ended = |seen: &Value| seen["status"]["lastSuccessfulTime"].is_string();
        cron_job_when(&client, name, ended).await;
    }
    let first = jobs_when(&client, |all| all.len() == 1 && is(&all[0], "Complete")).await;
    let_run_again(&client, "one").await;
    let name = |job: &Value| job["metadata"]["name"].clone();
    let second = |all: &[Value]| {
        all.len() == 1 && is(&all[0], "Complete") && name(&all[0]) != name(&first[0])
    };
    jobs_when(&client, second).await;
    pods_when(&client, |pods| pods.len() == 1).await;
    reported(&client, "SuccessfulDelete").await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn beside_the_built_in_controllers_only_what_makes_jobs_for_us_runs() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let own = "lakh.dev/job-controller";
    make(&client, &cron_job("theirs", &json!({}))).await;
    let mut ours = cron_job("ours", &json!({}));
    ours["spec"]["jobTemplate"]["spec"]["managedBy"] = own.into();
    make(&client, &ours).await;
    for name in ["theirs", "ours"] {
        let_run(&client, name).await;
    }
    let beside = Options {
        mode: Mode::ManagedBy(ManagerName::parse(own).expect("a good name")),
        ..options()
    };
    let controller = start(&client, beside).await;
    let ended = |seen: &Value| seen["status"]["lastSuccessfulTime"].is_string();
    cron_job_when(&client, "ours", ended).await;
    assert_eq!(jobs(&client).await.len(), 1);
    controller.stop().await;
    cluster.shutdown().await;
}

/// Takes a minute or two: `cargo test --release --test cron_jobs -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits for a minute to come"]
async fn five_thousand_that_are_due_at_once_have_their_jobs_within_ten_seconds() {
    const COUNT: usize = 5000;
    let cluster = cluster(Duration::from_secs(1)).await;
    let client = client(&cluster).await;
    let controller = start(&client, options()).await;
    let since_epoch = || {
        let now = std::time::SystemTime::now();
        now.duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
    };
    // Time enough to make all of them.
    let due = (since_epoch().as_secs() / 60 + 2) * 60;
    let schedule = format!("{} {} * * *", due / 60 % 60, due / 3600 % 24);
    for number in 0..COUNT {
        let spec = json!({"schedule": schedule, "suspend": false});
        let mut object = cron_job(&format!("c-{number}"), &spec);
        if number % 100 == 0 {
            // Some are big: their Pods must not hold up the small ones.
            object["spec"]["jobTemplate"]["spec"]["parallelism"] = 100.into();
            object["spec"]["jobTemplate"]["spec"]["completions"] = 100.into();
        }
        make(&client, &object).await;
    }
    let early = jobs(&client).await.len();
    assert_eq!(early, 0, "it took too long to make them");
    while since_epoch().as_secs() < due {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let count = async || {
        let list = get(&client, &format!("{JOBS}?limit=1")).await;
        let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        let first = list["items"].as_array().map_or(0, Vec::len);
        first + usize::try_from(more).expect("not so many")
    };
    while count().await < COUNT {
        assert!(since_epoch().as_secs() < due + 60, "{} Jobs", count().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let late = since_epoch() - Duration::from_secs(due);
    println!(
        "{COUNT} Jobs: the last {:.1} s after the minute",
        late.as_secs_f64()
    );
    assert!(late < Duration::from_secs(10), "{late:?}");
    controller.stop().await;
    cluster.shutdown().await;
}
