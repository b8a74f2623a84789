//! Tests which events queue a CronJob, and when.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use lakh_model::Severity;

use crate::{
    machine::CallId,
    metrics::Metrics,
    rate_limiter::{Limiter, Rate},
    shard::{
        events::Recorder,
        outbox::{Answered, Made},
    },
};

/// A morning in June.
const NOW: Now = Now::at(Time::from_secs(1_780_300_000));

/// CronJobs, with the outbox for their requests and Events.
struct Part {
    cron_jobs: CronJobs,
    outbox: Outbox,
    /// Name of the object of the last request.
    named: String,
    templates: Templates,
}

/// Creates the CronJobs with this many concurrent syncs.
fn part_with(concurrent: usize) -> Part {
    let backoff = Exponential {
        base: Duration::from_secs(1),
        max: Duration::from_secs(60),
    };
    let metrics = Arc::new(Metrics::default());
    let queue = metrics.queues.of(QUEUE);
    let recorder = Recorder::new(&Mode::Replace, Arc::clone(&metrics));
    let limiter = Arc::new(Limiter::new(Rate { qps: 0, burst: 0 }));
    let mut cron_jobs = CronJobs::new(Mode::Replace, backoff, concurrent, queue);
    cron_jobs.lead(true);
    Part {
        cron_jobs,
        templates: Templates::new(1 << 20, Arc::clone(&metrics)),
        outbox: Outbox::new(8, backoff.base, &limiter, recorder, metrics),
        named: String::new(),
    }
}

fn part() -> Part {
    part_with(8)
}

/// Returns the response to a write.
fn ack(uid: Uid, version: u64) -> Bytes {
    let metadata = json!({"uid": uid.to_string(), "resourceVersion": version.to_string()});
    json!({"metadata": metadata}).to_string().into()
}

fn key(name: &str) -> JobKey {
    JobKey {
        namespace: "d".into(),
        name: name.into(),
    }
}

fn uid(number: u32) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

/// Returns a version of a CronJob that runs at the beginning of each year.
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

/// Returns a Job with this owner.
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

impl Part {
    fn apply(&mut self, json: &str) {
        let decoded = decode_cron_job(json).expect("a good CronJob");
        let templates = &mut self.templates;
        self.cron_jobs
            .apply(decoded, &mut self.outbox, templates, NOW);
    }

    fn delete(&mut self, json: &str) {
        let decoded = decode_cron_job(json).expect("a good CronJob");
        self.cron_jobs
            .delete(&decoded.cron_job, &mut self.templates);
    }

    fn heard(&mut self, json: &str) -> Vec<String> {
        self.apply(json);
        self.have_turns()
    }

    /// Runs all due syncs, each ended at once. Returns the names of the CronJobs.
    fn have_turns(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        while let Some(key) = self.cron_jobs.queue.take(NOW) {
            names.push(key.name.to_string());
            self.cron_jobs.over(&key, Next::Nothing, NOW);
        }
        names
    }

    fn work(&mut self, now: Now) -> bool {
        self.cron_jobs
            .work(&mut self.outbox, &mut self.templates, now)
    }

    /// Returns the next request, Events excluded: its number and its purpose.
    fn sent(&mut self) -> Option<(CallId, String)> {
        let now = NOW.monotonic;
        loop {
            let unsent = &mut Vec::new();
            let request = self
                .outbox
                .poll_request(now, &mut |_| Made::Nothing, unsent)?;
            let (method, path) = (request.call.method, request.call.path);
            if !path.contains("/events") {
                let sent: Value = serde_json::from_slice(&request.call.body).unwrap_or_default();
                let last = path.trim_end_matches("/status").rsplit('/').next();
                let name = sent["metadata"]["name"].as_str().or(last);
                self.named = name.unwrap_or_default().to_owned();
                return Some((request.id, format!("{method} {path}")));
            }
        }
    }

    /// Expects this request, and responds with this UID and version.
    fn answers(&mut self, expected: &str, number: u32, version: u64) {
        let (id, call) = self.sent().expect("a call");
        assert_eq!(call, expected);
        let version = version.to_string();
        let metadata = json!({"name": self.named, "uid": uid(number), "resourceVersion": version});
        let body = Bytes::from(json!({"metadata": metadata}).to_string());
        self.answer_in(id, Ok(body), NOW);
    }

