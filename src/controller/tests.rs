//! Plays each row of docs/when-calls-fail.md: a replica in virtual time before an API server that fails calls of one kind,
//! in one way, for a minute and a half. What the log, probes, metrics and Events say meanwhile are the row's columns;
//! afterwards everything is done, once.
//!
//! `LAKH_WRITE=1` writes the page's tables anew.

use std::{collections::BTreeMap, fmt::Write as _, fs, io, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::{
    election::LeaseTimings,
    embedded::apiserver::{
        ApiServer, Body, Limits as ServerLimits, Reply, Request as Asked, WatchCursor, prepare,
    },
    informer::{PageBounds, Watched},
    machine::{CallResult, Input, Request},
    metrics::Metrics,
    model::{Limits, Now, Time},
    ownership::Mode,
    rate_limiter::{Limiter, Rate},
    shard::{RecordMemory, Settings},
    wire::{ApiError, Call, Encoding},
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/when-calls-fail.md");

/// Where the tables begin on the page.
const MARK: &str = "<!-- what follows is written by the test -->\n";

/// How long calls fail.
const FAILING: Duration = Duration::from_secs(90);

/// Within which time all is done after that.
const HEALING: Duration = Duration::from_secs(700);

/// After which time the client gives up a call, and an election one about the Lease.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The most calls of a kind that may be made while they fail: about two a second, of all objects together.
const MOST_TRIES: usize = 200;

/// The most lines that the log may have of it.
const MOST_LINES: usize = 30;

/// How often the server sends bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// How often the nodes look at their Pods.
const TICK: Duration = Duration::from_millis(500);

/// How long a Pod runs.
const RUNS: Duration = Duration::from_secs(2);

/// A kind of call: its title on the page, method, and what its path has and has not.
struct CallKind {
    title: &'static str,
    method: &'static str,
    has: &'static [&'static str],
    has_not: &'static [&'static str],
}

const fn kind(
    title: &'static str,
    method: &'static str,
    has: &'static [&'static str],
    has_not: &'static [&'static str],
) -> CallKind {
    CallKind {
        title,
        method,
        has,
        has_not,
    }
}

const CALLS: &[CallKind] = &[
    kind("List of Jobs", "GET", &["/jobs?limit"], &[]),
    kind("List of Pods", "GET", &["/pods?limit"], &[]),
    kind("Watch of Jobs", "GET", &["/jobs?watch"], &[]),
    kind("Watch of Pods", "GET", &["/pods?watch"], &[]),
    kind("Creation of a Pod", "POST", &["/pods"], &[]),
    kind("Deletion of a Pod", "DELETE", &["/pods/"], &[]),
    kind(
        "Removal of a Pod's finalizer, adoption of a Pod",
        "PATCH",
        &["/pods/"],
        &[],
    ),
    kind("Status of a Job", "PATCH", &["/jobs/", "/status"], &[]),
    kind(
        "Look at a Job before a Pod is adopted or the Job deleted",
        "GET",
        &["/jobs/"],
        &["/cronjobs/"],
    ),
    kind("Event", "POST", &["/events"], &[]),
    kind("Read of the Lease", "GET", &["/leases/"], &[]),
    kind("Write of the Lease", "PUT", &["/leases/"], &[]),
    kind("Creation of a CronJob's Job", "POST", &["/jobs"], &[]),
    kind(
        "Status of a CronJob",
        "PATCH",
        &["/cronjobs/", "/status"],
        &[],
    ),
    kind(
        "Deletion of a Job whose TTL is over",
        "DELETE",
        &["/jobs/"],
        &[],
    ),
];

