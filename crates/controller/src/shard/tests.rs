//! Tests the requests of a shard one by one, and its handling of unexpected responses.

use std::{
    collections::{BTreeSet, VecDeque},
    iter,
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use lakh_model::{JobKey, TRACKING_FINALIZER, Time, Uid};
use lakh_wire::{ApiError, Object, PodDecoder, decode_cron_job, decode_job};

use crate::informer::{Change, Extent, Kind, News, Notice, Observed};

mod templates;

const JOB: u128 = 1;

pub(super) const POST_POD: &str = "POST /api/v1/namespaces/d/pods";

const STATUS: &str = "PATCH /apis/batch/v1/namespaces/d/jobs/j/status";

const LOOK: &str = "GET /apis/batch/v1/namespaces/d/jobs/j";

const LIST: &str = "GET /api/v1/namespaces/d/pods?labelSelector=";

const REMOVAL: &str = "PATCH /api/v1/namespaces/d/pods/p";

/// A request of the shard.
#[derive(Debug)]
pub(super) struct Asked {
    id: CallId,
    /// Method and path.
    what: String,
    body: Value,
}

pub(super) struct World {
    pub(super) shard: Shard,
    pub(super) now: Now,
    version: u64,
    uids: u128,
}

fn extent(kind: Kind) -> Extent {
    Extent {
        kind,
        namespace: None,
    }
}

fn uid(number: u128) -> String {
    Uid::from_u128(number).to_string()
}

fn refusal(code: u16, reason: &str, message: &str) -> Result<Bytes, ApiError> {
    let status = json!({"kind": "Status", "code": code, "reason": reason, "message": message});
    let body = status.to_string();
    Err(ApiError::from_response(code, body.as_bytes(), None))
}

fn body(object: &Value) -> Result<Bytes, ApiError> {
    Ok(object.to_string().into())
}

/// Returns an object with the Job's UID replaced by that of another Job.
fn of_job(number: u128, object: &Value) -> Value {
    let text = object.to_string().replace(&uid(JOB), &uid(1_000 * number));
    let text = text.replace("\"j\"", &format!("\"j{number}\""));
    serde_json::from_str(&text).expect("JSON")
}

/// Returns the Job with these fields in its spec.
pub(super) fn job(version: u64, spec: &Value) -> Value {
    let labels = json!({"batch.kubernetes.io/controller-uid": uid(JOB)});
    let mut job = json!({
        "metadata": {"name": "j", "namespace": "d", "uid": uid(JOB), "generation": version,
            "resourceVersion": version.to_string()},
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never"}}},
        "status": {},
    });
    for (field, value) in spec.as_object().expect("members") {
        job["spec"][field] = value.clone();
    }
    job
}

/// Returns a Pod of the Job.
pub(super) fn pod(name: &str, number: u128, version: u64, phase: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "d", "uid": uid(number), "resourceVersion": version.to_string(),
            "labels": {"batch.kubernetes.io/controller-uid": uid(JOB)},
            "finalizers": [TRACKING_FINALIZER],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j",
                "uid": uid(JOB), "controller": true}],
        },
        "spec": {}, "status": {"phase": phase},
    })
}

impl World {
    /// Creates a world with this maximum of writes in flight.
    fn new(max_in_flight: usize) -> Self {
        Self::with(Settings::of_jobs(max_in_flight))
    }

