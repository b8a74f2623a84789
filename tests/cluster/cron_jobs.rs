//! Tests CronJobs on the embedded cluster over HTTP.
//!
//! No test waits for the next minute: server, hollow nodes and controller share a clock. A test moves it from one time
//! of a morning to the next, once the expected events until then have occurred. The tables check the schedule itself
//! (`tests/rules/cron_golden.rs`).

use std::time::Duration;

use lakh::{
    client::{Client, Patch},
    clock::Clock,
    embedded::EmbeddedCluster,
    model::Time,
    runtime::{Controller, ManagerName, Mode, Options},
};
use serde_json::{Value, json};

use crate::support::{self, client, cluster_by, get, is, listed, options, pods_when, seen_when};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Returns a time of a certain month, by its day.
fn at(day_and_time: &str) -> Time {
    Time::parse_rfc3339(&format!("2031-05-{day_and_time}:00Z")).expect("a time")
}

/// A cluster and its clock, which starts at ten past eight on the sixth.
struct Morning {
    clock: Clock,
    cluster: EmbeddedCluster,
    client: Client,
}

impl Morning {
    async fn new(pod_duration: Duration) -> Self {
        let clock = Clock::starting_at(at("06T08:10"));
        let cluster = cluster_by(&clock, pod_duration).await;
        let client = client(&cluster).await;
        Self {
            clock,
            cluster,
            client,
        }
    }

    async fn controller(&self) -> Controller {
        self.controller_in(Mode::Replace).await
    }

    async fn controller_in(&self, mode: Mode) -> Controller {
        let options = Options {
            clock: self.clock.clone(),
            mode,
            ..options()
        };
        Controller::start(self.client.clone(), options)
            .await
            .expect("nothing to listen on")
    }

    fn becomes(&self, day_and_time: &str) {
        self.clock.move_on_to(at(day_and_time));
    }

    async fn make(&self, object: &Value) {
        let body = object.to_string().into_bytes();
        let made = self.client.create(CRON_JOBS, body).await;
        made.expect("a good CronJob");
    }

    /// Changes the spec of a CronJob.
    async fn set(&self, name: &str, spec: Value) {
        let body = json!({ "spec": spec }).to_string().into_bytes();
        let path = format!("{CRON_JOBS}/{name}");
        let patched = self.client.patch(&path, Patch::Merge, body).await;
        patched.expect("it is taken");
    }

    async fn delete(&self, path: &str) {
        self.client.delete(path).await.expect("it is there");
    }

    async fn jobs_when(&self, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let list = seen_when(&self.client, JOBS, |list| holds(listed(list))).await;
        listed(&list).to_vec()
    }

    /// Waits until a CronJob has the Jobs of exactly these runs. Returns them.
    async fn runs_become(&self, name: &str, want: &[&str]) -> Vec<Value> {
        let all = self.jobs_when(|all| runs(all, name) == want).await;
        of(&all, name).cloned().collect()
    }

    async fn cron_job_when(&self, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        seen_when(&self.client, &format!("{CRON_JOBS}/{name}"), holds).await
    }

    /// Waits until a CronJob has no active Job, and its last run and last success are of this time.
    async fn rests_after(&self, name: &str, run: &str) {
        let status = |seen: &Value, field: &str| time(&seen["status"][field]);
        let rests = |seen: &Value| {
            let ended = status(seen, "lastSuccessfulTime") >= Some(at(run));
            ended && status(seen, "lastScheduleTime") == Some(at(run)) && active(seen).is_empty()
        };
        self.cron_job_when(name, rests).await;
    }

    async fn active_become(&self, name: &str, want: &[&str]) {
        let want: Vec<String> = want.iter().map(|run| job_name(name, run)).collect();
        self.cron_job_when(name, |seen| active(seen) == want).await;
    }

    /// Waits until this Event about a CronJob has this count.
    async fn reported(&self, name: &str, reason: &str, times: u64) {
        let about = |event: &&Value| {
            let object = &event["involvedObject"];
            event["reason"] == reason && object["kind"] == "CronJob" && object["name"] == name
        };
        let often = |list: &Value| -> u64 {
            let events = listed(list).iter().filter(about);
            let component = |event: &Value| event["source"]["component"].clone();
            events
                .inspect(|event| assert_eq!(component(event), "cronjob-controller"))
                .filter_map(|event| event["count"].as_u64())
                .sum()
        };
        seen_when(&self.client, EVENTS, |list| often(list) >= times).await;
    }

    async fn end(self, controller: Controller) {
        controller.stop().await;
        self.cluster.shutdown().await;
    }
}

