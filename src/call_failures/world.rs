//! Runs a replica in virtual time against the embedded API server. Its calls of one kind fail for a while.
//!
//! Must not: know how a row is written, or judge anything except whether all work is done in the end.

mod seen;

use std::{collections::BTreeSet, io, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    controller::{LeaderElection, Replica, kinds},
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
};

/// The period of the server's bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// The period in which the nodes check their Pods.
const TICK: Duration = Duration::from_millis(500);

/// The run time of a Pod.
const RUNS: Duration = Duration::from_secs(2);

/// The period in which the API server renews its own Lease.
const SERVER_RENEWS: Duration = Duration::from_secs(10);

/// The name of the server in metrics.
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

/// A response in flight.
struct PendingAnswer {
    at: Duration,
    input: Input,
    /// The method and status code of the call that it ends, for metrics.
    ends: Option<(http::Method, Option<u16>)>,
}

/// An open watch.
struct OpenStream {
    id: CallId,
    cursor: Box<WatchCursor>,
    bookmark: Duration,
}

/// A replica, its API server with Jobs and their Pods, and the calls between them. [`Self::run_until`] advances the
/// time.
pub(super) struct World<'a> {
    replica: Replica,
    metrics: Arc<Metrics>,
    api: Arc<Mutex<ApiServer>>,
    began: Now,
    now: Now,
    call: &'static CallKind,
    fault: &'a Fault,
    /// Times of the calls of the kind while they failed.
    pub(super) tries: Vec<Duration>,
    answers: Vec<PendingAnswer>,
    /// Pods that lost the tracking finalizer before they ended: they do not count.
    let_go: BTreeSet<String>,
    /// When the API server renewed its own Lease.
    server_renewed: Duration,
    /// The number of changes that users have made to Jobs.
    changes: u32,
    streams: Vec<OpenStream>,
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

    /// Creates four Jobs and a CronJob. One Job has one Pod, one is suspended and loses its Pods, one has a TTL, and
    /// one has a Pod to adopt.
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

    /// Advances the time to `end`, or until all work is done.
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

    /// Sends requests and delivers due responses until there are none.
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
            self.answers
                .extend(inputs.into_iter().map(|input| PendingAnswer {
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
                self.streams.push(OpenStream {
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
                self.answers.push(PendingAnswer {
                    at: elapsed,
                    input,
                    ends: Some((call.method, Some(code))),
                });
            }
        }
    }

    /// Returns true while calls of the kind fail.
    fn is_failing(&self) -> bool {
        (self.call.from..FAILING).contains(&self.elapsed())
    }

    /// Records a request as a client does.
    fn record_request(&self, method: &http::Method, code: Option<u16>) {
        let rest_client = &self.metrics.rest_client;
        rest_client.record(HOST, method, code, Duration::ZERO);
    }

    /// Delivers pending watch events. Returns false if there were none.
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

    /// Ends Pods after their run time. Pods of the Job `stops` run at least until the calls no longer fail.
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

    /// Renews the API server's own Lease.
    fn renew_server_lease(&mut self) {
        self.server_renewed = self.elapsed();
        let renewed = self.now.wall.to_rfc3339_micros();
        let spec = json!({"spec": {"renewTime": renewed, "leaseDurationSeconds": 3600}});
        self.merge(&format!("{LEASES}/{SERVER_LEASE}"), &spec);
    }
}

/// Returns true if a Pod has a finalizer.
fn is_held(pod: &Value) -> bool {
    let finalizers = pod["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| !all.is_empty())
}
