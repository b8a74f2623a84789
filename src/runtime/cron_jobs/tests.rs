//! Which news give a CronJob a turn, and when.

use std::time::Duration;

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::*;
use crate::{
    model::{Severity, Time, Timeout},
    runtime::metrics::Metrics,
};

fn cron_jobs() -> CronJobs {
    let backoff = Exponential {
        base: Duration::from_secs(1),
        max: Duration::from_secs(60),
    };
    let (clock, metrics) = (Clock::default(), Arc::new(Metrics::new()));
    let queue = metrics.queues.of(QUEUE);
    let recorder = Recorder::new(&Mode::Replace, clock.clone(), metrics);
    CronJobs::new(Mode::Replace, backoff, clock, Arc::new(recorder), queue)
}

fn uid(number: u32) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

/// A CronJob that runs at the beginning of each year, in a version of it.
fn cron_job(name: &str, number: u32, version: u64, spec: &Value) -> String {
    let mut object = json!({
        "metadata": {
            "name": name,
            "namespace": "d",
            "uid": uid(number),
            "resourceVersion": version.to_string(),
            "creationTimestamp": "2020-06-01T00:00:00Z",
        },
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {}}},
    });
    for (field, value) in spec.as_object().expect("members") {
        object["spec"][field] = value.clone();
    }
    object.to_string()
}

/// A Job that has this owner.
fn job(number: u32, metadata: &Value, owner: &Value) -> DecodedJob {
    let mut object = json!({
        "metadata": {
            "name": format!("j{number}"),
            "namespace": "d",
            "uid": uid(number),
            "resourceVersion": "1",
            "ownerReferences": [owner],
        },
        "spec": {"template": {"spec": {}}},
    });
    for (field, value) in metadata.as_object().expect("members") {
        object["metadata"][field] = value.clone();
    }
    decode_job(&object.to_string()).expect("a good Job")
}

fn owner(kind: &str, name: &str, number: u32) -> Value {
    json!({"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": uid(number), "controller": true})
}

impl CronJobs {
    fn heard(&self, json: &str) -> Vec<String> {
        self.apply(json).expect("a good CronJob");
        self.have_turns()
    }

    /// Whose turn it is; it is over at once.
    fn have_turns(&self) -> Vec<String> {
        let mut names = Vec::new();
        while let Some(key) = self.turns.take().now_or_never() {
            names.push(key.name.to_string());
            self.turns.done(key, After::Over);
        }
        names
    }

    /// When the first alarm rings.
    fn alarm(&self) -> Option<String> {
        let at = self.turns.next_due().wall?;
        assert!(at > Clock::default().now().wall);
        assert_eq!(at.as_millis() % 1000, 100, "a tenth of a second late");
        Some(at.to_rfc3339())
    }

    fn children_of(&self, name: &str) -> usize {
        let key = JobKey {
            namespace: "d".into(),
            name: name.into(),
        };
        self.known
            .lock()
            .children
            .get(&key)
            .map_or(0, BTreeMap::len)
    }
}

#[tokio::test]
async fn a_changed_schedule_or_zone_sets_an_alarm_for_the_next_run_and_no_more() {
    let changes = [
        (json!({"schedule": "30 7 1 3 *"}), "-03-01T07:30:00Z"),
        (json!({"timeZone": "Asia/Tokyo"}), "-12-31T15:00:00Z"),
        (
            json!({"schedule": "30 7 1 3 *", "startingDeadlineSeconds": 1}),
            "-03-01T07:30:00Z",
        ),
    ];
    for (change, due) in changes {
        let cron_jobs = cron_jobs();
        assert_eq!(cron_jobs.heard(&cron_job("c", 1, 1, &json!({}))), ["c"]);
        assert_eq!(cron_jobs.alarm(), None);
        assert!(cron_jobs.heard(&cron_job("c", 1, 2, &change)).is_empty());
        let alarm = cron_jobs.alarm().expect("an alarm");
        assert!(alarm.ends_with(due), "{alarm}");
        // Other news are looked at, and leave the alarm.
        let mut and_more = change.clone();
        and_more["suspend"] = true.into();
        assert_eq!(cron_jobs.heard(&cron_job("c", 1, 3, &and_more)), ["c"]);
        assert_eq!(cron_jobs.alarm(), Some(alarm));
    }
}

#[tokio::test]
async fn a_later_run_does_not_put_off_the_alarm() {
    let cron_jobs = cron_jobs();
    let daily = json!({"schedule": "0 0 * * *"});
    cron_jobs.heard(&cron_job("c", 1, 1, &json!({})));
    cron_jobs.heard(&cron_job("c", 1, 2, &daily));
    let soon = cron_jobs.turns.next_due().wall.expect("an alarm");
    assert!(soon.since(Clock::default().now().wall) < Duration::from_secs(86_401));
    cron_jobs.heard(&cron_job("c", 1, 3, &json!({})));
    assert_eq!(cron_jobs.turns.next_due(), soon.into());
}

#[test]
fn a_schedule_that_cannot_be_read_is_told_of_and_has_no_turn() {
    let cron_jobs = cron_jobs();
    cron_jobs.heard(&cron_job("c", 1, 1, &json!({})));
    let bad = json!({"schedule": "foo"});
    assert!(cron_jobs.heard(&cron_job("c", 1, 2, &bad)).is_empty());
    assert_eq!(cron_jobs.turns.next_due(), Timeout::default());
    let report = cron_jobs.recorder.take_report().expect("a report");
    assert_eq!(report.severity, Severity::Warning);
    assert_eq!(report.reason, "UnParseableCronJobSchedule");
    assert_eq!(report.message, "unparseable schedule for cronjob: foo");
    assert!(cron_jobs.recorder.is_empty());
    // Anything else that happens is a look, which tells of it, too.
    let bad = json!({"schedule": "foo", "suspend": false});
    assert_eq!(cron_jobs.heard(&cron_job("c", 1, 3, &bad)), ["c"]);
}

