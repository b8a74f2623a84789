//! Runs an API server with a few objects and checks the invariants of all its responses.
//!
//! Responsible for: sending requests and reading responses to the end. Must not: know targets.

use std::time::Duration;

use lakh_embedded::apiserver::{ApiServer, JSON, Limits, Reply, Request};
use lakh_model::Time;
use serde_json::Value;

/// The time of all requests.
pub(super) const NOW: Time = Time::from_secs(1_800_000_000);
/// The path of Jobs.
pub(super) const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
/// The path of Pods.
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";

const OBJECTS: [(&str, &str); 5] = [
    (
        JOBS,
        r#"{"metadata": {"name": "j", "labels": {"a": "b"}}, "spec": {"suspend": true,
            "completionMode": "Indexed", "completions": 3, "parallelism": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [
                {"name": "c", "image": "i", "env": [{"name": "E", "value": "1"}]}]}}}}"#,
    ),
    (
        PODS,
        r#"{"metadata": {"name": "p", "labels": {"a": "b", "n": "5"}, "finalizers": ["x/y"]},
            "spec": {"nodeName": "n", "tolerations": [{"operator": "Exists"}], "containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}}"#,
    ),
    (
        PODS,
        r#"{"metadata": {"name": "q"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}"#,
    ),
    (
        CRON_JOBS,
        r#"{"metadata": {"name": "k"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec":
            {"template": {"spec": {"restartPolicy": "Never", "containers": [
                {"name": "c", "image": "i"}]}}}}}}"#,
    ),
    ("/api/v1/nodes", r#"{"metadata": {"name": "n"}}"#),
];

/// One request.
#[derive(Default)]
pub(super) struct Send<'a> {
    pub(super) method: &'a str,
    /// With the query, if any.
    pub(super) path: &'a str,
    pub(super) accept: &'a str,
    pub(super) media: &'a str,
    pub(super) body: &'a [u8],
}

/// The API server under test.
pub(super) struct Cluster(ApiServer);

impl Cluster {
    /// Creates a server with a Job, two Pods, a CronJob and a node.
    pub(super) fn new() -> Self {
        let mut cluster = Self(ApiServer::new(1, Limits { log_capacity: 100 }, NOW));
        for (path, body) in OBJECTS {
            let (status, answer) = cluster.send(&Send {
                method: "POST",
                path,
                accept: JSON,
                media: JSON,
                body: body.as_bytes(),
            });
            assert_eq!(status, 201, "{answer}");
        }
        cluster
    }

    /// Returns the response to a request, or the initial events of a watch. A JSON body must parse. A JSON error must
    /// be a Status with the response's code.
    pub(super) fn send(&mut self, send: &Send<'_>) -> (u16, Value) {
        let (path, query) = send.path.split_once('?').unwrap_or((send.path, ""));
        let request = Request {
            method: send.method,
            path,
            query,
            accept: send.accept,
            content_type: send.media,
            body: send.body,
            ..Request::default()
        };
        match self.0.handle(request, NOW) {
            Reply::Watch(mut cursor) => {
                let mut frames = Vec::new();
                let pulled = self.0.pull(&mut cursor, usize::MAX);
                cursor.encode(pulled, NOW, &mut frames);
                cursor.encode_bookmark(&mut frames);
                let lines = frames.split(|byte| *byte == b'\n');
                let full = lines.filter(|line| !line.is_empty());
                (200, full.map(json).collect())
            }
            Reply::Complete(response) => {
                let status = response.status;
                let is_json = response.content_type.starts_with(JSON);
                let bytes = response.into_bytes();
                let answer = if is_json { json(&bytes) } else { Value::Null };
                if status >= 400 && is_json {
                    assert_eq!(answer["kind"], "Status", "{status}: {answer}");
                    assert_eq!(answer["code"], status, "{answer}");
                }
                (status, answer)
            }
        }
    }

    /// The response to a GET.
    pub(super) fn get(&mut self, path: &str) -> (u16, Value) {
        self.send(&Send {
            method: "GET",
            path,
            accept: JSON,
            ..Send::default()
        })
    }

    /// Runs the garbage collector now, and again when all grace periods are over.
    pub(super) fn collect_garbage(&mut self) {
        let later = NOW + Duration::from_secs(3600);
        for now in [NOW, later] {
            while self.0.collect_garbage(now, 100) {}
        }
    }
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("answers in JSON are JSON")
}
