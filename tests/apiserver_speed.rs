//! Measures the embedded API server over loopback, client included. Run it by hand:
//! `cargo test --release --test apiserver_speed -- --ignored --nocapture`.
#![cfg(feature = "runtime")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "it reports figures to whoever runs it")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use lakh::serve::{self, ServeOptions};
use serde_json::json;
use tokio::net::TcpStream;

const PODS: usize = 100_000;
const CONNECTIONS: usize = 32;
const PATH: &str = "/api/v1/namespaces/default/pods";

type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

async fn connect(address: &str) -> Sender {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

async fn send(sender: &mut Sender, method: &str, path: &str, media: &str, body: String) -> Bytes {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", media)
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert!(
        response.status().is_success(),
        "{path}: {}",
        response.status()
    );
    response.into_body().collect().await.unwrap().to_bytes()
}

/// Sends one request per Pod over all connections and says how fast that was.
async fn measure(
    what: &str,
    address: &str,
    request: impl Fn(usize) -> (&'static str, String, &'static str, String) + Send + Sync + 'static,
) {
    let next = Arc::new(AtomicUsize::new(0));
    let request = Arc::new(request);
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut sender = connect(address).await;
        let (next, request) = (Arc::clone(&next), Arc::clone(&request));
        tasks.push(tokio::spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= PODS {
                    return;
                }
                let (method, path, media, body) = request(index);
                send(&mut sender, method, &path, media, body).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let took = start.elapsed();
    println!("{what}: {:.0}/s", PODS as f64 / took.as_secs_f64());
}

fn pod(index: usize) -> String {
    json!({
        "metadata": {
            "generateName": format!("demo-{index}-"),
            "labels": {
                "batch.kubernetes.io/controller-uid": "f6c9a3e1-6f8e-4a58-9d5e-000000000000",
                "batch.kubernetes.io/job-completion-index": index.to_string(),
                "batch.kubernetes.io/job-name": "demo",
                "controller-uid": "f6c9a3e1-6f8e-4a58-9d5e-000000000000",
                "job-name": "demo",
            },
            "annotations": {"batch.kubernetes.io/job-completion-index": index.to_string()},
            "finalizers": ["batch.kubernetes.io/job-tracking"],
        },
        "spec": {
            "restartPolicy": "Never",
            "hostname": format!("demo-{index}"),
            "containers": [{
                "name": "main", "image": "busybox:1.36", "command": ["sleep", "1"],
                "env": [{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {
                    "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']",
                }}}],
            }],
        },
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, for release builds on a quiet machine"]
async fn speed() {
    let server = serve::start(ServeOptions { port: 0, seed: 1 })
        .await
        .unwrap();
    let url = server.url();
    let address = url.trim_start_matches("http://");
    measure("creates", address, |index| {
        ("POST", PATH.to_owned(), "application/json", pod(index))
    })
    .await;
    let mut sender = connect(address).await;
    for round in 0..2 {
        let start = Instant::now();
        let list = send(&mut sender, "GET", PATH, "", String::new()).await;
        println!(
            "list {round}: {} MB in {:?}",
            list.len() / 1_000_000,
            start.elapsed()
        );
    }
    let (pods, _) = server.api().objects(lakh::apiserver::Kind::Pod);
    let names: Vec<String> = pods.iter().map(|pod| pod.name.to_string()).collect();
    let names = Arc::new(names);
    let running = Arc::clone(&names);
    measure("status patches", address, move |index| {
        let status = json!({"status": {"phase": "Succeeded", "containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": 0}}}]}});
        let path = format!("{PATH}/{}/status", running[index]);
        (
            "PATCH",
            path,
            "application/merge-patch+json",
            status.to_string(),
        )
    })
    .await;
    measure("finalizer patches", address, move |index| {
        let patch = json!({"metadata": {
            "$deleteFromPrimitiveList/finalizers": ["batch.kubernetes.io/job-tracking"]}});
        let path = format!("{PATH}/{}", names[index]);
        (
            "PATCH",
            path,
            "application/strategic-merge-patch+json",
            patch.to_string(),
        )
    })
    .await;
    server.shutdown().await;
}