/// Returns a CronJob that runs each hour.
fn cron_job(name: &str, spec: &Value) -> Value {
    let usual = json!({"schedule": "0 * * * *", "successfulJobsHistoryLimit": 9});
    support::cron_job(name, [&usual, spec])
}

fn of<'a>(all: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> {
    all.iter()
        .filter(move |job| job["metadata"]["labels"]["of"] == name)
}

/// Returns the times of a CronJob's Jobs, such as `06T09:00`.
fn runs<'a>(all: &'a [Value], name: &'a str) -> Vec<&'a str> {
    let run = |job: &'a Value| {
        let stamp = job["metadata"]["annotations"][TIMESTAMP].as_str();
        &stamp.expect("a time")["2031-05-".len()..][.."06T09:00".len()]
    };
    of(all, name).map(run).collect()
}

fn job_name(name: &str, run: &str) -> String {
    format!("{name}-{}", at(run).as_secs() / 60)
}

/// Returns the names of a CronJob's active Jobs.
fn active(cron_job: &Value) -> Vec<&str> {
    let list = cron_job["status"]["active"].as_array();
    let names = list.into_iter().flatten();
    names.filter_map(|job| job["name"].as_str()).collect()
}

fn time(value: &Value) -> Option<Time> {
    Time::parse_rfc3339(value.as_str()?)
}

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_run_starts_on_time_is_recorded_and_is_deleted_with_its_cron_job() {
    let morning = Morning::new(SHORT).await;
    let controller = morning.controller().await;
    let zone = json!({"schedule": "30 4 * * *", "timeZone": "America/New_York"});
    morning.make(&cron_job("early", &zone)).await;
    morning.becomes("06T08:30");
    morning.rests_after("early", "06T08:30").await;
    let all = morning.jobs_when(|all| all.len() == 1).await;
    let metadata = &all[0]["metadata"];
    assert_eq!(metadata["name"], job_name("early", "06T08:30"));
    assert_eq!(
        metadata["annotations"][TIMESTAMP],
        "2031-05-06T04:30:00-04:00"
    );
    assert_eq!(metadata["labels"]["of"], "early");
    let owner = &metadata["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["controller"]),
        (&json!("CronJob"), &json!(true))
    );
    morning.reported("early", "SuccessfulCreate", 1).await;
    morning.reported("early", "SawCompletedJob", 1).await;
    // The CronJob's Jobs and their Pods go with it.
    morning.delete(&format!("{CRON_JOBS}/early")).await;
    morning.jobs_when(<[Value]>::is_empty).await;
    pods_when(&morning.client, <[Value]>::is_empty).await;
    morning.end(controller).await;
}

#[tokio::test]
async fn allow_forbid_and_replace() {
    let morning = Morning::new(Duration::from_secs(90 * 60)).await;
    let controller = morning.controller().await;
    for policy in ["Allow", "Forbid", "Replace"] {
        let spec = json!({"concurrencyPolicy": policy});
        morning.make(&cron_job(&policy.to_lowercase(), &spec)).await;
    }
    let running = async |count: usize| {
        let runs = |pod: &Value| pod["status"]["phase"] == "Running";
        pods_when(&morning.client, |pods| {
            pods.len() >= count && pods.iter().filter(|pod| runs(pod)).count() == count
        })
        .await
    };
    morning.becomes("06T09:00");
    for name in ["allow", "forbid", "replace"] {
        morning.active_become(name, &["06T09:00"]).await;
    }
    running(3).await;
    morning.becomes("06T10:00");
    let both = ["06T09:00", "06T10:00"];
    morning.active_become("allow", &both).await;
    morning.reported("forbid", "JobAlreadyActive", 1).await;
    morning.active_become("forbid", &["06T09:00"]).await;
    morning.active_become("replace", &["06T10:00"]).await;
    morning.runs_become("replace", &["06T10:00"]).await;
    running(4).await;
    // The first ones end after an hour and a half. The forbidden run then starts late.
    morning.becomes("06T10:31");
    morning.active_become("allow", &["06T10:00"]).await;
    morning.active_become("forbid", &["06T10:00"]).await;
    let forbidden = morning.runs_become("forbid", &both).await;
    let first_ended = time(&forbidden[0]["status"]["completionTime"]);
    let second_made = time(&forbidden[1]["metadata"]["creationTimestamp"]);
    assert!(first_ended.is_some() && first_ended <= second_made);
    morning.active_become("replace", &["06T10:00"]).await;
    running(3).await;
    // It also starts when a client deletes the Job that blocks it.
    morning.becomes("06T11:00");
    morning.reported("forbid", "JobAlreadyActive", 2).await;
    let holds_up = job_name("forbid", "06T10:00");
    morning.delete(&format!("{JOBS}/{holds_up}")).await;
    morning.active_become("forbid", &["06T11:00"]).await;
    morning.reported("forbid", "MissingJob", 1).await;
    let all = ["06T09:00", "06T10:00", "06T11:00"];
    morning.active_become("allow", &all[1..]).await;
    morning.active_become("replace", &all[2..]).await;
    morning.runs_become("allow", &all).await;
    morning.runs_become("forbid", &[all[0], all[2]]).await;
    morning.runs_become("replace", &all[2..]).await;
    morning.end(controller).await;
}