    pub(super) fn with(settings: Settings) -> Self {
        let limiter = Arc::new(Limiter::new(Rate { qps: 0, burst: 0 }));
        let mut shard = Shard::new(settings, &limiter, Arc::new(Metrics::default()));
        for kind in [Kind::Job, Kind::Pod] {
            shard.notice(&Notice::Complete(extent(kind), 1));
        }
        shard.notice(&Notice::History {
            number: 0,
            known: Kinds::ALL,
            is_heard: true,
            round: 0,
            listed: Kinds::ALL,
        });
        Self {
            shard,
            now: Now::at(Time::from_secs(1_000_000)),
            version: 100,
            uids: 1_000,
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(super) fn hear_job(&mut self, job: &Value) {
        let read = decode_job(&job.to_string()).expect("a good Job");
        self.hear(Change::Applied, Observed::Job(Box::new(read)));
    }

    pub(super) fn hear_pod(&mut self, change: Change, pod: &Value) {
        let (finalizer, json) = (TRACKING_FINALIZER, pod.to_string());
        let read = PodDecoder { finalizer }.decode(Object::Json(&json));
        self.hear(change, Observed::Pod(read.expect("a good Pod")));
    }

    pub(super) fn hear(&mut self, change: Change, object: Observed<'_>) {
        self.shard.hear(News { change, object }, self.now);
    }

    /// Returns the next request that may be sent, Events excluded.
    pub(super) fn asked(&mut self) -> Option<Asked> {
        loop {
            let request = self.shard.poll_request(self.now)?;
            let what = format!("{} {}", request.call.method, request.call.path);
            if !what.contains("/events") {
                let body = serde_json::from_slice(&request.call.body).unwrap_or_default();
                let id = request.id;
                return Some(Asked { id, what, body });
            }
        }
    }

    /// Returns the next request, which must be this one.
    fn asks(&mut self, start: &str) -> Asked {
        let asked = self.asked().expect("a call");
        assert!(asked.what.starts_with(start), "{asked:?}");
        asked
    }

    fn answer(&mut self, asked: &Asked, answer: Result<Bytes, ApiError>) {
        let input = Input::Answer(asked.id, answer);
        self.shard.handle(input, self.now);
    }

    /// Responds as a server that applies the request.
    pub(super) fn done(&mut self, asked: &Asked) {
        let mut object = asked.body.clone();
        let version = self.next_version();
        if asked.what == POST_POD {
            self.uids += 1;
            object["metadata"]["uid"] = json!(uid(self.uids));
        }
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        self.answer(asked, body(&object));
    }

    /// Breaks or restores the connection to the server.
    fn hear_connection(&mut self, is_heard: bool) {
        self.shard.notice(&Notice::History {
            number: 0,
            known: Kinds::ALL,
            is_heard,
            round: 0,
            listed: Kinds::ALL,
        });
    }

    /// Answers all requests for a while; this one must not be among them.
    fn never_asks(&mut self, what: &str) {
        for _ in 0..10 {
            let asked = self.do_all();
            assert!(!asked.iter().any(|asked| asked == what), "{asked:?}");
            self.now = self.now + Duration::from_secs(1);
        }
    }

    /// Answers all requests, and returns them.
    pub(super) fn do_all(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(asked) = self.asked() {
            self.done(&asked);
            all.push(asked.what);
        }
        all
    }

    /// Answers this many requests, the oldest first, each after this time. Returns the number of Pod requests in flight
    /// then.
    fn do_slowly(&mut self, calls: usize, each: Duration) -> usize {
        let mut under_way = VecDeque::new();
        for _ in 0..calls {
            under_way.extend(iter::from_fn(|| self.asked()));
            self.now = self.now + each;
            let oldest = under_way.pop_front().expect("a call");
            self.done(&oldest);
        }
        under_way.extend(iter::from_fn(|| self.asked()));
        under_way.retain(|asked| asked.what.contains("/pods"));
        under_way.len()
    }

    /// Waits for a request and answers all others meanwhile. Returns it and the time it took.
    pub(super) fn wait_for(&mut self, start: &str) -> (Asked, Duration) {
        let began = self.now.monotonic;
        for _ in 0..100 {
            while let Some(asked) = self.asked() {
                if asked.what.starts_with(start) {
                    return (asked, self.now.monotonic.since(began));
                }
                self.done(&asked);
            }
            let left = self.shard.poll_timeout().left(self.now);
            self.now = self.now + left.unwrap_or_else(|| panic!("nobody waits for {start}"));
        }
        panic!("never asked for: {start}");
    }
}

#[test]
fn a_status_that_another_was_quicker_to_write_is_not_written() {
    let mut world = World::new(8);
    world.hear_pod(Change::Applied, &pod("p", 7, 5, "Succeeded"));
    world.hear_job(&job(6, &json!({})));
    let status = world.asks(STATUS);
    let named = &status.body["status"]["uncountedTerminatedPods"]["succeeded"];
    assert_eq!(*named, json!([uid(7)]));
    world.answer(&status, refusal(409, "Conflict", "modified"));
    let look = world.asks(LOOK);
    world.answer(&look, body(&job(9, &json!({}))));
    // No status has recorded the Pod: its finalizer stays.
    assert_eq!(world.do_all(), Vec::<String>::new());
    world.hear_job(&job(9, &json!({})));
    let (status, _) = world.wait_for("PATCH");
    assert_eq!(status.what, STATUS);
    assert_eq!(status.body["metadata"]["resourceVersion"], "9");
    world.done(&status);
    world.asks(REMOVAL);
}

/// Bodies of success responses without the expected object.
fn foreign_bodies() -> [Result<Bytes, ApiError>; 5] {
    let another = of_job(99, &job(300, &json!({})));
    [
        Ok(Bytes::new()),
        Ok(Bytes::from_static(b"{}")),
        Ok(Bytes::from_static(b"<html>Sign in</html>")),
        body(&json!({"kind": "Status", "status": "Failure"})),
        body(&another),
    ]
}

#[test]
fn a_success_without_the_object_that_was_meant_is_no_answer() {
    const DELETION: &str = "DELETE /api/v1/namespaces/d/pods/r";
    for foreign in foreign_bodies() {
        for write in [STATUS, REMOVAL, POST_POD, DELETION] {
            let mut world = World::new(8);
            world.hear_pod(Change::Applied, &pod("p", 7, 5, "Succeeded"));
            world.hear_pod(Change::Applied, &pod("r", 8, 5, "Running"));
            let is_suspended = write == DELETION;
            let spec = json!({"parallelism": 2, "completions": 3, "suspend": is_suspended});
            world.hear_job(&job(6, &spec));
            let (first, _) = world.wait_for(write);
            world.answer(&first, foreign.clone());
            let (again, _) = world.wait_for(write);
            assert_eq!(again.what, first.what);
            assert_eq!(
                again.body["metadata"]["name"],
                first.body["metadata"]["name"]
            );
            world.done(&again);
        }
    }
}

#[test]
fn what_was_given_up_with_the_lease_is_no_event() {
    for (error, reported) in [
        (ApiError::given_up("given up"), None),
        (
            ApiError::no_answer("reset"),
            Some("Error creating: no answer: reset"),
        ),
    ] {
        let mut world = World::new(8);
        world.hear_job(&job(6, &json!({})));
        let creation = world.asks(POST_POD);
        while world.shard.outbox.events.take_report().is_some() {}
        world.answer(&creation, Err(error));
        let report = world.shard.outbox.events.take_report();
        assert_eq!(report.map(|it| it.message).as_deref(), reported);
    }
}

/// Takes and counts the queued Warnings.
fn take_warnings(world: &mut World) -> usize {
    let reports = iter::from_fn(|| world.shard.outbox.events.take_report());
    reports
        .filter(|it| it.severity == lakh_core::decide::Severity::Warning)
        .count()
}

#[test]
fn a_write_that_stays_without_an_answer_is_reported_after_ten_seconds() {
    for write in [STATUS, REMOVAL] {
        let mut world = World::new(8);
        world.hear_pod(Change::Applied, &pod("p", 7, 5, "Succeeded"));
        world.hear_job(&job(6, &json!({})));
        let (first, _) = world.wait_for(write);
        let began = world.now.monotonic;
        let mut asked = first;
        let mut reported = 0;
        while world.now.monotonic.since(began) < Duration::from_secs(60) {
            world.answer(&asked, Err(ApiError::no_answer("reset")));
            let lasts = world.now.monotonic.since(began);
            let is_reported = take_warnings(&mut world) > 0;
            assert_eq!(is_reported, lasts >= Duration::from_secs(10), "{lasts:?}");
            reported += usize::from(is_reported);
            (asked, _) = world.wait_for(write);
        }
        assert!(reported > 0, "{write}");
        // A response ends the silence.
        world.done(&asked);
        let mut other = World::new(8);
        other.hear_pod(Change::Applied, &pod("p", 7, 5, "Succeeded"));
        other.hear_job(&job(6, &json!({})));
        let (asked, _) = other.wait_for(write);
        other.answer(&asked, Err(ApiError::no_answer("reset")));
        let (asked, _) = other.wait_for(write);
        other.answer(&asked, refusal(500, "InternalError", "no"));
        take_warnings(&mut other);
        other.now = other.now + Duration::from_secs(20);
        let (asked, _) = other.wait_for(write);
        other.answer(&asked, Err(ApiError::no_answer("reset")));
        assert_eq!(take_warnings(&mut other), 0, "{write}");
    }
}

#[test]
fn a_pod_keeps_its_first_index_though_its_annotation_is_edited() {
    let indexed = |version: u64, index: &str, phase: &str| {
        let mut pod = pod("p", 7, version, phase);
        pod["metadata"]["annotations"] = json!({"batch.kubernetes.io/job-completion-index": index});
        pod
    };
    let mut world = World::new(8);
    world.hear_pod(Change::Applied, &indexed(5, "0", "Running"));
    let spec = json!({"completionMode": "Indexed", "completions": 2});
    world.hear_job(&job(6, &spec));
    world.do_all();
    world.hear_pod(Change::Applied, &indexed(700, "1", "Succeeded"));
    let (status, _) = world.wait_for(STATUS);
    assert_eq!(status.body["status"]["completedIndexes"], "0");
}

/// Counts the Warnings of this reason that the shard sends next.
fn warnings(world: &mut World, reason: &str) -> usize {
    let mut found = 0;
    for _ in 0..10 {
        while let Some(request) = world.shard.poll_request(world.now) {
            let object: Value = serde_json::from_slice(&request.call.body).unwrap_or_default();
            found += usize::from(object["reason"] == reason);
            let answer = Input::Answer(request.id, refusal(403, "Forbidden", "no"));
            if request.call.path.contains("/events") {
                world.shard.handle(answer, world.now);
            }
        }
        world.now = world.now + Duration::from_millis(100);
    }
    found
}

#[test]
fn a_status_refused_as_a_conflict_though_nothing_has_changed_is_told() {
    for (found, told) in [(6, 1), (9, 0)] {
        let mut world = World::new(8);
        world.hear_pod(Change::Applied, &pod("p", 7, 5, "Succeeded"));
        world.hear_job(&job(6, &json!({})));
        let status = world.asks(STATUS);
        world.answer(&status, refusal(409, "Conflict", "a policy says no"));
        let look = world.asks(LOOK);
        world.answer(&look, body(&job(found, &json!({}))));
        assert_eq!(warnings(&mut world, "FailedUpdateStatus"), told, "{found}");
    }
}

#[test]
fn a_removal_refused_as_a_conflict_though_nothing_has_changed_is_told_and_waits() {
    let refused = |found: u64| {
        let mut world = World::new(8);
        world.hear_pod(Change::Applied, &pod("p", 7, 5, "Running"));
        world.hear_job(&job(6, &json!({"suspend": true})));
        let (removal, _) = world.wait_for(REMOVAL);
        world.answer(&removal, refusal(409, "Conflict", "a policy says no"));
        let (look, _) = world.wait_for("GET");
        world.answer(&look, body(&pod("p", 7, found, "Running")));
        world
    };
    for (found, is_told) in [(5, true), (9, false)] {
        let mut world = refused(found);
        let mut asked_now = std::iter::from_fn(|| world.asked());
        let is_at_once = asked_now.any(|asked| asked.what.starts_with(REMOVAL));
        assert_eq!(is_at_once, !is_told, "{found}");
        let told = warnings(&mut refused(found), "FailedRemoveFinalizer");
        assert_eq!(told, usize::from(is_told), "{found}");
    }
}

#[test]
fn statuses_that_another_controller_writes_are_noticed() {
    let mut settings = Settings::of_jobs(8);
    settings.limits.alone_after = Some(Duration::from_secs(60));
    let mut world = World::with(settings);
    let spec = json!({"parallelism": 2, "completions": 2});
    world.hear_job(&job(6, &spec));
    let is_contested = |world: &World| {
        let key = JobKey {
            namespace: "d".into(),
            name: "j".into(),
        };
        let told = world.shard.answer_question(&Question::Job(key), world.now);
        told[0].job["overview"]["anotherController"] == true
    };
    for version in [200, 201] {
        world.do_all();
        assert!(!is_contested(&world));
        let mut other = job(version, &spec);
        other["status"] = json!({"active": version, "startTime": "1970-01-12T13:46:40Z"});
        world.hear_job(&other);
        world.now = world.now + Duration::from_secs(2);
    }
    world.do_all();
    assert!(is_contested(&world));
}

/// Kueue clears the start time of each Job that it suspends, and other clients write conditions of their own.
#[test]
fn fields_that_others_write_are_no_sign_of_another_job_controller() {
    let mut settings = Settings::of_jobs(8);
    settings.limits.alone_after = Some(Duration::from_secs(60));
    let mut world = World::with(settings);
    let changes = [
        (6, false, json!("1970-01-12T13:46:40Z")),
        (200, true, Value::Null),
        (210, false, json!("1970-01-12T13:46:42Z")),
        (220, true, Value::Null),
    ];
    for (version, suspend, start_time) in changes {
        let mut seen = job(version, &json!({"suspend": suspend}));
        seen["status"] = json!({
            "active": 1, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}, "startTime": start_time,
            "conditions": [{"type": "Third", "status": "True", "reason": version.to_string()}],
        });
        world.hear_job(&seen);
        let actors = world.shard.store.all();
        let signs = actors.map(|actor| actor.foreign_statuses);
        assert_eq!(signs.sum::<u32>(), 0, "{version}");
        world.now = world.now + Duration::from_secs(2);
    }
}

#[test]
fn a_job_of_another_manager_is_contested_by_nobody_while_it_runs_or_goes() {
    let mut settings = Settings::of_jobs(8);
    settings.limits.alone_after = Some(Duration::from_secs(60));
    let mut world = World::with(settings);
    let spec = json!({"managedBy": "d.dev/job", "parallelism": 2});
    let version_of = |version: u64| {
        let mut job = job(version, &spec);
        job["status"] =
            json!({"active": version, "failed": version, "uncountedTerminatedPods": {}});
        job
    };
    for version in [200, 201, 202] {
        world.hear_job(&version_of(version));
    }
    world.hear_pod(Change::Applied, &pod("p", 7, 203, "Running"));
    let read = decode_job(&version_of(204).to_string()).expect("a good Job");
    world.hear(Change::Deleted, Observed::Job(Box::new(read)));
    let actors = world.shard.store.all();
    assert_eq!(actors.map(|actor| actor.foreign_statuses).sum::<u32>(), 0);
    // Its Pods are freed: no other controller does that.
    world.asks(REMOVAL);
}

/// In a quiet cluster the watch shows a version only with its next bookmark, up to a minute later.
#[test]
fn a_job_whose_counts_another_wrote_goes_on_with_pods_that_the_server_is_asked_for() {
    let mut world = World::new(8);
    world.hear_pod(Change::Applied, &pod("p", 7, 5, "Running"));
    world.hear_pod(Change::Applied, &pod("q", 8, 5, "Running"));
    world.hear_job(&job(6, &json!({"parallelism": 2, "completions": 2})));
    world.do_all();
    let spec = json!({"parallelism": 2, "completions": 2, "suspend": true});
    let mut other = job(300, &spec);
    other["status"] = json!({"failed": 1, "uncountedTerminatedPods": {}});
    world.hear_job(&other);
    let (first, took) = world.wait_for(LIST);
    assert!(took < Duration::from_millis(500), "{took:?}");
    assert!(first.what.ends_with("limit=500"), "{first:?}");
    // A page older than the status is of no use, nor is a refusal.
    let page = |version: &str, items: Vec<Value>, token: &str| {
        body(&json!({"metadata": {"resourceVersion": version, "continue": token}, "items": items}))
    };
    world.answer(&first, refusal(500, "InternalError", "no"));
    let (second, _) = world.wait_for(LIST);
    world.answer(&second, page("299", vec![], "more"));
    let (rest, _) = world.wait_for(LIST);
    assert!(rest.what.ends_with("&continue=more"), "{rest:?}");
    world.answer(
        &rest,
        page(
            "299",
            vec![pod("p", 7, 5, "Running"), pod("q", 8, 5, "Running")],
            "",
        ),
    );
    let (third, _) = world.wait_for(LIST);
    // The other controller has counted one Pod, which is gone.
    world.answer(&third, page("301", vec![pod("p", 7, 5, "Running")], ""));
    // The watch shows late how that one ended.
    world.hear_pod(Change::Applied, &pod("q", 8, 250, "Failed"));
    let (mut statuses, mut removals) = (Vec::new(), 0);
    for _ in 0..5 {
        while let Some(asked) = world.asked() {
            removals += usize::from(asked.what.starts_with(REMOVAL));
            assert!(!asked.what.contains("pods/q"), "{asked:?}");
            if asked.what == STATUS {
                statuses.push(asked.body["status"].clone());
            }
            world.done(&asked);
        }
        world.now = world.now + Duration::from_secs(1);
    }
    assert_eq!(removals, 1, "{statuses:?}");
    for status in statuses {
        assert_ne!(status["failed"], 2, "{status}");
        let listed = &status["uncountedTerminatedPods"]["failed"];
        assert!(listed.as_array().is_none_or(Vec::is_empty), "{status}");
    }
}

#[test]
fn a_server_whose_job_is_older_than_it_told_tells_another_history() {
    for (found, report) in [(9, None), (5, Some(0))] {
        let mut world = World::new(8);
        world.hear_pod(Change::Applied, &pod("p", 7, 5, "Succeeded"));
        world.hear_job(&job(6, &json!({})));
        let status = world.asks(STATUS);
        world.answer(&status, refusal(409, "Conflict", "modified"));
        let look = world.asks("GET");
        world.answer(&look, body(&job(found, &json!({}))));
        assert_eq!(world.shard.poll_report(), report);
    }
}

#[test]
fn a_server_whose_cron_job_is_older_than_it_told_tells_another_history() {
    let cron_job = |version: u64| {
        json!({
            "metadata": {"name": "c", "namespace": "d", "uid": uid(2),
                "resourceVersion": version.to_string(), "creationTimestamp": "1970-01-12T13:46:40Z"},
            "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {}}},
            "status": {"active": [{"name": "c-1", "namespace": "d", "uid": uid(3)}]},
        })
    };
    let hear = |world: &mut World, change, version: u64| {
        let read = decode_cron_job(&cron_job(version).to_string()).expect("a good CronJob");
        world.hear(change, Observed::CronJob(Box::new(read)));
    };
    // A status is refused, and the server has the CronJob in this version.
    let refused_and_found = |found: u64| {
        let mut world = World::with(Settings {
            controllers: Controllers::default(),
            ..Settings::of_jobs(8)
        });
        hear(&mut world, Change::Applied, 6);
        let look = world.asks("GET /apis/batch/v1/namespaces/d/jobs/c-1");
        world.answer(&look, refusal(404, "NotFound", "no such Job"));
        let status = world.asks("PATCH /apis/batch/v1/namespaces/d/cronjobs/c/status");
        world.answer(&status, refusal(409, "Conflict", "modified"));
        let look = world.asks("GET /apis/batch/v1/namespaces/d/cronjobs/c");
        world.answer(&look, body(&cron_job(found)));
        world
    };
    for (found, report) in [(9, None), (5, Some(0))] {
        let mut world = refused_and_found(found);
        assert_eq!(world.shard.poll_report(), report);
        if report.is_none() {
            // A newer version is applied, and a status is written on top of it.
            let (look, _) = world.wait_for("GET /apis/batch/v1/namespaces/d/jobs/c-1");
            world.answer(&look, refusal(404, "NotFound", "no such Job"));
            let status = world.asks("PATCH /apis/batch/v1/namespaces/d/cronjobs/c/status");
            assert_eq!(
                status.body["metadata"]["resourceVersion"],
                found.to_string()
            );
        }
        // A list shows it.
        hear(&mut world, Change::Listed(20), found);
        assert_eq!(world.shard.poll_report(), report);
    }
    // A list is older than a version from a response. The watch from that list shows the version, or never does.
    for (shows, report) in [(true, None), (false, Some(0))] {
        let mut world = refused_and_found(9);
        hear(&mut world, Change::Listed(8), 6);
        (world.shard).notice(&Notice::Complete(extent(Kind::CronJob), 8));
        assert_eq!(world.shard.poll_report(), None);
        if shows {
            hear(&mut world, Change::Applied, 9);
        }
        (world.shard).notice(&Notice::Seen(extent(Kind::CronJob), 10));
        assert_eq!(world.shard.poll_report(), report);
    }
}

#[test]
fn a_cron_job_that_the_server_does_not_have_is_gone() {
    let cron_job = json!({
        "metadata": {"name": "c", "namespace": "d", "uid": uid(2), "resourceVersion": "6",
            "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {}}},
    });
    let mut world = World::with(Settings {
        controllers: Controllers::default(),
        ..Settings::of_jobs(8)
    });
    let read = decode_cron_job(&cron_job.to_string()).expect("a good CronJob");
    let news = News {
        change: Change::Applied,
        object: Observed::CronJob(Box::new(read)),
    };
    world.shard.hear(news, world.now);
    let creation = world.asks("POST /apis/batch/v1/namespaces/d/jobs");
    let mut made = creation.body.clone();
    made["metadata"]["uid"] = json!(uid(3));
    made["metadata"]["resourceVersion"] = json!("7");
    world.answer(&creation, body(&made));
    let status = world.asks("PATCH /apis/batch/v1/namespaces/d/cronjobs/c/status");
    world.answer(&status, refusal(404, "NotFound", "no such CronJob"));
    world.now = world.now + Duration::from_secs(3600);
    assert_eq!(world.do_all(), Vec::<String>::new());
}

#[test]
fn a_cron_job_is_synced_when_a_list_lacks_its_job() {
    let mut world = World::with(Settings {
        controllers: Controllers {
            job: false,
            cronjob: true,
            ttl: false,
        },
        ..Settings::of_jobs(8)
    });
    let mut child = job(5, &json!({}));
    child["metadata"]["name"] = json!("c-1");
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "CronJob",
        "name": "c", "uid": uid(2), "controller": true}]);
    world.hear_job(&child);
    let cron_job = json!({
        "metadata": {"name": "c", "namespace": "d", "uid": uid(2), "resourceVersion": "6",
            "creationTimestamp": "1970-01-12T13:46:40Z"},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {}}},
        "status": {"active": [{"name": "c-1", "namespace": "d", "uid": uid(JOB)}]},
    });
    let read = decode_cron_job(&cron_job.to_string()).expect("a good CronJob");
    world.hear(Change::Applied, Observed::CronJob(Box::new(read)));
    assert_eq!(world.do_all(), Vec::<String>::new());
    // The Job was deleted while the watch was down.
    world.shard.notice(&Notice::Complete(extent(Kind::Job), 10));
    let look = world.asks("GET /apis/batch/v1/namespaces/d/jobs/c-1");
    world.answer(&look, refusal(404, "NotFound", "no such Job"));
    let status = world.asks("PATCH /apis/batch/v1/namespaces/d/cronjobs/c/status");
    assert_eq!(status.body["status"]["active"], Value::Null);
}

