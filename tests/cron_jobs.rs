//! CronJobs on the embedded cluster, over HTTP.
//!
//! Nobody waits for the next minute here: a CronJob is told that its latest run was long ago, so that a
//! run is due now. What is due when, the tables say (`cron_golden.rs`).

#![cfg(feature = "runtime")]

mod support;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use lakh::{
    cluster::{Client, Patch},
    runtime::{Controller, ManagerName, Mode, Options},
};
use serde_json::{Value, json};
use support::{
    client, cluster, create, get, http_get, indexed_job, is, job_when, options, pods_when,
    proxy::{Fate, Proxy, refusal},
};

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

/// The reasons of all Events on CronJobs.
async fn reasons(client: &Client) -> BTreeSet<String> {
    let list = get(client, EVENTS).await;
    let events = list["items"].as_array().expect("a list");
    let on_cron_jobs = events
        .iter()
        .filter(|event| event["involvedObject"]["kind"] == "CronJob");
    let reasons = on_cron_jobs.filter_map(|event| event["reason"].as_str());
    reasons.map(str::to_owned).collect()
}

/// An Event on a CronJob, once there is one with this reason.
async fn reported(client: &Client, reason: &str) -> Value {
    let started = Instant::now();
    loop {
        let list = get(client, EVENTS).await;
        let events = list["items"].as_array().expect("a list");
        let told = |event: &&Value| {
            event["reason"] == reason && event["involvedObject"]["kind"] == "CronJob"
        };
        if let Some(event) = events.iter().find(told) {
            assert_eq!(event["source"]["component"], "cronjob-controller");
            assert_eq!(event["reportingComponent"], "cronjob-controller");
            return event.clone();
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
    let told: Vec<String> = reasons(&client).await.into_iter().collect();
    assert_eq!(
        told,
        ["SawCompletedJob", "SuccessfulCreate"],
        "no surprises"
    );
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
    let listening = Options {
        listen: Some(([127, 0, 0, 1], 0).into()),
        ..options()
    };
    let controller = start(&client, listening).await;
    make(&client, &cron_job("late", &json!({}))).await;
    let_run(&client, "late").await;
    let ended = |seen: &Value| seen["status"]["lastSuccessfulTime"].is_string();
    cron_job_when(&client, "late", ended).await;
    let address = controller.listening().expect("it listens");
    let text = http_get(address, "/metrics").expect("it answers");
    let name = "cronjob_controller_job_creation_skew_duration_seconds";
    assert!(
        text.contains(&format!("# TYPE {name} histogram\n")),
        "{text}"
    );
    let buckets = text.lines().filter_map(|line| {
        let line = line.strip_prefix(&format!("{name}_bucket{{le=\""))?;
        line.split_once("\"} ")
    });
    // The run was due at the beginning of the year.
    let mut want: Vec<(String, &str)> = (0..10)
        .map(|power| (format!("{}.0", 1 << power), "0"))
        .collect();
    want.push(("+Inf".to_owned(), "1"));
    let buckets: Vec<(String, &str)> = buckets
        .map(|(bound, count)| (bound.to_owned(), count))
        .collect();
    assert_eq!(buckets, want);
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
    // The server takes such a template; what is made of it, it does not.
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
    // It does not hold up what is due.
    create(&client, &by_hand("a-short", "10ms")).await;
    let ended = |seen: &Value| seen["status"]["lastSuccessfulTime"].is_string();
    assert_eq!(active(&cron_job_when(&client, "c", ended).await), 0);
    let_run(&client, "c").await;
    let ran = |seen: &Value| {
        let last = seen["status"]["lastScheduleTime"].as_str();
        last.is_some_and(|last| !last.starts_with("2020")) && active(seen) == 0
    };
    cron_job_when(&client, "c", ran).await;
    // Of those that are Complete one is kept: the later one, or of the same second the later name.
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
