//! Measures speed and memory of the embedded API server over loopback, client included. A client with 64 requests in
//! flight creates 100,000 Pods, lists them, finishes them and removes their finalizers, beside one watcher.
//!
//! It only reports; it asserts nothing but successful responses.
#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]
#![allow(clippy::print_stdout, reason = "a benchmark's result")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use lakh::embedded::{
    apiserver::Kind,
    serve::{self, ServeOptions, SharedApi},
};
use mimalloc::MiMalloc;
use serde_json::{Value, json};
use tokio::{net::TcpStream, runtime::Runtime};

/// The allocator of the binaries.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const PODS: usize = 100_000;
const UNDER_WAY: usize = 64;
/// The event log is bounded, so its content does not count as memory per Pod. This length suffices for the watcher.
const FEW_EVENTS: usize = 20_000;
const PATH: &str = "/api/v1/namespaces/default/pods";

type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

/// One request about one Pod.
struct Call {
    method: &'static str,
    path: String,
    media: &'static str,
    body: String,
}

async fn connect(address: &str) -> Sender {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn send(sender: &mut Sender, call: Call) -> Incoming {
    let request = http::Request::builder()
        .method(call.method)
        .uri(&call.path)
        .header("host", "localhost")
        .header("content-type", call.media)
        .body(Full::new(Bytes::from(call.body)));
    let response = sender.send_request(request.unwrap()).await.unwrap();
    let status = response.status();
    assert!(status.is_success(), "{}: {status}", call.path);
    response.into_body()
}

async fn get(sender: &mut Sender, path: &str) -> Bytes {
    let call = Call {
        method: "GET",
        path: path.to_owned(),
        media: "",
        body: String::new(),
    };
    let body = send(sender, call).await;
    body.collect().await.unwrap().to_bytes()
}

/// Reads a watch of all Pods and counts its events, without end.
async fn watch(address: String, events: Arc<AtomicUsize>) {
    let mut sender = connect(&address).await;
    let call = Call {
        method: "GET",
        path: "/api/v1/pods?watch=1&resourceVersion=1".to_owned(),
        media: "",
        body: String::new(),
    };
    let mut body = send(&mut sender, call).await;
    while let Some(frame) = body.frame().await {
        let bytes = frame.unwrap().into_data().unwrap();
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        events.fetch_add(lines, Ordering::Relaxed);
    }
}

/// Sends one request per Pod over all connections, waits until the watcher has the resulting events, and prints the
/// rate.
async fn measure(
    what: &str,
    address: &str,
    events: &AtomicUsize,
    call: impl Fn(usize) -> Call + Send + Sync + 'static,
) {
    let expected = events.load(Ordering::Relaxed) + PODS;
    let next = Arc::new(AtomicUsize::new(0));
    let call = Arc::new(call);
    let start = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..UNDER_WAY {
        let mut sender = connect(address).await;
        let (next, call) = (Arc::clone(&next), Arc::clone(&call));
        tasks.push(tokio::spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= PODS {
                    return;
                }
                let body = send(&mut sender, call(index)).await;
                body.collect().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let answered = start.elapsed();
    while events.load(Ordering::Relaxed) < expected {
        tokio::task::yield_now().await;
    }
    let behind = start.elapsed() - answered;
    let rate = PODS as f64 / answered.as_secs_f64();
    println!("{what}: {rate:.0}/s; the watcher had the last event {behind:.1?} later");
}

/// The owner of the Pods. The garbage collector would delete Pods without an existing owner.
fn job() -> Call {
    let container = json!({"name": "main", "image": "busybox:1.36"});
    let job = json!({
        "metadata": {"name": "demo"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    });
    Call {
        method: "POST",
        path: "/apis/batch/v1/namespaces/default/jobs".to_owned(),
        media: "application/json",
        body: job.to_string(),
    }
}

fn create(index: usize, controller: &str) -> Call {
    let pod = json!({
        "metadata": {
            "generateName": format!("demo-{index}-"),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "demo",
                "uid": controller, "controller": true, "blockOwnerDeletion": true}],
            "labels": {
                "batch.kubernetes.io/controller-uid": controller,
                "batch.kubernetes.io/job-completion-index": index.to_string(),
                "batch.kubernetes.io/job-name": "demo",
                "controller-uid": controller,
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
    });
    Call {
        method: "POST",
        path: PATH.to_owned(),
        media: "application/json",
        body: pod.to_string(),
    }
}

fn finish(name: &str) -> Call {
    let status = json!({"status": {"phase": "Succeeded", "containerStatuses": [
        {"name": "main", "image": "busybox:1.36", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0}}}]}});
    Call {
        method: "PATCH",
        path: format!("{PATH}/{name}/status"),
        media: "application/merge-patch+json",
        body: status.to_string(),
    }
}

fn free(name: &str) -> Call {
    let patch = json!({"metadata": {
        "$deleteFromPrimitiveList/finalizers": ["batch.kubernetes.io/job-tracking"]}});
    Call {
        method: "PATCH",
        path: format!("{PATH}/{name}"),
        media: "application/strategic-merge-patch+json",
        body: patch.to_string(),
    }
}

/// The resident memory of the process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kib.unwrap_or_default() * 1024
}

/// Prints the memory per Pod beyond its JSON: the growth of the process since it was empty.
fn report_memory(when: &str, api: &SharedApi, empty: usize) {
    let (pods, _) = api.objects(Kind::Pod);
    let json: usize = pods.iter().map(|pod| pod.bytes().len()).sum();
    let beyond = resident().saturating_sub(empty + json) / pods.len();
    let json = json / pods.len();
    println!("memory, {when}: {beyond} bytes a Pod beyond {json} of JSON");
}

async fn run(log_capacity: Option<usize>) {
    let options = ServeOptions {
        log_capacity,
        ..ServeOptions::default()
    };
    let server = serve::start(options).await.unwrap();
    let url = server.url();
    let address = url.trim_start_matches("http://");
    let empty = resident();
    let events = Arc::new(AtomicUsize::new(0));
    let watcher = tokio::spawn(watch(address.to_owned(), Arc::clone(&events)));

    let mut sender = connect(address).await;
    let job = send(&mut sender, job()).await.collect().await.unwrap();
    let job: Value = serde_json::from_slice(&job.to_bytes()).unwrap();
    let uid = job["metadata"]["uid"].as_str().unwrap().to_owned();
    let creates = move |index| create(index, &uid);
    measure("creates", address, &events, creates).await;
    // Only in the first run: memory of earlier Pods would distort the figure.
    let report_memory = |when: &str| {
        if log_capacity.is_some() {
            report_memory(when, &server.api(), empty);
        }
    };
    report_memory("Pods created");
    for _ in 0..2 {
        let start = Instant::now();
        let list = get(&mut sender, PATH).await;
        let megabytes = list.len() / 1_000_000;
        println!("list: {megabytes} MB in {:.2?}", start.elapsed());
    }
    let (pods, _) = server.api().objects(Kind::Pod);
    let names: Arc<[String]> = pods.iter().map(|pod| pod.name.to_string()).collect();
    drop(pods);
    let running = Arc::clone(&names);
    let finishes = move |index: usize| finish(&running[index]);
    measure("status patches", address, &events, finishes).await;
    let frees = move |index: usize| free(&names[index]);
    measure("finalizer patches", address, &events, frees).await;
    report_memory("Pods finished");

    watcher.abort();
    server.shutdown().await;
}

fn main() {
    let runtime = Runtime::new().unwrap();
    println!("{FEW_EVENTS} events kept:");
    runtime.block_on(run(Some(FEW_EVENTS)));
    println!("as many events kept as usual:");
    runtime.block_on(run(None));
}
