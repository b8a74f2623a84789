//! Drives the embedded API server over HTTP as any client would.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use lakh::embedded::serve::{self, ServeOptions, ServerHandle};
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// Starts a server and its client.
async fn start() -> (ServerHandle, Client) {
    let options = ServeOptions {
        seed: 1,
        ..ServeOptions::default()
    };
    let server = serve::start(options).await.unwrap();
    let client = Client::new(&server);
    (server, client)
}

/// One HTTP client; each request has its own connection.
struct Client {
    address: String,
}

impl Client {
    fn new(server: &ServerHandle) -> Self {
        Self {
            address: server.url().trim_start_matches("http://").to_owned(),
        }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: String,
    ) -> http::Response<Incoming> {
        let headers = [("content-type", content_type)];
        self.exchange(method, path, &headers, body.into()).await
    }

    async fn exchange(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> http::Response<Incoming> {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        let mut request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).unwrap();
        sender.send_request(request).await.unwrap()
    }

    async fn json(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.typed(method, path, "application/json", body).await
    }

    async fn typed(&self, method: &str, path: &str, media: &str, body: Value) -> (u16, Value) {
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let response = self.send(method, path, media, text).await;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    /// Opens a watch; events come one by one from [`Watch::next`].
    async fn watch(&self, path: &str) -> Watch {
        let response = self
            .send("GET", path, "application/json", String::new())
            .await;
        assert_eq!(response.status(), 200);
        Watch {
            body: response.into_body(),
            rest: Vec::new(),
        }
    }
}

struct Watch {
    body: Incoming,
    rest: Vec<u8>,
}

impl Watch {
    /// The next event as `TYPE name version`, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                return Some((
                    event["type"].as_str().unwrap().to_owned(),
                    event["object"].clone(),
                ));
            }
            let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame())
                .await
                .unwrap()?;
            self.rest
                .extend_from_slice(frame.unwrap().data_ref().unwrap());
        }
    }
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "finalizers": ["batch.kubernetes.io/job-tracking"]},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]},
    })
}

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn the_life_of_a_pod_is_seen_by_a_watcher() {
    let (server, client) = start().await;
    let (status, created) = client.json("POST", PODS, pod("a")).await;
    assert_eq!(status, 201, "{created}");
    assert_eq!(
        created["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    let version = created["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();

    let (status, error) = client.json("POST", PODS, pod("a")).await;
    assert_eq!(
        (status, error["reason"].as_str()),
        (409, Some("AlreadyExists"))
    );

    let mut watch = client
        .watch(&format!("{PODS}?watch=1&resourceVersion={version}"))
        .await;
    let merge = "application/merge-patch+json";
    let (status, _) = client
        .typed(
            "PATCH",
            &format!("{PODS}/a"),
            merge,
            json!({"metadata": {"labels": {"x": "y"}}}),
        )
        .await;
    assert_eq!(status, 200);
    let stale = json!({"metadata": {"resourceVersion": version, "labels": {"x": "z"}}});
    let (status, error) = client
        .typed("PATCH", &format!("{PODS}/a"), merge, stale)
        .await;
    assert_eq!((status, error["reason"].as_str()), (409, Some("Conflict")));

    let (status, deleted) = client
        .json("DELETE", &format!("{PODS}/a"), Value::Null)
        .await;
    assert_eq!(status, 200);
    assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], 0);
    let strategic = "application/strategic-merge-patch+json";
    let patch = json!({"metadata": {
        "uid": created["metadata"]["uid"],
        "$deleteFromPrimitiveList/finalizers": ["batch.kubernetes.io/job-tracking"],
    }});
    let (status, last) = client
        .typed("PATCH", &format!("{PODS}/a"), strategic, patch)
        .await;
    assert_eq!(status, 200);
    assert_eq!(
        last["metadata"]["resourceVersion"],
        deleted["metadata"]["resourceVersion"]
    );

    let mut seen = Vec::new();
    for _ in 0..3 {
        let (event, object) = watch.next().await.unwrap();
        seen.push((event, object["metadata"]["finalizers"].is_array()));
    }
    let expected = [("MODIFIED", true), ("MODIFIED", true), ("DELETED", true)];
    let seen: Vec<(&str, bool)> = seen
        .iter()
        .map(|(event, held)| (event.as_str(), *held))
        .collect();
    assert_eq!(seen, expected);
    server.shutdown().await;
}