#[test]
fn each_version_of_a_cron_job_is_looked_at_once() {
    let cron_jobs = cron_jobs();
    assert_eq!(cron_jobs.heard(&cron_job("c", 1, 1, &json!({}))), ["c"]);
    assert!(cron_jobs.heard(&cron_job("c", 1, 1, &json!({}))).is_empty());
    let suspended = cron_job("c", 1, 2, &json!({"suspend": true}));
    assert_eq!(cron_jobs.heard(&suspended), ["c"]);
    assert!(cron_jobs.heard(&cron_job("c", 1, 1, &json!({}))).is_empty());
    // A status that was written here is known before the watch tells of it.
    let key = JobKey {
        namespace: "d".into(),
        name: "c".into(),
    };
    let own = Uid::parse(&uid(1)).expect("a UID");
    let status = CronJobStatus {
        last_schedule: Some(Time::from_secs(7)),
        ..CronJobStatus::default()
    };
    cron_jobs.status_written((&key, own), status.clone(), (2, 3));
    let written = cron_job("c", 1, 3, &json!({"suspend": true}));
    assert!(cron_jobs.heard(&written).is_empty());
    let cell = cron_jobs.known.lock().cron_jobs[&key].clone();
    assert_eq!(cell.decoded.cron_job.status, status);
    // Another CronJob of the name is news, whatever its schedule was.
    let other = cron_job("c", 2, 9, &json!({"schedule": "5 * * * *"}));
    assert_eq!(cron_jobs.heard(&other), ["c"]);
    // News of the one that was do not take it away.
    cron_jobs.delete(&written).expect("a good CronJob");
    assert!(cron_jobs.known.lock().cron_jobs.contains_key(&key));
    cron_jobs.delete(&other).expect("a good CronJob");
    assert!(cron_jobs.known.lock().cron_jobs.is_empty());
}

#[test]
fn a_cron_job_has_a_turn_for_news_of_its_jobs() {
    let cron_jobs = cron_jobs();
    cron_jobs.heard(&cron_job("c", 1, 1, &json!({})));
    cron_jobs.heard(&cron_job("e", 2, 1, &json!({})));
    let none = json!({});
    let of_c = owner("CronJob", "c", 1);
    cron_jobs.job(&job(10, &none, &of_c));
    assert_eq!(cron_jobs.have_turns(), ["c"]);
    // It is there until it is gone.
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    cron_jobs.job(&job(10, &going, &of_c));
    assert_eq!(cron_jobs.have_turns(), ["c"]);
    assert_eq!(cron_jobs.children_of("c"), 1);
    // From one CronJob to another: both have news.
    cron_jobs.job(&job(10, &none, &owner("CronJob", "e", 2)));
    assert_eq!(cron_jobs.have_turns(), ["c", "e"]);
    assert_eq!(
        (cron_jobs.children_of("c"), cron_jobs.children_of("e")),
        (0, 1)
    );
    cron_jobs.job_gone(Uid::parse(&uid(10)).expect("a UID"));
    assert_eq!(cron_jobs.have_turns(), ["e"]);
    assert_eq!(cron_jobs.children_of("e"), 0);
}

#[test]
fn jobs_of_others_are_no_news() {
    let cron_jobs = cron_jobs();
    cron_jobs.heard(&cron_job("c", 1, 1, &json!({})));
    let none = json!({});
    cron_jobs.job(&job(10, &none, &owner("Workflow", "c", 1)));
    cron_jobs.job(&job(11, &none, &owner("CronJob", "other", 3)));
    let mut not_controller = owner("CronJob", "c", 1);
    not_controller["controller"] = false.into();
    cron_jobs.job(&job(12, &none, &not_controller));
    assert!(cron_jobs.have_turns().is_empty());
    assert_eq!(cron_jobs.children_of("c"), 0);
    // A Job of the CronJob that had the name before: seen when there is a look, but no reason for one.
    cron_jobs.job(&job(13, &none, &owner("CronJob", "c", 7)));
    assert!(cron_jobs.have_turns().is_empty());
    assert_eq!(cron_jobs.children_of("c"), 1);
    cron_jobs.job_gone(Uid::parse(&uid(13)).expect("a UID"));
    assert!(cron_jobs.have_turns().is_empty());
}

#[test]
fn a_status_that_was_written_on_top_of_what_is_not_known_does_not_hide_it() {
    let cron_jobs = cron_jobs();
    let key = JobKey {
        namespace: "d".into(),
        name: "c".into(),
    };
    let own = Uid::parse(&uid(1)).expect("a UID");
    let known = || {
        let known = cron_jobs.known.lock();
        let cron_job = &known.cron_jobs[&key].decoded.cron_job;
        (cron_job.resource_version, cron_job.spec.suspend)
    };
    let wrote = |on, version| {
        cron_jobs.status_written((&key, own), CronJobStatus::default(), (on, version));
    };
    cron_jobs.heard(&cron_job("c", 1, 5, &json!({})));
    wrote(5, 6);
    assert_eq!(known(), (6, false));
    // A live look has shown version 7, which suspends it; the watch has not told of that yet.
    wrote(7, 8);
    cron_jobs.heard(&cron_job("c", 1, 7, &json!({"suspend": true})));
    assert_eq!(known(), (7, true));
}
