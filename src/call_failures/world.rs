//! A replica in virtual time before the embedded API server, whose calls of one kind fail for a while.
//!
//! Must not: know how a row is written, or judge anything but whether all is done in the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    controller::{LeaderElection, Part as _, Replica, kinds},
    election::LeaseTimings,
    embedded::apiserver::{
        ApiServer, Body, Limits as ServerLimits, Reply, Request as Asked, WatchCursor, prepare,
    },
    informer::{PageBounds, Watched},
    machine::{CallId, Input, Machine as _, Request},
    metrics::Metrics,
    model::{Limits, Monotonic, Now, Time},
    ownership::Mode,
    rate_limiter::{Limiter, Rate},
    shard::{Controllers, RecordMemory, Settings},
    wire::{ApiError, Encoding},
};

use super::{
    FAILING,
    calls::{CallKind, Fault},
    commands::Server,
};

/// How often the server sends bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// How often the nodes look at their Pods.
const TICK: Duration = Duration::from_millis(500);

/// How long a Pod runs.
const RUNS: Duration = Duration::from_secs(2);

/// How often the API server renews its own Lease.
const SERVER_RENEWS: Duration = Duration::from_secs(10);

/// How the metrics name the server.
const HOST: &str = "cluster";

const PODS: &str = "/api/v1/namespaces/d/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/d/jobs";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const SERVER_LEASE: &str = "apiserver-one";

/// Writes to a log that can be read meanwhile.
pub(super) struct LogWriter(pub(super) Arc<Mutex<Vec<u8>>>);

impl io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An answer under way.
struct Answer {
    at: Duration,
    input: Input,
    /// The method and status code of a call that it ends, for metrics.
    ends: Option<(http::Method, Option<u16>)>,
}

/// A stream that is open.
struct Stream {
    id: CallId,
    cursor: Box<WatchCursor>,
    bookmark: Duration,
}

/// See the module's text.
pub(super) struct World<'a> {
    replica: Replica,
    metrics: Arc<Metrics>,
    api: Arc<Mutex<ApiServer>>,
    began: Now,
    now: Now,
    call: &'static CallKind,
    fault: &'a Fault,
    /// When calls of the kind were made while they failed.
    pub(super) tries: Vec<Duration>,
    answers: Vec<Answer>,
    /// Pods that had lost the tracking finalizer before they ended: they do not count.
    let_go: BTreeSet<String>,
    /// When the API server renewed its own Lease.
    server_renewed: Duration,
    /// How many of the changes of Jobs were made that somebody makes.
    changes: u32,
    streams: Vec<Stream>,
    pub(super) log: Arc<Mutex<Vec<u8>>>,
}

