//! Tests the server as a whole without sockets: requests and responses.
//!
//! These tests need the server's clock, seed or state. Requests that a real server can answer, too, are cases in
//! `tests/conformance_api`, next to the real server's response.

mod access;
mod apply;
mod cron_jobs;
mod deletion;
mod events;
mod gang;
mod garbage;
mod jobs;
mod owners;
mod pods;
mod quota;
mod reads;
mod status;
mod tables;

use serde_json::{Value, json};

use super::*;
use crate::model::Time;

/// A server with a clock that tests advance.
struct Cluster {
    server: ApiServer,
    now: Time,
}

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const PODS: &str = "/api/v1/namespaces/default/pods";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

impl Cluster {
    fn new() -> Self {
        let now = Time::from_secs(1_000_000);
        Self {
            server: ApiServer::new(1, Limits { log_capacity: 1000 }, now),
            now,
        }
    }

    fn request(
        &mut self,
        method: &str,
        path: &str,
        media: &str,
        body: impl AsRef<[u8]>,
    ) -> Response {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let request = Request {
            method,
            path,
            query,
            accept: "application/json",
            content_type: media,
            body: body.as_ref(),
            ..Request::default()
        };
        match self.server.handle(request, self.now) {
            Reply::Complete(response) => response,
            Reply::Watch(_) => panic!("a watch was not expected"),
        }
    }

    fn send(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let media = if method == "PATCH" {
            MERGE
        } else {
            "application/json"
        };
        self.typed(method, path, media, body)
    }

    fn typed(&mut self, method: &str, path: &str, media: &str, body: &Value) -> (u16, Value) {
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let response = self.request(method, path, media, &text);
        let status = response.status;
        (
            status,
            serde_json::from_slice(&response.into_bytes()).unwrap(),
        )
    }

    fn get(&mut self, path: &str) -> Value {
        self.send("GET", path, &Value::Null).1
    }

    /// The table that `kubectl get` receives: columns with their priorities, and the cells of each row.
    fn table(&mut self, path: &str) -> (Vec<String>, Vec<String>) {
        let request = Request {
            method: "GET",
            path,
            query: "",
            accept: "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            content_type: "",
            body: b"",
            ..Request::default()
        };
        let Reply::Complete(response) = self.server.handle(request, self.now) else {
            panic!("a list is complete")
        };
        let table: Value = serde_json::from_slice(&response.into_bytes()).unwrap();
        let column = |column: &Value| {
            let (name, kind) = (column["name"].as_str(), column["type"].as_str());
            let priority = &column["priority"];
            format!("{} {} {priority}", name.unwrap(), kind.unwrap())
        };
        let columns = table["columnDefinitions"].as_array().unwrap();
        let rows = table["rows"].as_array().unwrap();
        let cells = |row: &Value| row["cells"].to_string();
        (
            columns.iter().map(column).collect(),
            rows.iter().map(cells).collect(),
        )
    }

    /// Sends a write that must succeed.
    fn ok(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.send(method, path, body);
        assert!(status < 300, "{method} {path}: {answer}");
        answer
    }

    /// The events of a kind so far: `ADDED a`, ...
    fn history(&self, kind: Kind) -> Vec<String> {
        let events = self.server.events(kind, 0, 1000).unwrap();
        events
            .iter()
            .map(|event| format!("{:?} {}", event.event_type, event.object.name))
            .collect()
    }

    fn collect(&mut self) {
        while self.server.collect_garbage(self.now, 3) {}
    }
}

/// Merges `change` into `base`, where null removes a member, to write small variations.
fn with(mut base: Value, change: &Value) -> Value {
    fn merge(base: &mut Value, change: &Value) {
        match (base, change) {
            (Value::Object(base), Value::Object(change)) => {
                for (name, value) in change {
                    if value.is_null() {
                        base.remove(name);
                    } else {
                        merge(base.entry(name.clone()).or_insert(Value::Null), value);
                    }
                }
            }
            (base, change) => *base = change.clone(),
        }
    }
    merge(&mut base, change);
    base
}

fn job(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i:1"}],
        }}},
    })
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]},
    })
}