    /// Responds to a request.
    fn answer_in(&mut self, id: CallId, answer: CallResult, now: Now) {
        let answered = self.outbox.answered(id, answer, now.monotonic);
        let Some(Answered::Call(Caller::CronJob(key), result)) = answered else {
            panic!("the answer is for the CronJob");
        };
        let outbox = &mut self.outbox;
        let templates = &mut self.templates;
        self.cron_jobs.answer(&key, result, outbox, templates, now);
    }

    /// Returns the time of the first alarm.
    fn alarm(&self) -> Option<String> {
        let at = self.cron_jobs.queue.next_due().wall?;
        assert!(at > NOW.wall);
        assert_eq!(at.as_millis() % 1000, 100, "a tenth of a second late");
        Some(at.to_rfc3339())
    }

    fn children_of(&self, name: &str) -> usize {
        let children = &self.cron_jobs.known.children;
        children.get(&key(name)).map_or(0, BTreeMap::len)
    }

    /// Returns a cached CronJob.
    fn known(&self, name: &str) -> &CronJob {
        &self.cron_jobs.known.cron_jobs[&key(name)].cron_job
    }
}

#[test]
fn a_changed_schedule_or_zone_sets_an_alarm_for_the_next_run_and_no_more() {
    let changes = [
        (json!({"schedule": "30 7 1 3 *"}), "-03-01T07:30:00Z"),
        (json!({"timeZone": "Asia/Tokyo"}), "-12-31T15:00:00Z"),
        (
            json!({"schedule": "30 7 1 3 *", "startingDeadlineSeconds": 1}),
            "-03-01T07:30:00Z",
        ),
    ];
    for (change, due) in changes {
        let mut part = part();
        assert_eq!(part.heard(&cron_job("c", 1, 1, &json!({}))), ["c"]);
        assert_eq!(part.alarm(), None);
        assert!(part.heard(&cron_job("c", 1, 2, &change)).is_empty());
        let alarm = part.alarm().expect("an alarm");
        assert!(alarm.ends_with(due), "{alarm}");
        // Other changes cause a sync, and leave the alarm.
        let mut and_more = change.clone();
        and_more["suspend"] = true.into();
        assert_eq!(part.heard(&cron_job("c", 1, 3, &and_more)), ["c"]);
        assert_eq!(part.alarm(), Some(alarm));
    }
}

#[test]
fn a_later_run_does_not_put_off_the_alarm() {
    let mut part = part();
    let daily = json!({"schedule": "0 0 * * *"});
    part.heard(&cron_job("c", 1, 1, &json!({})));
    part.heard(&cron_job("c", 1, 2, &daily));
    let soon = part.cron_jobs.queue.next_due();
    let left = soon.left(NOW).expect("an alarm");
    assert!(left < Duration::from_secs(86_401));
    part.heard(&cron_job("c", 1, 3, &json!({})));
    assert_eq!(part.cron_jobs.queue.next_due(), soon);
}

#[test]
fn a_schedule_that_cannot_be_read_is_told_of_and_has_no_turn() {
    let mut part = part();
    part.heard(&cron_job("c", 1, 1, &json!({})));
    let bad = json!({"schedule": "foo"});
    assert!(part.heard(&cron_job("c", 1, 2, &bad)).is_empty());
    assert_eq!(part.cron_jobs.queue.next_due(), Timeout::default());
    let report = part.outbox.events.take_report().expect("a report");
    assert_eq!(report.severity, Severity::Warning);
    assert_eq!(report.reason, "UnParseableCronJobSchedule");
    assert_eq!(report.message, "unparseable schedule for cronjob: foo");
    assert!(part.outbox.events.is_empty());
    // Any other change causes a sync, which reports it, too.
    let bad = json!({"schedule": "foo", "suspend": false});
    assert_eq!(part.heard(&cron_job("c", 1, 3, &bad)), ["c"]);
}