#[tokio::test]
async fn suspended_for_two_hours_it_starts_the_latest_run_late_or_none() {
    let morning = Morning::new(SHORT).await;
    let controller = morning.controller().await;
    let deadline = json!({"startingDeadlineSeconds": 600});
    morning.make(&cron_job("plain", &json!({}))).await;
    morning.make(&cron_job("strict", &deadline)).await;
    morning.make(&cron_job("steady", &json!({}))).await;
    morning.becomes("06T09:00");
    for name in ["plain", "strict", "steady"] {
        morning.rests_after(name, "06T09:00").await;
    }
    let suspend = async |suspend: bool| {
        for name in ["plain", "strict"] {
            morning.set(name, json!({"suspend": suspend})).await;
        }
    };
    morning.becomes("06T09:20");
    suspend(true).await;
    for run in ["06T10:00", "06T11:00"] {
        morning.becomes(run);
        morning.rests_after("steady", run).await;
    }
    morning.becomes("06T11:20");
    suspend(false).await;
    morning.rests_after("plain", "06T11:00").await;
    morning.becomes("06T12:00");
    for name in ["plain", "strict", "steady"] {
        morning.rests_after(name, "06T12:00").await;
    }
    let all = morning.jobs_when(|_| true).await;
    assert_eq!(runs(&all, "plain"), ["06T09:00", "06T11:00", "06T12:00"]);
    assert_eq!(runs(&all, "strict"), ["06T09:00", "06T12:00"]);
    let steady = ["06T09:00", "06T10:00", "06T11:00", "06T12:00"];
    assert_eq!(runs(&all, "steady"), steady);
    morning.end(controller).await;
}

#[tokio::test]
async fn after_a_day_without_controller_one_run_starts_late_or_none() {
    let morning = Morning::new(SHORT).await;
    let daily = |deadline: Option<u32>| json!({"schedule": "0 9 * * *", "startingDeadlineSeconds": deadline});
    morning.make(&cron_job("daily", &daily(None))).await;
    morning
        .make(&cron_job("in-time", &daily(Some(10800))))
        .await;
    morning
        .make(&cron_job("too-late", &daily(Some(3600))))
        .await;
    morning.make(&cron_job("hourly", &json!({}))).await;
    let strict = json!({"startingDeadlineSeconds": 600});
    morning.make(&cron_job("strict", &strict)).await;
    let often = json!({"schedule": "*/10 * * * *"});
    morning.make(&cron_job("often", &often)).await;
    let controller = morning.controller().await;
    let all = ["daily", "in-time", "too-late", "hourly", "strict", "often"];
    morning.becomes("06T09:00");
    for name in all {
        morning.rests_after(name, "06T09:00").await;
    }
    controller.stop().await;
    morning.becomes("07T11:35");
    let controller = morning.controller().await;
    morning.rests_after("daily", "07T09:00").await;
    morning.rests_after("in-time", "07T09:00").await;
    morning.rests_after("hourly", "07T11:00").await;
    morning.rests_after("often", "07T11:30").await;
    morning.reported("often", "TooManyMissedTimes", 1).await;
    // A run that was too late waits for its next time.
    morning.becomes("07T12:00");
    for name in ["hourly", "strict", "often"] {
        morning.rests_after(name, "07T12:00").await;
    }
    morning.becomes("08T09:00");
    for name in all {
        morning.rests_after(name, "08T09:00").await;
    }
    let all = morning.jobs_when(|_| true).await;
    let with_late = |late: &'static str| vec!["06T09:00", late, "08T09:00"];
    assert_eq!(runs(&all, "daily"), with_late("07T09:00"));
    assert_eq!(runs(&all, "in-time"), with_late("07T09:00"));
    assert_eq!(runs(&all, "too-late"), ["06T09:00", "08T09:00"]);
    let hourly = ["06T09:00", "07T11:00", "07T12:00", "08T09:00"];
    assert_eq!(runs(&all, "hourly"), hourly);
    assert_eq!(runs(&all, "strict"), with_late("07T12:00"));
    let often = ["06T09:00", "07T11:30", "07T12:00", "08T09:00"];
    assert_eq!(runs(&all, "often"), often);
    morning.end(controller).await;
}