#[test]
fn a_pod_that_ends_while_its_finalizer_goes_uncounted_keeps_its_index() {
    let spec = |suspend: bool| json!({"completionMode": "Indexed", "suspend": suspend});
    let indexed = |version: u64, phase: &str| {
        let mut pod = pod("p", 7, version, phase);
        pod["metadata"]["annotations"] = json!({"batch.kubernetes.io/job-completion-index": "0"});
        pod
    };
    let mut world = World::new(8);
    world.hear_pod(Change::Applied, &indexed(5, "Running"));
    world.hear_job(&job(6, &spec(false)));
    world.do_all();
    let suspended = world.next_version();
    world.hear_job(&job(suspended, &spec(true)));
    let (removal, _) = world.wait_for(REMOVAL);
    let ended = world.next_version();
    world.hear_pod(Change::Applied, &indexed(ended, "Succeeded"));
    let resumed = world.next_version();
    world.hear_job(&job(resumed, &spec(false)));
    let asked = world.do_all();
    assert!(!asked.iter().any(|what| what == POST_POD), "{asked:?}");
    world.answer(&removal, refusal(409, "Conflict", "modified"));
    let (look, _) = world.wait_for("GET /api/v1/namespaces/d/pods/p");
    world.answer(&look, body(&indexed(ended, "Succeeded")));
    let (status, _) = world.wait_for(STATUS);
    assert_eq!(status.body["status"]["completedIndexes"], "0");
}