#[test]
fn each_version_of_a_cron_job_is_looked_at_once() {
    let mut part = part();
    assert_eq!(part.heard(&cron_job("c", 1, 1, &json!({}))), ["c"]);
    assert!(part.heard(&cron_job("c", 1, 1, &json!({}))).is_empty());
    let suspended = cron_job("c", 1, 2, &json!({"suspend": true}));
    assert_eq!(part.heard(&suspended), ["c"]);
    assert!(part.heard(&cron_job("c", 1, 1, &json!({}))).is_empty());
    // A status that we wrote is in the cache before the watch shows it.
    let own = Uid::parse(&uid(1)).expect("a UID");
    let status = CronJobStatus {
        last_schedule: Some(Time::from_secs(7)),
        ..CronJobStatus::default()
    };
    let answer = Ok(ack(own, 3));
    part.cron_jobs
        .status_answered((&key("c"), own), status.clone(), 2, answer);
    let written = cron_job("c", 1, 3, &json!({"suspend": true}));
    assert!(part.heard(&written).is_empty());
    assert_eq!(part.known("c").status, status);
    // Another CronJob of the name is new, whatever the schedule of the previous one was.
    let other = cron_job("c", 2, 9, &json!({"schedule": "5 * * * *"}));
    assert_eq!(part.heard(&other), ["c"]);
    // Events of the previous one do not remove it.
    part.delete(&written);
    assert_eq!(part.known("c").resource_version, 9);
    part.delete(&other);
    assert!(part.cron_jobs.known.cron_jobs.is_empty());
}

#[test]
fn a_cron_job_has_a_turn_for_news_of_its_jobs() {
    let mut part = part();
    part.heard(&cron_job("c", 1, 1, &json!({})));
    part.heard(&cron_job("e", 2, 1, &json!({})));
    let none = json!({});
    let of_c = owner("CronJob", "c", 1);
    part.cron_jobs.job(&job(10, &none, &of_c));
    assert_eq!(part.have_turns(), ["c"]);
    // It counts until it is gone.
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    part.cron_jobs.job(&job(10, &going, &of_c));
    assert_eq!(part.have_turns(), ["c"]);
    assert_eq!(part.children_of("c"), 1);
    // It moves from one CronJob to another, so both are queued.
    part.cron_jobs
        .job(&job(10, &none, &owner("CronJob", "e", 2)));
    assert_eq!(part.have_turns(), ["c", "e"]);
    assert_eq!((part.children_of("c"), part.children_of("e")), (0, 1));
    part.cron_jobs
        .job_gone(Uid::parse(&uid(10)).expect("a UID"));
    assert_eq!(part.have_turns(), ["e"]);
    assert_eq!(part.children_of("e"), 0);
}

#[test]
fn jobs_of_others_are_no_news() {
    let mut part = part();
    part.heard(&cron_job("c", 1, 1, &json!({})));
    let none = json!({});
    part.cron_jobs
        .job(&job(10, &none, &owner("Workflow", "c", 1)));
    part.cron_jobs
        .job(&job(11, &none, &owner("CronJob", "other", 3)));
    let mut not_controller = owner("CronJob", "c", 1);
    not_controller["controller"] = false.into();
    part.cron_jobs.job(&job(12, &none, &not_controller));
    assert!(part.have_turns().is_empty());
    assert_eq!(part.children_of("c"), 0);
    // A Job of the previous CronJob of this name: part of a sync, but no reason for one.
    part.cron_jobs
        .job(&job(13, &none, &owner("CronJob", "c", 7)));
    assert!(part.have_turns().is_empty());
    assert_eq!(part.children_of("c"), 1);
    part.cron_jobs
        .job_gone(Uid::parse(&uid(13)).expect("a UID"));
    assert!(part.have_turns().is_empty());
}

#[test]
fn a_status_that_was_written_on_top_of_what_is_not_known_does_not_hide_it() {
    let mut part = part();
    let own = Uid::parse(&uid(1)).expect("a UID");
    let wrote = |part: &mut Part, on, version| {
        let (key, status) = (key("c"), CronJobStatus::default());
        let answer = Ok(ack(own, version));
        part.cron_jobs
            .status_answered((&key, own), status, on, answer);
    };
    let known = |part: &Part| {
        let cron_job = part.known("c");
        (cron_job.resource_version, cron_job.spec.suspend)
    };
    part.heard(&cron_job("c", 1, 5, &json!({})));
    wrote(&mut part, 5, 6);
    assert_eq!(known(&part), (6, false));
    // A GET has returned version 7, which suspends it; the watch has not shown it yet.
    wrote(&mut part, 7, 8);
    part.heard(&cron_job("c", 1, 7, &json!({"suspend": true})));
    assert_eq!(known(&part), (7, true));
}