/// How calls fail: the row's name, and the answer; none for no answer within the call's time.
type Fault = (&'static str, fn(&str) -> Option<CallResult>);

fn refused(code: u16, body: &str, seconds: Option<u64>) -> Option<CallResult> {
    let after = seconds.map(Duration::from_secs);
    Some(Err(ApiError::from_response(code, body.as_bytes(), after)))
}

const FAULTS: &[Fault] = &[
    ("403, no right", |_| {
        refused(403, r#"{"reason":"Forbidden","message":"may not"}"#, None)
    }),
    ("422, a webhook's refusal", |_| {
        let body = r#"{"reason":"Invalid","message":"admission webhook \"w\" denied the request"}"#;
        refused(422, body, None)
    }),
    ("500, a webhook is away", |_| {
        let body = r#"{"reason":"InternalError","message":"failed calling webhook \"w\""}"#;
        refused(500, body, None)
    }),
    ("429, busy", |_| refused(429, "Too many requests", None)),
    ("429, `Retry-After: 0`", |_| {
        refused(429, "Too many requests", Some(0))
    }),
    ("503, `Retry-After: 5`", |_| {
        refused(503, "unavailable", Some(5))
    }),
    ("302, redirect", |_| refused(302, "", None)),
    ("connection refused, closed or cut", |_| {
        Some(Err(ApiError::no_answer("connection reset")))
    }),
    ("success without the object", |_| {
        Some(Ok(Bytes::from_static(b"<html>Sign in</html>")))
    }),
    ("no answer", |_| None),
];

impl CallKind {
    fn is_of(&self, call: &Call) -> bool {
        let path = call.path.as_str();
        // A creation's path ends with the kind.
        let ends = |part: &&str| self.method != "POST" || path.ends_with(*part);
        call.method == self.method
            && self
                .has
                .iter()
                .all(|part| path.contains(part) && ends(part))
            && !self.has_not.iter().any(|part| path.contains(part))
    }
}

/// Writes to a log that can be read meanwhile.
struct LogWriter(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream that is open.
struct Stream {
    id: CallId,
    cursor: Box<WatchCursor>,
    bookmark: Duration,
}

struct World {
    replica: Replica,
    metrics: Arc<Metrics>,
    api: ApiServer,
    began: Now,
    now: Now,
    call: &'static CallKind,
    fault: Fault,
    /// When calls of the kind were made while they failed.
    tries: Vec<Duration>,
    answers: Vec<(Duration, Input)>,
    streams: Vec<Stream>,
    log: Arc<Mutex<Vec<u8>>>,
}

const PODS: &str = "/api/v1/namespaces/d/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/d/jobs";

impl World {
    fn new(call: &'static CallKind, fault: Fault) -> Self {
        let metrics = Arc::new(Metrics::default());
        let controllers = Controllers::default();
        let mode = Mode::Replace;
        let watched = Watched {
            kinds: kinds(controllers, false),
            namespaces: Vec::new(),
            finalizer: mode.finalizer(),
            api: None,
            summarizes_all: false,
            pages: PageBounds::default(),
        };
        let settings = Settings {
            controllers,
            mode,
            limits: Limits::default(),
            namespaces: Vec::new(),
            max_in_flight: 16,
            concurrent_cron_job_syncs: 5,
            concurrent_ttl_syncs: 5,
            scheduling_api: None,
            is_elected: true,
            summarizes_all: false,
            record_memory: RecordMemory::new(1 << 20),
            template_bytes: 1 << 20,
        };
        let election = LeaderElection {
            namespace: "kube-system".to_owned(),
            name: "lakh".to_owned(),
            identity: "one".to_owned(),
            timings: LeaseTimings::default(),
            partition: None,
        };
        let limiter = Arc::new(Limiter::new(Rate { qps: 0, burst: 0 }));
        let began = Now::at(Time::from_secs(1_767_225_630)) + Duration::from_secs(1_000);
        let mut world = Self {
            replica: Replica::new(&watched, &settings, Some(election), &limiter, &metrics),
            metrics,
            api: ApiServer::new(
                1,
                ServerLimits {
                    log_capacity: 10_000,
                },
                began.wall,
            ),
            began,
            now: began,
            call,
            fault,
            tries: Vec::new(),
            answers: Vec::new(),
            streams: Vec::new(),
            log: Arc::default(),
        };
        world.create_objects();
        world
    }

    fn elapsed(&self) -> Duration {
        self.now.monotonic.since(self.began.monotonic)
    }

    fn ask(&mut self, method: &str, path: &str, content_type: &str, body: &[u8]) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let asked = Asked {
            method,
            path,
            query,
            content_type,
            body,
            ..Asked::default()
        };
        let Reply::Complete(response) = self.api.handle_prepared(prepare(asked), self.now.wall)
        else {
            unreachable!("no watch");
        };
        let code = response.status;
        (
            code,
            serde_json::from_slice(&response.into_bytes()).unwrap_or_default(),
        )
    }

    fn create(&mut self, path: &str, object: &Value) -> Value {
        let body = object.to_string();
        let (code, made) = self.ask("POST", path, "application/json", body.as_bytes());
        assert_eq!(code, 201, "{made}");
        made
    }

    fn merge(&mut self, path: &str, change: &Value) {
        let body = change.to_string();
        let (code, answer) = self.ask(
            "PATCH",
            path,
            "application/merge-patch+json",
            body.as_bytes(),
        );
        assert_eq!(code, 200, "{answer}");
    }

    fn items(&mut self, path: &str) -> Vec<Value> {
        let (_, mut list) = self.ask("GET", path, "", b"");
        match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }
    }

    /// A Job of one Pod, one that loses its Pods when it is suspended, one with a TTL, one that finds a Pod to adopt, and a
    /// CronJob.
    fn create_objects(&mut self) {
        for namespace in ["d", "kube-system"] {
            let object = json!({"metadata": {"name": namespace}});
            let (code, answer) = self.ask(
                "POST",
                "/api/v1/namespaces",
                "application/json",
                object.to_string().as_bytes(),
            );
            assert!(matches!(code, 201 | 409), "{answer}");
        }
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let job = |name: &str, more: Value| {
            let mut spec = json!({"template": template.clone()});
            for (key, value) in more.as_object().expect("fields") {
                spec[key] = value.clone();
            }
            json!({"metadata": {"name": name}, "spec": spec})
        };
        self.create(JOBS, &job("one", json!({})));
        self.create(JOBS, &job("stops", json!({"parallelism": 1})));
        self.create(JOBS, &job("ttl", json!({"ttlSecondsAfterFinished": 10})));
        let adopts = self.create(JOBS, &job("adopts", json!({"suspend": true})));
        let mut orphan = json!({"metadata": {"name": "orphan"}, "spec": template["spec"]});
        orphan["metadata"]["labels"] = adopts["spec"]["selector"]["matchLabels"].clone();
        self.create(PODS, &orphan);
        let cron = json!({"metadata": {"name": "cron"}, "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"template": template}}}});
        self.create("/apis/batch/v1/namespaces/d/cronjobs", &cron);
    }

    /// Does what is to be done until then, or until all is done.
    fn run_until(&mut self, end: Duration) {
        let mut next_tick = self.elapsed();
        let mut ticks = 0;
        while self.elapsed() < end {
            if self.elapsed() >= next_tick {
                (next_tick, ticks) = (self.elapsed() + TICK, ticks + 1);
                self.run_pods();
                if ticks % 10 == 0 && self.unfinished().is_none() {
                    return;
                }
            }
            self.exchange();
            let due = self.replica.poll_timeout().left(self.now);
            let answers = self.answers.iter();
            let next = answers
                .map(|(at, _)| at.saturating_sub(self.elapsed()))
                .min();
            let tick = next_tick.saturating_sub(self.elapsed());
            let pause = tick.min(due.unwrap_or(tick)).min(next.unwrap_or(tick));
            self.now = self.now + pause.max(Duration::from_millis(1));
        }
    }

    /// Sends what is asked for, and delivers what is due, until there is nothing more.
    fn exchange(&mut self) {
        for _ in 0..1_000 {
            let mut is_quiet = true;
            while let Some(request) = self.replica.poll_request(self.now) {
                self.send(request);
                is_quiet = false;
            }
            while let Some(abandoned) = self.replica.poll_abandoned() {
                self.streams.retain(|stream| stream.id != abandoned);
            }
            let elapsed = self.elapsed();
            let (due, rest) = std::mem::take(&mut self.answers)
                .into_iter()
                .partition(|(at, _)| *at <= elapsed);
            self.answers = rest;
            for (_, input) in Vec::from_iter(due) {
                self.replica.handle(input, self.now);
                is_quiet = false;
            }
            is_quiet &= !self.pump();
            if is_quiet {
                return;
            }
        }
        panic!("it asks without end: {}", self.log_text());
    }

    fn send(&mut self, request: Request) {
        let Request { id, call, is_watch } = request;
        let elapsed = self.elapsed();
        if elapsed < FAILING && self.call.is_of(&call) {
            self.tries.push(elapsed);
            let (after, result) = match (self.fault.1)(&call.path) {
                Some(result) => (Duration::ZERO, result),
                None => (
                    CALL_TIMEOUT,
                    Err(ApiError::no_answer("no answer within 60 s")),
                ),
            };
            let inputs = match (is_watch, result) {
                (false, result) => vec![Input::Answer(id, result)],
                (true, Err(error)) => vec![Input::Ended(id, Some(error))],
                (true, Ok(body)) => {
                    vec![
                        Input::Opened(id, Encoding::Json),
                        Input::Piece(id, body),
                        Input::Ended(id, None),
                    ]
                }
            };
            self.answers
                .extend(inputs.into_iter().map(|input| (elapsed + after, input)));
            return;
        }
        let (path, query) = call.path.split_once('?').unwrap_or((&call.path, ""));
        let asked = Asked {
            method: call.method.as_str(),
            path,
            query,
            accept: call.accept,
            content_type: call.content_type.unwrap_or_default(),
            body: &call.body,
            ..Asked::default()
        };
        match self.api.handle_prepared(prepare(asked), self.now.wall) {
            Reply::Watch(cursor) => {
                self.replica
                    .handle(Input::Opened(id, Encoding::Json), self.now);
                let bookmark = elapsed + BOOKMARKS;
                self.streams.push(Stream {
                    id,
                    cursor,
                    bookmark,
                });
            }
            Reply::Complete(response) => {
                let code = response.status;
                let body = match response.body {
                    Body::Bytes(bytes) => bytes,
                    _ => response.into_bytes(),
                };
                let result = match code {
                    200..300 => Ok(Bytes::from(body)),
                    _ => Err(ApiError::from_response(code, &body, None)),
                };
                let input = match is_watch {
                    true => Input::Ended(id, result.err()),
                    false => Input::Answer(id, result),
                };
                self.answers.push((elapsed, input));
            }
        }
    }

    /// Sends what streams have; whether there was something.
    fn pump(&mut self) -> bool {
        let (elapsed, mut inputs) = (self.elapsed(), Vec::new());
        for stream in &mut self.streams {
            let mut bytes = Vec::new();
            let pulled = self.api.pull(&mut stream.cursor, 100);
            if !pulled.is_empty() {
                stream.cursor.encode(pulled, self.now.wall, &mut bytes);
            }
            if stream.bookmark <= elapsed {
                stream.bookmark = elapsed + BOOKMARKS;
                stream.cursor.encode_bookmark(&mut bytes);
            }
            if !bytes.is_empty() {
                inputs.push(Input::Piece(stream.id, bytes.into()));
            }
            if stream.cursor.ended() {
                inputs.push(Input::Ended(stream.id, None));
            }
        }
        self.streams.retain(|stream| !stream.cursor.ended());
        let has_some = !inputs.is_empty();
        for input in inputs {
            self.replica.handle(input, self.now);
        }
        has_some
    }

    /// Pods end after a while; the one of the Job that stops does not, until that has happened.
    fn run_pods(&mut self) {
        let (elapsed, now) = (self.elapsed(), self.now.wall);
        for pod in self.items(PODS) {
            let name = pod["metadata"]["name"].as_str().expect("a name").to_owned();
            let made = pod["metadata"]["creationTimestamp"]
                .as_str()
                .expect("a time");
            let made = Time::parse_rfc3339(made).expect("a time");
            let ends = !name.starts_with("stops") || elapsed > FAILING;
            let is_over = pod["status"]["phase"] == "Succeeded";
            if ends && !is_over && now.since(made) >= RUNS {
                let status = json!({"status": {"phase": "Succeeded"}});
                self.merge(&format!("{PODS}/{name}/status"), &status);
            }
        }
        let suspended = |is: bool| json!({"spec": {"suspend": is}});
        let at = |second: u64| {
            let second = Duration::from_secs(second);
            second <= elapsed && elapsed < second + Duration::from_secs(1)
        };
        if at(5) {
            self.merge(&format!("{JOBS}/stops"), &suspended(true));
            self.merge(&format!("{JOBS}/adopts"), &suspended(false));
        }
        if at(FAILING.as_secs() + 30) {
            self.merge(&format!("{JOBS}/stops"), &suspended(false));
        }
    }

    fn log_text(&self) -> String {
        String::from_utf8(self.log.lock().clone()).expect("text")
    }

    /// How often each message was logged at warn or above, by message and, where it has one, `what`.
    fn logged(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for line in self.log_text().lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let fields = &line["fields"];
            let message = fields["message"].as_str().unwrap_or_default();
            let of = ["kind", "verb", "resource", "what"].into_iter();
            let of: Vec<&str> = of.filter_map(|field| fields[field].as_str()).collect();
            let of = match of.as_slice() {
                [] => String::new(),
                words => format!(" ({})", words.join(" ")),
            };
            *counts.entry(format!("`{message}`{of}")).or_default() += 1;
        }
        joined(counts)
    }

    /// Warnings on Jobs and CronJobs, by reason, and how often each came.
    fn warnings(&mut self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for event in self.items("/api/v1/namespaces/d/events") {
            if event["type"] == "Warning" {
                let reason = event["reason"].as_str().unwrap_or_default();
                let count = event["count"].as_u64().unwrap_or(1);
                *counts.entry(format!("`{reason}`")).or_default() += count as usize;
            }
        }
        joined(counts)
    }

    /// What `/readyz` says at the end of the failures.
    fn readiness(&self) -> String {
        let now = self.now.monotonic;
        let grace = Duration::from_secs(30);
        let mut failed = Vec::new();
        if self
            .replica
            .missing()
            .is_some_and(|missing| !missing.is_empty())
        {
            failed.push("`caches`");
        }
        if !self.metrics.lost(grace, now).is_empty() {
            failed.push("`watches`");
        }
        if self.metrics.lease_problem(grace, now).is_some() {
            failed.push("`lease`");
        }
        match failed.as_slice() {
            [] => "ok".to_owned(),
            failed => format!("fails: {}", failed.join(" ")),
        }
    }

    /// When calls were made, in seconds after the first.
    fn waits(&self) -> String {
        let Some(first) = self.tries.first() else {
            return "–".to_owned();
        };
        let shown = self.tries.iter().take(6);
        let shown: Vec<String> = shown
            .map(|at| {
                let seconds = (*at - *first).as_secs_f64();
                if seconds.fract() < 0.05 {
                    format!("{seconds:.0}")
                } else {
                    format!("{seconds:.1}")
                }
            })
            .collect();
        format!("{}: {}", self.tries.len(), shown.join(", "))
    }

    /// What is not done yet, once and with nothing held back, after the calls have failed.
    fn unfinished(&mut self) -> Option<String> {
        if self.elapsed() < FAILING + Duration::from_secs(40) {
            return Some("it goes on".to_owned());
        }
        let (pods, jobs) = (self.items(PODS), self.items(JOBS));
        let is_over = |pod: &Value| pod["status"]["phase"] == "Succeeded";
        let is_held = |pod: &Value| {
            pod["metadata"]["finalizers"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
        };
        if let Some(held) = pods.iter().find(|pod| is_over(pod) && is_held(pod)) {
            return Some(format!("held back: {held}"));
        }
        for name in ["one", "stops", "adopts"] {
            let job = jobs.iter().find(|job| job["metadata"]["name"] == name);
            let Some(job) = job else {
                return Some(format!("{name} is gone"));
            };
            let is_own = |pod: &&Value| {
                pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
            };
            let own = pods
                .iter()
                .filter(is_own)
                .filter(|pod| is_over(pod))
                .count();
            if job["status"]["succeeded"] != 1 || own != 1 {
                return Some(format!("{name} has {own} ended Pods: {}", job["status"]));
            }
        }
        // A collector, which there is none here, would take its Pods and then the Job away.
        let stays = |job: &&Value| job["metadata"]["deletionTimestamp"].is_null();
        let mut staying = jobs.iter().filter(stays);
        if staying.any(|job| job["metadata"]["name"] == "ttl") {
            return Some("the TTL of a Job is over".to_owned());
        }
        let is_run = |job: &&Value| job["metadata"]["ownerReferences"][0]["kind"] == "CronJob";
        let runs = jobs.iter().filter(is_run);
        if runs.filter(|job| job["status"]["succeeded"] == 1).count() < 2 {
            return Some("the CronJob does not go on".to_owned());
        }
        Some(self.readiness()).filter(|readiness| readiness != "ok")
    }
}

fn joined(counts: BTreeMap<String, usize>) -> String {
    if counts.is_empty() {
        return "–".to_owned();
    }
    let each = counts
        .into_iter()
        .map(|(words, count)| format!("{words} ×{count}"));
    each.collect::<Vec<_>>().join("; ")
}

/// The row of a table, and what is wrong with it.
struct Row {
    text: String,
    wrong: Vec<String>,
}

/// Plays a row.
fn row(call: &'static CallKind, fault: Fault) -> Row {
    let mut world = World::new(call, fault);
    let log = Arc::clone(&world.log);
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || LogWriter(Arc::clone(&log)))
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        world.run_until(FAILING);
        let columns = [
            world.waits(),
            world.logged(),
            world.readiness(),
            world.warnings(),
        ];
        let mut wrong = Vec::new();
        if world.tries.is_empty() {
            wrong.push("no such call was made".to_owned());
        }
        if world.tries.len() > MOST_TRIES {
            wrong.push(format!("{} tries", world.tries.len()));
        }
        let lines = world.log_text().lines().count();
        if lines > MOST_LINES {
            wrong.push(format!("{lines} lines: {}", world.log_text()));
        }
        world.run_until(FAILING + HEALING);
        wrong.extend(world.unfinished());
        let name = format!("{}, {}", call.title, fault.0);
        Row {
            text: format!("| {} | {} |\n", fault.0, columns.join(" | ")),
            wrong: wrong
                .into_iter()
                .map(|wrong| format!("{name}: {wrong}"))
                .collect(),
        }
    })
}