#[test]
fn a_pod_that_has_the_name_may_be_somebody_elses() {
    for is_another_jobs in [false, true] {
        let mut world = World::new(8);
        world.hear_job(&job(6, &json!({})));
        let (first, _) = world.wait_for(POST_POD);
        let name = first.body["metadata"]["name"].as_str().expect("a name");
        let message = format!("pods {name:?} already exists");
        world.answer(&first, refusal(409, "AlreadyExists", &message));
        let look = world.asks(&format!("GET /api/v1/namespaces/d/pods/{name}"));
        let mut found = pod(name, 7, 90, "Running");
        match is_another_jobs {
            true => found["metadata"]["ownerReferences"][0]["uid"] = json!(uid(2)),
            false => found["metadata"]["ownerReferences"] = json!([]),
        }
        world.answer(&look, body(&found));
        let (second, _) = world.wait_for(POST_POD);
        assert_ne!(second.body["metadata"]["name"], name);
    }
}

/// A webhook chooses its reason freely: only a message with the Pod's name is the server's.
#[test]
fn a_webhook_that_says_already_exists_refuses_the_pod() {
    let mut world = World::new(8);
    world.hear_job(&job(6, &json!({})));
    let (first, _) = world.wait_for(POST_POD);
    let message = "admission webhook \"quota\" denied the request: taken";
    world.answer(&first, refusal(409, "AlreadyExists", message));
    assert_eq!(warnings(&mut world, "FailedCreate"), 1);
}