#[tokio::test]
async fn history_is_kept_short_and_ttl_takes_the_rest() {
    let morning = Morning::new(SHORT).await;
    let controller = morning.controller().await;
    let limits = json!({"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1});
    let mut kept = cron_job("kept", &limits);
    kept["spec"]["jobTemplate"]["spec"]["backoffLimit"] = 0.into();
    morning.make(&kept).await;
    let mut clean = cron_job("clean", &json!({"schedule": "30 * * * *"}));
    clean["spec"]["jobTemplate"]["spec"]["ttlSecondsAfterFinished"] = (2 * 3600).into();
    morning.make(&clean).await;
    for (clean, kept) in [("08:30", "09:00"), ("09:30", "10:00"), ("10:30", "11:00")] {
        for (name, time) in [("clean", clean), ("kept", kept)] {
            let run = format!("06T{time}");
            morning.becomes(&run);
            morning.rests_after(name, &run).await;
        }
    }
    // The oldest of three successful Jobs is gone, and so is the half-past run, by its TTL.
    let good = ["06T10:00", "06T11:00"];
    morning.runs_become("kept", &good).await;
    morning.reported("kept", "SuccessfulDelete", 1).await;
    morning
        .runs_become("clean", &["06T09:30", "06T10:30"])
        .await;
    pods_when(&morning.client, |pods| pods.len() == 4).await;
    let fails = json!({"metadata": {"annotations": {"sim.lakh.dev/exit-code": "1"}}});
    let template = json!({"spec": {"template": fails}});
    morning
        .set("kept", json!({ "jobTemplate": template }))
        .await;
    for run in ["06T12:00", "06T13:00"] {
        morning.becomes(run);
        let all = morning.runs_become("kept", &[good[0], good[1], run]).await;
        assert!(is(&all[0], "Complete") && is(&all[1], "Complete"));
        let failed = |all: &[Value]| of(all, "kept").any(|job| is(job, "Failed"));
        morning.jobs_when(failed).await;
    }
    morning.active_become("kept", &[]).await;
    let seen = morning.cron_job_when("kept", |_| true).await;
    let ended = time(&seen["status"]["lastSuccessfulTime"]);
    assert!((Some(at("06T11:00"))..Some(at("06T12:00"))).contains(&ended));
    morning.end(controller).await;
}

#[tokio::test]
async fn beside_the_built_in_controllers_only_cron_jobs_with_our_jobs_run() {
    let morning = Morning::new(SHORT).await;
    let own = "lakh.dev/job-controller";
    morning.make(&cron_job("theirs", &json!({}))).await;
    let mut ours = cron_job("ours", &json!({}));
    ours["spec"]["jobTemplate"]["spec"]["managedBy"] = own.into();
    morning.make(&ours).await;
    let name = ManagerName::parse(own).expect("a good name");
    let controller = morning.controller_in(Mode::ManagedBy(name)).await;
    for run in ["06T09:00", "06T10:00"] {
        morning.becomes(run);
        morning.rests_after("ours", run).await;
    }
    let all = morning.jobs_when(|_| true).await;
    assert_eq!(all.len(), 2, "{all:#?}");
    morning.end(controller).await;
}

/// `cargo test --release --test cluster -- --ignored --nocapture cron_jobs::`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn five_thousand_that_are_due_at_once_have_their_jobs_within_ten_seconds() {
    const COUNT: usize = 5000;
    let morning = Morning::new(Duration::from_secs(1)).await;
    let controller = morning.controller().await;
    for number in 0..COUNT {
        let mut object = cron_job(&format!("c-{number}"), &json!({}));
        if number % 100 == 0 {
            // Some are large: their Pods must not delay the small ones.
            object["spec"]["jobTemplate"]["spec"]["parallelism"] = 100.into();
            object["spec"]["jobTemplate"]["spec"]["completions"] = 100.into();
        }
        morning.make(&object).await;
    }
    let due = at("06T09:00");
    morning.clock.move_on_to(due);
    let count = async || {
        let list = get(&morning.client, &format!("{JOBS}?limit=1")).await;
        let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        listed(&list).len() + usize::try_from(more).expect("not so many")
    };
    let late = || morning.clock.now().wall.since(due);
    while count().await < COUNT {
        let late = late();
        assert!(late < Duration::from_secs(60), "{} Jobs", count().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let late = late();
    println!("{COUNT} Jobs: the last {:.1} s late", late.as_secs_f64());
    assert!(late < Duration::from_secs(10), "{late:?}");
    morning.end(controller).await;
}