#[tokio::test]
async fn a_streaming_list_ends_with_a_bookmark() {
    let (server, client) = start().await;
    for name in ["b", "a"] {
        assert_eq!(client.json("POST", PODS, pod(name)).await.0, 201);
    }
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true&timeoutSeconds=1";
    let mut watch = client.watch(&format!("/api/v1/pods?{query}")).await;
    let mut seen = Vec::new();
    while let Some((event, object)) = watch.next().await {
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or("-")
            .to_owned();
        if event == "BOOKMARK" {
            let mark = &object["metadata"]["annotations"]["k8s.io/initial-events-end"];
            assert_eq!(mark, "true");
        }
        seen.push(format!("{event} {name}"));
    }
    assert_eq!(seen, ["ADDED a", "ADDED b", "BOOKMARK -"]);
    server.shutdown().await;
}

#[tokio::test]
async fn errors_have_kubernetes_shapes() {
    let (server, client) = start().await;
    let (status, error) = client.json("GET", &format!("{PODS}/x"), Value::Null).await;
    assert_eq!(status, 404);
    assert_eq!(
        error,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "pods \"x\" not found", "reason": "NotFound",
            "details": {"name": "x", "kind": "pods"}, "code": 404,
        })
    );
    let (status, _) = client
        .json("GET", "/apis/batch/v1/nonsense", Value::Null)
        .await;
    assert_eq!(status, 404);
    let page = |limit: &str| format!("{PODS}?limit=1{limit}");
    for name in ["a", "b"] {
        client.json("POST", PODS, pod(name)).await;
    }
    let (_, first) = client.json("GET", &page(""), Value::Null).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = client
        .json("GET", &page(&format!("&continue={token}")), Value::Null)
        .await;
    assert_eq!(second["items"][0]["metadata"]["name"], "b");
    assert!(second["metadata"].get("continue").is_none());
    server.shutdown().await;
}

#[tokio::test]
async fn clients_that_like_protobuf_get_json() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let (server, client) = start().await;
    // Clients made with client-go send this for the types they know.
    let media = "application/vnd.kubernetes.protobuf";
    let accept = [(
        "accept",
        "application/vnd.kubernetes.protobuf,application/json",
    )];
    let both = [accept[0], ("content-type", media)];
    let message = |number: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).unwrap();
        [&[number << 3 | 2, length], content].concat()
    };
    let head = [message(1, b"v1"), message(2, b"Pod")].concat();
    let container = [message(1, b"c"), message(2, b"busybox")].concat();
    let pod = [
        message(1, &message(1, b"p")),
        message(2, &message(2, &container)),
    ];
    let body = [
        b"k8s\0".to_vec(),
        message(1, &head),
        message(2, &pod.concat()),
    ]
    .concat();
    let created = client.exchange("POST", PODS, &both, body.into()).await;
    assert_eq!(created.status(), 201);
    let watch = format!("{PODS}?watch=true&timeoutSeconds=1");
    for path in [PODS, &format!("{PODS}/p"), &watch, "/apis", "/version"] {
        let answer = client.exchange("GET", path, &accept, Bytes::new()).await;
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(
            answer.headers()["content-type"],
            "application/json",
            "{path}"
        );
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap();
        let _: Value = serde_json::from_slice(first).unwrap();
    }
    // A client that accepts only protobuf is refused, as for types without protobuf.
    let only = [("accept", media)];
    let answer = client.exchange("GET", PODS, &only, Bytes::new()).await;
    assert_eq!(answer.status(), 406);
    server.shutdown().await;
}