#[test]
fn a_pod_that_has_the_name_may_be_the_one_that_was_to_be_made() {
    let mut world = World::new(8);
    world.hear_job(&job(6, &json!({})));
    let (first, _) = world.wait_for(POST_POD);
    let name = first.body["metadata"]["name"].as_str().expect("a name");
    let message = format!("pods {name:?} already exists");
    world.answer(&first, refusal(409, "AlreadyExists", &message));
    let look = world.asks(&format!("GET /api/v1/namespaces/d/pods/{name}"));
    world.answer(&look, body(&pod(name, 7, 90, "Succeeded")));
    let (status, _) = world.wait_for(STATUS);
    let named = &status.body["status"]["uncountedTerminatedPods"]["succeeded"];
    assert_eq!(*named, json!([uid(7)]));
}

#[test]
fn a_pod_that_the_watch_does_not_know_is_not_asked_for_again_at_once() {
    // The server was restored from a backup, and no list has shown it yet.
    let mut world = World::new(8);
    world.hear_job(&job(6, &json!({})));
    world
        .shard
        .notice(&Notice::Complete(extent(Kind::Pod), 500));
    let (first, _) = world.wait_for(POST_POD);
    let name = first.body["metadata"]["name"].as_str().expect("a name");
    let there = pod(name, 7, 175, "Running");
    world.answer(&first, body(&there));
    let mut waits = Vec::new();
    for _ in 0..4 {
        let (again, waited) = world.wait_for(POST_POD);
        assert_eq!(again.body["metadata"]["name"], name);
        let message = format!("pods {name:?} already exists");
        world.answer(&again, refusal(409, "AlreadyExists", &message));
        let look = world.asks(&format!("GET /api/v1/namespaces/d/pods/{name}"));
        world.answer(&look, body(&there));
        waits.push(waited);
    }
    assert!(waits[1..].is_sorted_by(|one, next| one < next), "{waits:?}");
}

#[test]
fn a_pod_that_is_created_after_a_restore_is_not_taken_for_a_deleted_one() {
    let mut world = World::new(8);
    // Before the restore, the watch had passed the versions that the server assigns now.
    world.shard.notice(&Notice::Seen(extent(Kind::Pod), 150));
    for kind in [Kind::Job, Kind::Pod] {
        world.shard.notice(&Notice::Forget(extent(kind)));
        world.shard.notice(&Notice::Complete(extent(kind), 50));
    }
    world.hear_job(&job(60, &json!({})));
    let creation = world.asks(POST_POD);
    world.done(&creation);
    let asked = world.do_all();
    assert!(!asked.iter().any(|what| what == POST_POD), "{asked:?}");
}

#[test]
fn no_finalizer_goes_while_the_server_may_have_been_set_back() {
    let mut world = World::new(8);
    world.hear_pod(Change::Applied, &pod("p", 7, 5, "Succeeded"));
    world.hear_job(&job(6, &json!({})));
    let status = world.asks(STATUS);
    world.hear_connection(false);
    world.done(&status);
    world.never_asks(REMOVAL);
    // The watch shows the status.
    let named = world.version;
    world.hear_job(&job(named, &json!({})));
    world.hear_connection(true);
    world.wait_for(REMOVAL);
}

#[test]
fn no_finalizer_goes_by_a_status_that_only_an_answer_told_before_a_connection_broke() {
    // The Job is read from the server.
    let asked = |(is_told_before, is_listed): (bool, bool)| {
        let mut world = World::new(8);
        world.hear_pod(Change::Applied, &pod("p", 7, 5, "Succeeded"));
        world.hear_job(&job(6, &json!({})));
        let status = world.asks(STATUS);
        if is_told_before {
            world.done(&status);
            world.hear_connection(false);
        } else {
            world.hear_connection(false);
            world.done(&status);
        }
        world.hear_connection(true);
        if is_listed {
            // A list older than the response proves nothing.
            let older = world.version - 1;
            (world.shard).notice(&Notice::Complete(extent(Kind::Job), older));
        }
        let (look, _) = world.wait_for(LOOK);
        world.never_asks(REMOVAL);
        (world, look)
    };
    for way in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut world, look) = asked(way);
        let found = job(world.version, &json!({}));
        world.answer(&look, body(&found));
        world.wait_for(REMOVAL);

        let (mut world, look) = asked(way);
        let found = job(world.version - 1, &json!({}));
        world.answer(&look, body(&found));
        assert_eq!(world.shard.poll_report(), Some(0));
        world.never_asks(REMOVAL);

        let (mut world, look) = asked(way);
        world.answer(&look, refusal(500, "InternalError", "later"));
        world.wait_for(LOOK);
        // The watch shows it first.
        world.hear_job(&job(world.version, &json!({})));
        world.wait_for(REMOVAL);
    }
}

#[test]
fn a_pod_is_not_counted_while_it_is_being_adopted() {
    let mut world = World::new(8);
    let orphan = |version: u64, finalizers: &Value| {
        let mut pod = pod("p", 7, version, "Failed");
        pod["metadata"]["ownerReferences"] = json!([]);
        pod["metadata"]["finalizers"] = finalizers.clone();
        pod
    };
    world.hear_pod(Change::Applied, &pod("p", 7, 5, "Failed"));
    let spec = json!({"completions": 2, "parallelism": 2});
    world.hear_job(&job(6, &spec));
    let (status, _) = world.wait_for(STATUS);
    world.done(&status);
    let (removal, _) = world.wait_for(REMOVAL);
    // A user removes the owner, and then the finalizer is gone, too.
    let named = world.next_version();
    world.hear_pod(
        Change::Applied,
        &orphan(named, &json!([TRACKING_FINALIZER])),
    );
    let look = world.asks(LOOK);
    world.answer(&look, body(&job(6, &spec)));
    world.done(&removal);
    let adoption = world.asks(REMOVAL);
    assert!(adoption.body["metadata"]["ownerReferences"].is_array());
    let freed = world.next_version();
    world.hear_pod(Change::Applied, &orphan(freed, &json!([])));
    for _ in 0..5 {
        let asked = world.do_all();
        assert!(!asked.iter().any(|what| what == STATUS), "{asked:?}");
        world.now = world.now + Duration::from_secs(1);
    }
    let adopted = world.next_version();
    let adopted = pod("p", 7, adopted, "Failed");
    world.answer(&adoption, body(&adopted));
    world.hear_pod(Change::Applied, &adopted);
    world.wait_for(REMOVAL);
}