/// The tables, and what is wrong with their rows.
fn tables() -> (String, Vec<String>) {
    let (mut page, mut wrong) = (String::new(), Vec::new());
    for call in CALLS {
        // Writing to a string does not fail.
        let _ = writeln!(page, "\n### {}\n", call.title);
        page.push_str(
            "| The call meets | tries in 90 s: when, in seconds | log, at warn | `/readyz` after 90 s | Warnings |\n",
        );
        page.push_str("|---|---|---|---|---|\n");
        for fault in FAULTS {
            let row = row(call, *fault);
            page.push_str(&row.text);
            wrong.extend(row.wrong);
        }
    }
    (page, wrong)
}

#[test]
#[ignore = "it takes a minute and a half: by hand, with LAKH_WRITE=1 to write the page"]
fn every_kind_of_call_fails_in_every_way_as_the_page_says() {
    let page = fs::read_to_string(PAGE).expect("the page is there");
    let (text, shown) = page.split_once(MARK).expect("the page has tables");
    let (tables, wrong) = tables();
    if std::env::var_os("LAKH_WRITE").is_some() {
        fs::write(PAGE, format!("{text}{MARK}{tables}")).expect("it can be written");
    } else {
        for (shown, played) in shown.lines().zip(tables.lines()) {
            assert_eq!(shown, played);
        }
        assert_eq!(shown.lines().count(), tables.lines().count());
    }
    assert_eq!(wrong, Vec::<String>::new());
}