impl<'a> World<'a> {
    pub(super) fn new(call: &'static CallKind, fault: &'a Fault) -> Self {
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
        let began = Now {
            wall: Time::from_secs(1_767_226_630),
            monotonic: Monotonic::from_millis(1),
        };
        let mut world = Self {
            replica: Replica::new(&watched, &settings, Some(election), &limiter, &metrics),
            metrics,
            api: Arc::new(Mutex::new(ApiServer::new(
                1,
                ServerLimits {
                    log_capacity: 10_000,
                },
                began.wall,
            ))),
            began,
            now: began,
            call,
            fault,
            tries: Vec::new(),
            answers: Vec::new(),
            let_go: BTreeSet::new(),
            server_renewed: Duration::ZERO,
            changes: 0,
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
        let prepared = prepare(asked);
        let Reply::Complete(response) = self.api.lock().handle_prepared(prepared, self.now.wall)
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
        let account = json!({"metadata": {"name": "lakh"}});
        self.create("/api/v1/namespaces/kube-system/serviceaccounts", &account);
        let lease =
            json!({"metadata": {"name": SERVER_LEASE}, "spec": {"holderIdentity": "server"}});
        self.create(LEASES, &lease);
        self.renew_server_lease();
    }

    /// Does what is to be done until then, or until all is done.
    pub(super) fn run_until(&mut self, end: Duration) {
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
                .map(|answer| answer.at.saturating_sub(self.elapsed()))
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
                .partition(|answer| answer.at <= elapsed);
            self.answers = rest;
            for answer in Vec::from_iter(due) {
                if let Some((method, code)) = answer.ends {
                    self.record_request(&method, code);
                }
                self.replica.handle(answer.input, self.now);
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
        if self.is_failing() && self.call.is_of(&call) {
            self.tries.push(elapsed);
            let (after, result) = self.fault.answer(self.call);
            let code = result.as_ref().map_or_else(|error| error.code, |_| 200);
            let mut ends = Some((call.method.clone(), Some(code).filter(|code| *code != 0)));
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
            self.answers.extend(inputs.into_iter().map(|input| Answer {
                at: elapsed + after,
                input,
                ends: ends.take(),
            }));
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
        let reply = self
            .api
            .lock()
            .handle_prepared(prepare(asked), self.now.wall);
        match reply {
            Reply::Watch(cursor) => {
                self.record_request(&call.method, Some(200));
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
                self.answers.push(Answer {
                    at: elapsed,
                    input,
                    ends: Some((call.method, Some(code))),
                });
            }
        }
    }

    /// Whether calls of the kind fail now.
    fn is_failing(&self) -> bool {
        (self.call.from..FAILING).contains(&self.elapsed())
    }

    /// Records a request as a client does.
    fn record_request(&self, method: &http::Method, code: Option<u16>) {
        let rest_client = &self.metrics.rest_client;
        rest_client.record(HOST, method, code, Duration::ZERO);
    }

    /// Sends what streams have; whether there was something.
    fn pump(&mut self) -> bool {
        let (elapsed, mut inputs) = (self.elapsed(), Vec::new());
        for stream in &mut self.streams {
            let mut bytes = Vec::new();
            let pulled = self.api.lock().pull(&mut stream.cursor, 100);
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
        if self.is_failing() && self.call.is_every_write() {
            return;
        }
        if elapsed >= self.server_renewed + SERVER_RENEWS {
            self.renew_server_lease();
        }
        for pod in self.items(PODS) {
            let name = pod["metadata"]["name"].as_str().expect("a name").to_owned();
            let made = pod["metadata"]["creationTimestamp"]
                .as_str()
                .expect("a time");
            let made = Time::parse_rfc3339(made).expect("a time");
            let ends = !name.starts_with("stops") || elapsed > FAILING;
            let is_over = pod["status"]["phase"] == "Succeeded";
            if pod["status"]["phase"] == "Pending" {
                let status = json!({"status": {"phase": "Running"}});
                self.merge(&format!("{PODS}/{name}/status"), &status);
            }
            if ends && !is_over && now.since(made) >= RUNS {
                let status = json!({"status": {"phase": "Succeeded"}});
                self.merge(&format!("{PODS}/{name}/status"), &status);
                let is_owned = !pod["metadata"]["ownerReferences"].is_null();
                if is_owned && !is_held(&pod) {
                    self.let_go.insert(name);
                }
            }
        }
        let suspended = |is: bool| json!({"spec": {"suspend": is}});
        if self.changes == 0 && elapsed >= Duration::from_secs(5) {
            self.changes = 1;
            self.merge(&format!("{JOBS}/stops"), &suspended(true));
            self.merge(&format!("{JOBS}/adopts"), &suspended(false));
        }
        if self.changes == 1 && elapsed >= FAILING + Duration::from_secs(30) {
            self.changes = 2;
            self.merge(&format!("{JOBS}/stops"), &suspended(false));
        }
    }

    /// The API server renews its own Lease.
    fn renew_server_lease(&mut self) {
        self.server_renewed = self.elapsed();
        let renewed = self.now.wall.to_rfc3339_micros();
        let spec = json!({"spec": {"renewTime": renewed, "leaseDurationSeconds": 3600}});
        self.merge(&format!("{LEASES}/{SERVER_LEASE}"), &spec);
    }

    /// The server, for commands that ask it now.
    pub(super) fn server(&self) -> Server {
        Server {
            api: Arc::clone(&self.api),
            now: self.now.wall,
            missing_right: self.fault.lacks_right.then_some(self.call),
        }
    }

    /// The names of all Jobs.
    pub(super) fn job_names(&mut self) -> Vec<String> {
        let jobs = self.items(JOBS);
        let names = jobs
            .iter()
            .filter_map(|job| job["metadata"]["name"].as_str());
        names.map(str::to_owned).collect()
    }

    /// Whether Pods of a Job or Warnings about it show that a controller works on it.
    pub(super) fn shows_controller(&mut self, name: &str) -> bool {
        let jobs = self.items(JOBS);
        let job = jobs.iter().find(|job| job["metadata"]["name"] == name);
        let uid = job.map_or(Value::Null, |job| job["metadata"]["uid"].clone());
        let has_pods = self
            .items(PODS)
            .iter()
            .any(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == uid);
        let is_warning =
            |event: &Value| event["type"] == "Warning" && event["involvedObject"]["uid"] == uid;
        has_pods
            || self
                .items("/api/v1/namespaces/d/events")
                .iter()
                .any(is_warning)
    }

    /// All metrics, as a scrape shows them.
    pub(super) fn metrics_text(&self) -> String {
        self.metrics.text(self.now.monotonic)
    }

    pub(super) fn log_text(&self) -> String {
        String::from_utf8(self.log.lock().clone()).expect("text")
    }

    /// How often each message was logged at warn or above, by message and, where it has one, `what`.
    pub(super) fn logged(&self) -> String {
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
    pub(super) fn warnings(&mut self) -> String {
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
    pub(super) fn readiness(&self) -> String {
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
    pub(super) fn waits(&self) -> String {
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
    pub(super) fn unfinished(&mut self) -> Option<String> {
        if self.elapsed() < FAILING + Duration::from_secs(40) {
            return Some("it goes on".to_owned());
        }
        let (pods, jobs) = (self.items(PODS), self.items(JOBS));
        let is_over = |pod: &Value| pod["status"]["phase"] == "Succeeded";
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
            let own = pods.iter().filter(is_own).filter(|pod| is_over(pod));
            let is_let_go = |pod: &&Value| {
                let name = pod["metadata"]["name"].as_str();
                name.is_some_and(|name| self.let_go.contains(name))
            };
            let (let_go, counted): (Vec<&Value>, Vec<&Value>) = own.partition(is_let_go);
            if job["status"]["succeeded"] != 1 || counted.len() != 1 {
                let counted = counted.len();
                return Some(format!(
                    "{name} has {counted} Pods that count: {}",
                    job["status"]
                ));
            }
            // The finalizer goes before the Pod, and a Pod whose deletion fails then runs on uncounted, as with the
            // built-in controller.
            let may_run_on = name != "one" && self.call.right == ("delete", "", "pods");
            if let_go.len() > usize::from(may_run_on) {
                return Some(format!(
                    "{name} has {} Pods that do not count",
                    let_go.len()
                ));
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

/// Whether a Pod has a finalizer.
fn is_held(pod: &Value) -> bool {
    let finalizers = pod["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| !all.is_empty())
}

/// Words with how often each came.
fn joined(counts: BTreeMap<String, usize>) -> String {
    if counts.is_empty() {
        return "–".to_owned();
    }
    let each = counts
        .into_iter()
        .map(|(words, count)| format!("{words} ×{count}"));
    each.collect::<Vec<_>>().join("; ")
}