#[test]
fn news_that_are_older_than_an_own_write_adopt_nothing() {
    let mut world = World::new(8);
    world.hear_pod(Change::Applied, &pod("p", 7, 5, "Failed"));
    let spec = json!({"completions": 2, "parallelism": 2});
    world.hear_job(&job(6, &spec));
    let (status, _) = world.wait_for(STATUS);
    world.done(&status);
    let (removal, _) = world.wait_for(REMOVAL);
    // A user removed the owner before the finalizer was removed, and the watch shows it late.
    let orphaned = world.next_version();
    world.done(&removal);
    let mut orphan = pod("p", 7, orphaned, "Failed");
    orphan["metadata"]["ownerReferences"] = json!([]);
    world.hear_pod(Change::Applied, &orphan);
    let asked = world.do_all();
    let looks = |what: &String| what.starts_with(LOOK);
    assert!(!asked.iter().any(looks), "{asked:?}");
}

#[test]
fn an_answer_to_a_removal_that_comes_after_the_pod_is_gone_changes_no_other_pod() {
    let mut world = World::new(8);
    world.hear_pod(Change::Applied, &pod("p", 7, 5, "Succeeded"));
    world.hear_job(&job(6, &json!({"completions": 3, "suspend": true})));
    let (removal, _) = world.wait_for(REMOVAL);
    // A Pod that is being deleted goes with its finalizer, and the watch may show that first.
    let gone = world.next_version();
    world.hear_pod(Change::Deleted, &pod("p", 7, gone, "Succeeded"));
    world.do_all();
    let ended = world.next_version();
    world.hear_pod(Change::Applied, &pod("q", 8, ended, "Succeeded"));
    world.done(&removal);
    let (status, _) = world.wait_for(STATUS);
    let named = &status.body["status"]["uncountedTerminatedPods"]["succeeded"];
    assert_eq!(*named, json!([uid(8)]));
}

#[test]
fn a_quota_is_asked_every_few_seconds_whether_it_has_room() {
    let mut world = World::new(8);
    world.hear_job(&job(6, &json!({})));
    let (mut creation, _) = world.wait_for(POST_POD);
    for _ in 0..6 {
        let message = "pods \"p\" is forbidden: exceeded quota: q, requested: pods=1";
        world.answer(&creation, refusal(403, "Forbidden", message));
        let (next, waited) = world.wait_for(POST_POD);
        assert!(waited <= Duration::from_secs(4), "{waited:?}");
        creation = next;
    }
}

#[test]
fn a_pod_that_was_changed_on_its_way_in_is_not_made_again_at_once() {
    let mut world = World::new(8);
    world.hear_job(&job(6, &json!({})));
    let (creation, _) = world.wait_for(POST_POD);
    let mut changed = creation.body.clone();
    changed["metadata"]["uid"] = json!(uid(7));
    changed["metadata"]["namespace"] = json!("d");
    changed["metadata"]["resourceVersion"] = json!("90");
    changed["metadata"]["labels"] = json!({});
    changed["status"] = json!({"phase": "Pending"});
    world.answer(&creation, body(&changed));
    // The watch shows it. The Job's selector does not match such Pods, so it is released.
    world.hear_pod(Change::Applied, &changed);
    let asked = world.do_all();
    assert!(
        !asked.iter().any(|what| what == POST_POD),
        "before its release: {asked:?}"
    );
    changed["metadata"]["ownerReferences"] = json!([]);
    changed["metadata"]["finalizers"] = json!([]);
    changed["metadata"]["resourceVersion"] = json!("200");
    world.hear_pod(Change::Applied, &changed);
    let (_, waited) = world.wait_for(POST_POD);
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
}

#[test]
fn a_busy_server_is_asked_again_when_it_said() {
    let mut world = World::new(8);
    world.hear_job(&job(6, &json!({})));
    world.do_all();
    // Nothing else is to be done.
    world.now = world.now + Duration::from_secs(60);
    world.do_all();
    let began = world.now.monotonic;
    world.hear_job(&job(150, &json!({"suspend": true})));
    let mut refused = 0;
    while let Some(asked) = world.asked() {
        let pause = Some(Duration::from_secs(3));
        world.answer(&asked, Err(ApiError::from_response(429, b"busy", pause)));
        refused += 1;
    }
    assert!(refused > 0);
    let again = (0..50).find_map(|_| {
        let left = world.shard.poll_timeout().left(world.now);
        world.now = world.now + left.expect("it looks again");
        world.asked()
    });
    assert!(again.is_some());
    assert_eq!(world.now.monotonic.since(began), Duration::from_secs(3));
}

#[test]
fn a_giant_gives_room_where_patches_take_longer_the_more_there_are() {
    let giant = job(600, &json!({"parallelism": 200, "completions": 200}));
    for (each, is_alone, left) in [(1, false, 32), (10, false, 8), (10, true, 32)] {
        let mut world = World::new(48);
        if !is_alone {
            world.hear_job(&of_job(2, &job(6, &json!({}))));
            world.asked().expect("it has something in flight");
        }
        for number in 0..200 {
            let ended = pod(&format!("p{number}"), 10 + number, 5, "Succeeded");
            world.hear_pod(Change::Applied, &ended);
        }
        world.hear_job(&giant);
        let status = world.asks(STATUS);
        world.done(&status);
        let went = world.do_slowly(100, Duration::from_millis(each));
        assert_eq!(went, left, "{each} ms, alone: {is_alone}");
    }
    // A slow webhook for new Pods is no congestion.
    let left = [1, 10].map(|each| {
        let mut world = World::new(48);
        world.hear_job(&of_job(2, &job(6, &json!({}))));
        world.asked().expect("it has something in flight");
        world.hear_job(&giant);
        world.do_slowly(90, Duration::from_millis(each))
    });
    assert_eq!(left, [32, 32]);
}

/// Returns the number of finalizer removals that start at once, for this many Jobs whose finished Pods are all recorded
/// in a status.
fn go_on_at_once(jobs: u128, pods: u128) -> usize {
    let mut world = World::new(1_000);
    for number in 1..=jobs {
        for pod_number in 1..=pods {
            let name = format!("j{number}-{pod_number}");
            let ended = pod(&name, 1_000 * number + pod_number, 5, "Succeeded");
            world.hear_pod(Change::Applied, &of_job(number, &ended));
        }
        let spec = json!({"parallelism": pods, "completions": pods});
        world.hear_job(&of_job(number, &job(6, &spec)));
    }
    let statuses: Vec<_> = iter::from_fn(|| world.asked()).collect();
    assert_eq!(statuses.len() as u128, jobs, "first syncs do not wait");
    for status in &statuses {
        world.done(status);
    }
    let freed = iter::from_fn(|| world.asked()).map(|asked| asked.what);
    let paths: BTreeSet<_> = freed
        .filter(|what| what.starts_with("PATCH /api/v1/namespaces/d/pods/"))
        .map(|what| what.rsplit_once('-').map(|(job, _)| job.to_owned()))
        .collect();
    paths.len()
}

#[test]
fn jobs_of_one_pod_wait_for_no_others() {
    let more = u128::from(SyncRate::AT_ONCE) + 10;
    assert_eq!(go_on_at_once(more, 1) as u128, more);
    // Jobs with several Pods wait, so that one sync handles several events.
    assert_eq!(go_on_at_once(more, 2) as u32, SyncRate::AT_ONCE);
}