const CREATE: &str = "POST /apis/batch/v1/namespaces/d/jobs";
const WRITE_STATUS: &str = "PATCH /apis/batch/v1/namespaces/d/cronjobs/c/status";

#[test]
fn a_turn_makes_its_calls_one_after_the_other() {
    let mut part = part();
    part.apply(&cron_job("c", 1, 1, &json!({"schedule": "* * * * *"})));
    assert!(part.work(NOW) && !part.work(NOW));
    part.answers(CREATE, 10, 2);
    part.answers(WRITE_STATUS, 1, 3);
    assert_eq!(part.sent(), None);
    assert!(part.cron_jobs.under_way.is_empty());
    // The written status is cached, and the next run has its alarm.
    let known = part.known("c");
    assert_eq!((known.resource_version, known.status.active.len()), (3, 1));
    assert!(part.alarm().is_some());
    assert!(part.have_turns().is_empty());
}

#[test]
fn a_turn_that_ends_after_all_was_forgotten_changes_nothing_of_who_came_after() {
    let mut part = part();
    part.apply(&cron_job("c", 1, 1, &json!({"schedule": "* * * * *"})));
    assert!(part.work(NOW));
    part.cron_jobs.forget(None, &mut part.templates);
    part.apply(&cron_job("c", 2, 9, &json!({})));
    assert!(!part.work(NOW), "its name is still at work");
    part.answers(CREATE, 10, 2);
    part.answers(WRITE_STATUS, 1, 10);
    let known = part.known("c");
    assert_eq!((known.resource_version, known.status.active.len()), (9, 0));
    assert_eq!(part.have_turns(), ["c"]);
}

#[test]
fn no_more_turns_are_under_way_than_may_be() {
    let mut part = part_with(1);
    let minutely = json!({"schedule": "* * * * *"});
    part.apply(&cron_job("c", 1, 1, &minutely));
    part.apply(&cron_job("e", 2, 1, &minutely));
    assert!(part.work(NOW) && !part.work(NOW));
    part.answers(CREATE, 10, 2);
    assert!(!part.work(NOW));
    part.answers(WRITE_STATUS, 1, 3);
    assert!(part.work(NOW) && !part.work(NOW));
    assert_eq!(part.cron_jobs.poll_timeout().wall, None);
}

#[test]
fn a_clock_that_is_set_back_leaves_out_no_run() {
    let (mut part, wait) = (part(), Duration::from_secs(60));
    part.cron_jobs.queue.add(key("c"));
    part.cron_jobs.queue.take(NOW).expect("it has its turn");
    part.cron_jobs
        .over(&key("c"), Next::At(NOW.wall + wait), NOW);
    let set_back = Now {
        wall: Time::from_secs(1_780_296_400),
        ..NOW
    };
    assert_eq!(part.cron_jobs.queue.take(set_back), None);
    let looked_at = part.cron_jobs.queue.take(set_back + wait);
    assert_eq!(looked_at, Some(key("c")));
}

#[test]
fn all_are_looked_at_twice_a_day() {
    let mut part = part();
    part.heard(&cron_job("c", 1, 1, &json!({})));
    assert!(!part.work(NOW));
    let later = NOW + RESYNC;
    let due = part.cron_jobs.poll_timeout();
    assert_eq!(due, later.monotonic.into());
    assert!(part.work(later) && !part.work(later));
}