#[test]
fn what_waits_to_be_made_is_not_made_once_the_job_is_suspended() {
    let mut world = World::new(1);
    let wanted = json!({"parallelism": 3, "completions": 3});
    world.hear_job(&job(6, &wanted));
    let (first, _) = world.wait_for(POST_POD);
    world.done(&first);
    // The next round has two.
    let (second, _) = world.wait_for(POST_POD);
    assert!(world.asked().is_none(), "one at a time");
    let mut suspended = wanted;
    suspended["suspend"] = json!(true);
    let version = world.next_version();
    world.hear_job(&job(version, &suspended));
    assert!(world.asked().is_none(), "one at a time");
    world.done(&second);
    let asked = world.do_all();
    assert!(!asked.iter().any(|what| what == POST_POD), "{asked:?}");
}

#[test]
fn what_waits_to_be_written_is_not_written_in_another_history() {
    let mut world = World::new(1);
    world.hear_job(&job(6, &json!({"parallelism": 3, "completions": 3})));
    let (first, _) = world.wait_for(POST_POD);
    world.done(&first);
    // The next round has two.
    let (second, _) = world.wait_for(POST_POD);
    assert!(world.asked().is_none(), "one at a time");
    for kind in [Kind::Job, Kind::Pod] {
        world.shard.notice(&Notice::Forget(extent(kind)));
    }
    world.done(&second);
    assert_eq!(world.do_all(), Vec::<String>::new());
}

#[test]
fn a_pod_that_goes_by_itself_is_missed() {
    let mut world = World::new(8);
    let mut running = pod("p", 7, 5, "Running");
    world.hear_pod(Change::Applied, &running);
    world.hear_job(&job(6, &json!({})));
    for _ in 0..5 {
        world.do_all();
        world.now = world.now + Duration::from_secs(60);
    }
    running["metadata"]["resourceVersion"] = json!("200");
    running["metadata"]["finalizers"] = json!([]);
    world.hear_pod(Change::Deleted, &running);
    let (_, waited) = world.wait_for(POST_POD);
    assert_eq!(waited, Duration::ZERO);
}

#[test]
fn a_list_that_is_older_than_a_pod_does_not_take_it_away() {
    let mut world = World::new(8);
    world.hear_job(&job(6, &json!({})));
    let (creation, _) = world.wait_for(POST_POD);
    world.done(&creation);
    world.do_all();
    // The Pod list is from before the Pod's creation, which the watch has not shown yet.
    world
        .shard
        .notice(&Notice::Complete(extent(Kind::Pod), 100));
    assert_eq!(world.do_all(), Vec::<String>::new());
    // Now the Pod is really gone.
    let version = world.next_version();
    world
        .shard
        .notice(&Notice::Complete(extent(Kind::Pod), version));
    let (_, waited) = world.wait_for(POST_POD);
    assert_eq!(waited, Duration::ZERO);
}

#[test]
fn waits_go_on_when_the_clock_is_set_back() {
    let mut world = World::new(8);
    world.hear_job(&job(6, &json!({})));
    let (creation, _) = world.wait_for(POST_POD);
    world.answer(&creation, refusal(403, "Forbidden", "not today"));
    world.do_all();
    world.now.wall = Time::from_secs(990_000);
    let (_, waited) = world.wait_for(POST_POD);
    assert!(waited <= Duration::from_secs(2), "{waited:?}");
}

/// Returns a Pod without an owner that the Job's selector matches.
fn orphan() -> Value {
    let mut orphan = pod("o", 7, 5, "Running");
    orphan["metadata"]["ownerReferences"] = json!([]);
    orphan["metadata"]["finalizers"] = json!([]);
    orphan
}

#[test]
fn a_job_that_goes_adopts_nothing() {
    for is_deleting in [false, true] {
        let mut world = World::new(8);
        world.hear_job(&job(6, &json!({})));
        world.hear_pod(Change::Applied, &orphan());
        let look = world.asks(LOOK);
        let mut found = job(6, &json!({}));
        if is_deleting {
            found["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        world.answer(&look, body(&found));
        let next = world.asked().map(|asked| asked.what);
        let adoption = Some("PATCH /api/v1/namespaces/d/pods/o".to_owned());
        assert_eq!(next, adoption.filter(|_| !is_deleting));
    }
}

#[test]
fn nobody_adopts_a_pod_that_goes() {
    let mut world = World::new(8);
    world.hear_job(&job(6, &json!({})));
    let mut going = orphan();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    world.hear_pod(Change::Applied, &going);
    let asked = world.do_all();
    let looks = |what: &String| what.starts_with("GET") || what.ends_with("/pods/o");
    assert!(!asked.iter().any(looks), "{asked:?}");
    assert!(asked.iter().any(|what| what == POST_POD), "{asked:?}");
}

#[test]
fn who_could_not_be_freed_is_freed_later() {
    let mut world = World::new(8);
    let mut left = orphan();
    left["metadata"]["labels"] = json!({});
    left["metadata"]["finalizers"] = json!([TRACKING_FINALIZER]);
    world.hear_pod(Change::Applied, &left);
    let patch = world.asks("PATCH /api/v1/namespaces/d/pods/o");
    world.answer(&patch, refusal(500, "InternalError", "no"));
    let (patch, waited) = world.wait_for("PATCH /api/v1/namespaces/d/pods/o");
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    world.done(&patch);
    assert!(world.asked().is_none());
}

#[test]
fn a_pod_that_may_have_been_adopted_keeps_its_finalizer() {
    let mut world = World::new(8);
    world.hear_job(&job(6, &json!({})));
    let mut left = orphan();
    left["metadata"]["finalizers"] = json!([TRACKING_FINALIZER]);
    world.hear_pod(Change::Applied, &left);
    let look = world.asks(LOOK);
    world.answer(&look, body(&job(6, &json!({}))));
    let patch = world.asks("PATCH /api/v1/namespaces/d/pods/o");
    world.answer(&patch, Err(ApiError::no_answer("connection reset")));
    let next = world.asked().map(|asked| asked.what);
    assert_eq!(next, None, "before it is tried again");
    // When no Job claims it any more, it is freed.
    let gone = decode_job(&job(7, &json!({})).to_string()).expect("a good Job");
    world.hear(Change::Deleted, Observed::Job(Box::new(gone)));
    world.asks("PATCH /api/v1/namespaces/d/pods/o");
}

#[test]
fn a_standby_keeps_nothing_of_jobs_that_are_gone_and_little_of_pods_that_are() {
    let settings = Settings {
        is_elected: true,
        controllers: Controllers {
            ttl: true,
            ..Settings::of_jobs(8).controllers
        },
        ..Settings::of_jobs(8)
    };
    let mut world = World::with(settings);
    let done = |version| {
        let mut job = job(version, &json!({"ttlSecondsAfterFinished": 0}));
        job["status"] = json!({"conditions": [{"type": "Complete", "status": "True",
            "lastTransitionTime": "1970-01-12T13:46:40Z"}]});
        job
    };
    world.hear_job(&job(5, &json!({"ttlSecondsAfterFinished": 0})));
    for number in 0..50 {
        let version = 10 + 2 * u64::try_from(number).expect("it is small");
        world.hear_pod(Change::Applied, &pod("p", 100 + number, version, "Running"));
        world.hear_pod(
            Change::Deleted,
            &pod("p", 100 + number, version + 1, "Failed"),
        );
    }
    let key = world.shard.store.actors()[0];
    let pods = &world.shard.store.get(key).expect("it is there").pods;
    assert!(pods.is_empty() && !pods.is_dirty());
    world.hear_pod(Change::Applied, &pod("q", 7, 200, "Succeeded"));
    world.hear_job(&done(201));
    let gone = decode_job(&done(202).to_string()).expect("a good Job");
    world.hear(Change::Deleted, Observed::Job(Box::new(gone)));
    // Its Pod is still there.
    assert_eq!(world.shard.store.actors().len(), 1);
    world.hear_pod(Change::Deleted, &pod("q", 7, 203, "Succeeded"));
    assert!(world.shard.store.actors().is_empty() && world.shard.queue.is_empty());
    let ttl = world.shard.ttl.as_ref().expect("it is asked for");
    assert_eq!(ttl.poll_timeout(), Timeout::default());
}

#[test]
fn a_pod_that_is_deleting_no_more_tells_another_history() {
    let deleting = |version| {
        let mut pod = pod("p", 7, version, "Running");
        pod["metadata"]["deletionTimestamp"] = json!("1970-01-12T13:46:50Z");
        pod
    };
    // Deleted according to the response only, or also to the watch.
    for is_told in [false, true] {
        let mut world = World::new(8);
        world.hear_pod(Change::Applied, &pod("p", 7, 5, "Running"));
        world.hear_job(&job(6, &json!({"suspend": true})));
        let (deletion, _) = world.wait_for("DELETE /api/v1/namespaces/d/pods/p");
        let answer = if is_told {
            body(&json!({"kind": "Status", "status": "Success"}))
        } else {
            body(&deleting(208))
        };
        world.answer(&deletion, answer);
        if is_told {
            world.hear_pod(Change::Applied, &deleting(208));
            world.hear_pod(Change::Applied, &deleting(209));
        }
        // An older version is no contradiction.
        world.hear_pod(Change::Applied, &pod("p", 7, 207, "Running"));
        assert_eq!(world.shard.poll_report(), None);
        world.hear_pod(Change::Applied, &pod("p", 7, 212, "Running"));
        assert_eq!(world.shard.poll_report(), Some(0), "{is_told}");
    }
}

#[test]
fn a_pod_that_is_listed_as_set_back_tells_another_history() {
    let ended = |version| pod("p", 7, version, "Succeeded");
    let freed = |version| {
        let mut pod = ended(version);
        pod["metadata"]["finalizers"] = json!([]);
        pod
    };
    let running = |version| pod("p", 7, version, "Running");
    let cases = [
        (freed(208), ended(212), true),
        (ended(208), running(212), true),
        (ended(208), freed(212), false),
        (running(208), ended(212), false),
    ];
    for (known, listed, is_proof) in cases {
        // A user may have caused this watch event by hand.
        for (change, report) in [
            (Change::Listed(213), is_proof.then_some(0)),
            (Change::Applied, None),
        ] {
            let mut world = World::new(8);
            world.hear_job(&job(6, &json!({"suspend": true})));
            world.hear_pod(Change::Applied, &running(206));
            world.hear_pod(Change::Applied, &known);
            world.hear_pod(Change::Listed(210), &known);
            assert_eq!(world.shard.poll_report(), None);
            world.hear_pod(change, &listed);
            assert_eq!(world.shard.poll_report(), report, "{known} {listed}");
        }
    }
}

#[test]
fn a_job_that_is_deleting_no_more_tells_another_history() {
    let mut world = World::new(8);
    let mut deleting = job(208, &json!({"suspend": true}));
    deleting["metadata"]["deletionTimestamp"] = json!("1970-01-12T13:46:50Z");
    world.hear_job(&deleting);
    // An older version is no contradiction.
    world.hear_job(&job(207, &json!({"suspend": true})));
    assert_eq!(world.shard.poll_report(), None);
    world.hear_job(&job(212, &json!({"suspend": true})));
    assert_eq!(world.shard.poll_report(), Some(0));
}

#[test]
fn a_job_whose_deletion_failed_once_leaves_nothing_when_it_is_deleted() {
    let settings = Settings {
        controllers: Controllers {
            ttl: true,
            ..Settings::of_jobs(8).controllers
        },
        ..Settings::of_jobs(8)
    };
    let mut world = World::with(settings);
    let mut done = job(5, &json!({"ttlSecondsAfterFinished": 0}));
    done["status"] = json!({"conditions": [{"type": "Complete", "status": "True",
        "lastTransitionTime": "1970-01-12T13:46:40Z"}]});
    world.hear_job(&done);
    for answer in [refusal(500, "InternalError", "try again"), body(&json!({}))] {
        let (look, _) = world.wait_for("GET /apis/batch/v1/namespaces/d/jobs/j");
        world.answer(&look, body(&done));
        let (deletion, _) = world.wait_for("DELETE /apis/batch/v1/namespaces/d/jobs/j");
        let is_last = answer.is_ok();
        let mut answer = answer;
        if is_last {
            done["metadata"]["deletionTimestamp"] = json!("1970-01-12T13:47:00Z");
            answer = body(&done);
        }
        world.answer(&deletion, answer);
        let left = format!("{:?}", world.shard.ttl);
        assert_ne!(left.contains(&uid(JOB)), is_last, "{left}");
    }
}

#[test]
fn a_finished_job_of_another_controller_is_deleted_when_its_ttl_is_over() {
    let settings = Settings {
        controllers: Controllers {
            ttl: true,
            ..Settings::of_jobs(8).controllers
        },
        ..Settings::of_jobs(8)
    };
    let mut world = World::with(settings);
    let spec = json!({"managedBy": "d.dev/job", "ttlSecondsAfterFinished": 0});
    let mut done = job(5, &spec);
    done["status"] = json!({"conditions": [{"type": "Complete", "status": "True",
        "lastTransitionTime": "1970-01-12T13:46:40Z"}]});
    world.hear_job(&done);
    let (look, _) = world.wait_for(LOOK);
    world.answer(&look, body(&done));
    world.wait_for("DELETE /apis/batch/v1/namespaces/d/jobs/j");
}

#[test]
fn an_event_that_the_server_has_deleted_is_created_again() {
    let mut world = World::new(8);
    world.hear_job(&job(5, &json!({})));
    let creation = world.asks(POST_POD);
    world.answer(&creation, refusal(403, "Forbidden", "not now"));
    let mut events = Vec::new();
    for _ in 0..200 {
        while let Some(request) = world.shard.poll_request(world.now) {
            let asked = Asked {
                id: request.id,
                what: format!("{} {}", request.call.method, request.call.path),
                body: serde_json::from_slice(&request.call.body).unwrap_or_default(),
            };
            if !asked.what.contains("/events") {
                match asked.what.as_str() {
                    POST_POD => world.answer(&asked, refusal(403, "Forbidden", "not now")),
                    _ => world.done(&asked),
                }
                continue;
            }
            events.push(asked.what.clone());
            match asked.what.starts_with("PATCH") {
                true => world.answer(&asked, refusal(404, "NotFound", "gone")),
                false => world.done(&asked),
            }
        }
        if let Some(patched) = events.iter().position(|what| what.starts_with("PATCH"))
            && let Some(next) = events.get(patched + 1)
        {
            assert!(next.starts_with("POST"), "{events:?}");
            return;
        }
        let left = world.shard.poll_timeout().left(world.now);
        world.now = world.now + left.expect("the Job tries again");
    }
    panic!("no Event was patched and created again: {events:?}");
}