#[test]
fn a_run_whose_status_was_refused_is_known_though_the_clock_goes_back_and_no_watch_tells() {
    let mut part = part();
    let alone = json!({"schedule": "0 * * * *", "concurrencyPolicy": "Forbid"});
    part.apply(&cron_job("c", 1, 1, &alone));
    assert!(part.work(NOW));
    let (id, call) = part.sent().expect("a call");
    assert_eq!(call, CREATE);
    let name = format!("c-{}", NOW.wall.as_secs() / 3600 * 60);
    let of_c = owner("CronJob", "c", 1);
    let made = json!({
        "metadata": {"name": name, "namespace": "d", "uid": uid(10), "resourceVersion": "2",
            "ownerReferences": [of_c]},
        "spec": {"template": {"spec": {}}},
    });
    part.answer_in(id, Ok(Bytes::from(made.to_string())), NOW);
    let unavailable = || Err(ApiError::from_response(503, b"", None));
    // Two statuses are refused. According to the clock there was no run yet by then.
    let mut now = NOW;
    for _ in 0..2 {
        let (id, call) = part.sent().expect("a call");
        assert_eq!(call, WRITE_STATUS);
        part.answer_in(id, unavailable(), now);
        now = Now {
            wall: Time::from_secs(1_780_296_500),
            monotonic: now.monotonic + Duration::from_secs(10),
        };
        assert!(part.work(now), "it is tried again");
        let look = "GET /apis/batch/v1/namespaces/d/cronjobs/c";
        let (id, call) = part.sent().expect("a call");
        assert_eq!(call, look);
        let found = cron_job("c", 1, 1, &alone);
        part.answer_in(id, Ok(Bytes::from(found)), now);
        let (id, call) = part.sent().expect("a call");
        assert_eq!(call, format!("GET {}/{name}", &CREATE[5..]));
        part.answer_in(id, Ok(Bytes::from(made.to_string())), now);
    }
    part.answers(WRITE_STATUS, 1, 3);
    assert_eq!(part.known("c").status.active.len(), 1);
    assert!(
        part.cron_jobs.known.cron_jobs[&key("c")]
            .forgotten
            .is_none()
    );
}

#[test]
fn a_standby_keeps_no_turns_of_cron_jobs() {
    let mut part = part();
    part.cron_jobs.lead(false);
    for number in 1..5 {
        let name = format!("c{number}");
        part.apply(&cron_job(&name, number, 1, &json!({})));
        let changed = cron_job(&name, number, 2, &json!({"schedule": "5 * * * *"}));
        part.apply(&changed);
        let of_it = owner("CronJob", &name, number);
        part.cron_jobs.job(&job(10 + number, &json!({}), &of_it));
        part.delete(&changed);
    }
    assert!(part.cron_jobs.queue.is_empty());
    assert_eq!(part.cron_jobs.queue.next_due(), Timeout::default());
    part.cron_jobs.lead(true);
    assert_eq!(part.heard(&cron_job("c", 1, 1, &json!({}))), ["c"]);
}

#[test]
fn the_template_of_a_run_is_read_where_it_is_not_kept() {
    let schedule = json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"completions": 7}}});
    let minute = NOW + Duration::from_secs(61);
    for other in [false, true] {
        let mut part = part();
        part.apply(&cron_job("c", 1, 1, &schedule));
        part.have_turns();
        part.templates.forget(Uid::from_u128(1));
        part.cron_jobs.mark(key("c"));
        assert!(part.work(minute));
        let (id, call) = part.sent().expect("a call");
        assert_eq!(call, "GET /apis/batch/v1/namespaces/d/cronjobs/c");
        let found = cron_job("c", if other { 2 } else { 1 }, 3, &schedule);
        part.answer_in(id, Ok(found.into()), minute);
        let next = part.sent().map(|(_, call)| call);
        assert_eq!(next.as_deref() == Some(CREATE), !other, "{next:?}");
        assert_eq!(part.templates.jobs_of(Uid::from_u128(1)).is_some(), !other);
    }
}

#[test]
fn a_cron_job_that_is_suspended_or_gone_takes_no_memory_for_its_template() {
    let mut part = part();
    let kept = |part: &mut Part| part.templates.jobs_of(Uid::from_u128(1)).is_some();
    part.apply(&cron_job("c", 1, 1, &json!({})));
    assert!(kept(&mut part));
    part.apply(&cron_job("c", 1, 2, &json!({"suspend": true})));
    assert!(!kept(&mut part));
    part.apply(&cron_job("c", 1, 3, &json!({})));
    assert!(kept(&mut part));
    part.delete(&cron_job("c", 1, 4, &json!({})));
    assert!(!kept(&mut part));
}
