//! Shared helpers of the end-to-end tests: the binary, an embedded cluster, and queries over HTTP.

#![allow(unreachable_pub, reason = "for all tests beside it")]

pub mod kubectl;
pub mod logged;
pub mod manifests;
pub mod npm;
pub mod promql;
pub mod proxy;
pub mod python;
pub mod serving;
pub mod tmux;

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use lakh::{
    client::{self, Client},
    clock::Clock,
    embedded::{ClusterOptions, EmbeddedCluster, ServeOptions, kubelet::KubeletOptions},
    model::Limits,
    runtime::{Controller, Options},
};
use serde_json::{Value, json};
use tempfile::TempDir;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The finalizer that keeps Pods until they are counted.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// Returns a command for the binary under test, in the project's folder.
pub fn lakh(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lakh"));
    command
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("KUBECONFIG");
    command
}

/// A process that is killed on drop, so that it ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the binary to its end.
pub fn run(args: &[&str]) -> Output {
    lakh(args).output().expect("the binary runs")
}

/// Runs the binary to its end, with a text on its standard input.
pub fn run_with_input(args: &[&str], input: &str) -> Output {
    let mut command = lakh(args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let mut stdin = child.stdin.take().expect("standard input is piped");
    stdin.write_all(input.as_bytes()).expect("the binary reads");
    drop(stdin);
    child.wait_with_output().expect("the binary ends")
}

/// Starts a cluster with this duration of Pods.
pub async fn cluster(pod_duration: Duration) -> EmbeddedCluster {
    cluster_by(&Clock::default(), pod_duration).await
}

/// Starts such a cluster with a given clock.
pub async fn cluster_by(clock: &Clock, pod_duration: Duration) -> EmbeddedCluster {
    let kubelet = KubeletOptions {
        default_duration: pod_duration,
        ..KubeletOptions::with_nodes(3)
    };
    EmbeddedCluster::start(ClusterOptions {
        server: ServeOptions {
            clock: clock.clone(),
            ..ServeOptions::default()
        },
        kubelet,
        ..ClusterOptions::default()
    })
    .await
    .expect("a free port")
}

/// Writes a kubeconfig of the cluster into a temporary folder, which is deleted on drop.
pub fn kubeconfig(cluster: &EmbeddedCluster) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("config");
    cluster.write_kubeconfig(&path).expect("it can be written");
    (folder, path)
}

/// Writes such a kubeconfig for any server URL, without credentials.
pub fn kubeconfig_of(url: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("config");
    write_kubeconfig(&path, url);
    (folder, path)
}

/// Waits until the condition holds. Returns the elapsed time.
pub async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !tokio::task::block_in_place(&mut holds) {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "never: {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    started.elapsed()
}

/// Writes a kubeconfig for a server URL, without credentials.
pub fn write_kubeconfig(path: &Path, url: &str) {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    });
    fs::write(path, config.to_string()).expect("it can be written");
}

/// Returns the controller's default options, but with a short backoff after failed Pods.
pub fn options() -> Options {
    let mut limits = Limits::default();
    limits.pod_failure_backoff.base = Duration::from_millis(100);
    Options {
        limits,
        ..Options::default()
    }
}

/// Connects a client to the cluster.
pub async fn client(cluster: &EmbeddedCluster) -> Client {
    client::connect_url(&cluster.url())
        .await
        .expect("the embedded server answers")
}

/// Starts a controller on the cluster.
pub async fn controller(cluster: &EmbeddedCluster) -> Controller {
    let client = client(cluster).await;
    Controller::start(client, options())
        .await
        .expect("nothing to listen on")
}

/// Starts a controller behind a proxy that may fail. It retries soon.
pub async fn controller_over(line: &proxy::Proxy) -> Controller {
    impatient_controller(&line.url()).await
}

/// Starts a controller on a server. It retries soon.
pub async fn impatient_controller(url: &str) -> Controller {
    let client = client::connect_url(url).await.expect("the line is good");
    let mut options = options();
    options.limits.retry_backoff.base = Duration::from_millis(50);
    Controller::start(client, options)
        .await
        .expect("nothing to listen on")
}

/// Adds a listener for metrics to the options.
pub fn listening(options: Options) -> Options {
    Options {
        listen: Some(([127, 0, 0, 1], 0).into()),
        ..options
    }
}

/// Starts a controller with this many shards and a listener for metrics.
pub async fn listening_controller(client: &Client, shards: usize) -> Controller {
    let options = listening(Options {
        shards,
        ..Options::default()
    });
    let controller = Controller::start(client.clone(), options);
    controller.await.expect("it starts")
}

/// Returns a controller's metrics.
pub fn metrics(controller: &Controller) -> String {
    let address = controller.listening().expect("it listens");
    http_get(address, "/metrics").expect("it answers")
}

/// Returns a controller's metrics once the condition holds. A response is counted a moment after other clients can see
/// its effect.
pub async fn metrics_when(controller: &Controller, holds: impl Fn(&str) -> bool) -> String {
    let started = Instant::now();
    loop {
        let text = metrics(controller);
        if holds(&text) {
            return text;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the value of one of the metrics of a work queue.
pub fn of_queue(metrics: &str, queue: &str, name: &str) -> f64 {
    let sample = format!("workqueue_{name}{{name=\"{queue}\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&sample));
    let value = value.unwrap_or_else(|| panic!("no {sample}in\n{metrics}"));
    value.parse().expect("a number")
}

/// Returns true if a queue is empty and idle, and its counters agree and are not zero.
pub fn is_at_rest(metrics: &str, queue: &str) -> bool {
    let of = |name: &str| of_queue(metrics, queue, name);
    let [adds, waited, worked] = [
        of("adds_total"),
        of("queue_duration_seconds_count"),
        of("work_duration_seconds_count"),
    ];
    let under_way = of("unfinished_work_seconds") + of("longest_running_processor_seconds");
    of("depth") == 0.0 && under_way == 0.0 && adds > 0.0 && adds == waited && adds == worked
}

/// Returns the upper bounds of a histogram's buckets, each with its count.
pub fn buckets<'a>(metrics: &'a str, name: &str) -> Vec<(&'a str, &'a str)> {
    assert!(
        metrics.contains(&format!("# TYPE {name} histogram\n")),
        "{metrics}"
    );
    let start = format!("{name}_bucket{{le=\"");
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(&start));
    lines.filter_map(|line| line.split_once("\"} ")).collect()
}

/// Returns an Indexed Job in the default namespace.
pub fn indexed_job(name: &str, completions: u32, parallelism: u32) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": completions,
            "parallelism": parallelism,
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "busybox"}],
            }},
        },
    })
}

/// Creates a Job.
pub async fn create(client: &Client, job: &Value) {
    let path = "/apis/batch/v1/namespaces/default/jobs";
    client
        .create(path, job.to_string().into_bytes())
        .await
        .expect("a good Job");
}

/// GETs an object.
pub async fn get(client: &Client, path: &str) -> Value {
    let body = client.get(path).await.expect("it is there");
    serde_json::from_slice(&body).expect("JSON")
}

/// Returns a Job of the default namespace once the condition holds.
pub async fn job_when(client: &Client, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/apis/batch/v1/namespaces/default/jobs/{name}");
    seen_when(client, &path, holds).await
}

/// Longest wait for a state: tests share two cores, and some of them run ten thousand Pods.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the object at a path once the condition holds.
pub async fn seen_when(client: &Client, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let seen = get(client, path).await;
        if holds(&seen) {
            return seen;
        }
        let waited = started.elapsed();
        assert!(waited < PATIENCE, "waited for {PATIENCE:?}: {seen:#}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns true if a Job has this condition with status True.
pub fn is(job: &Value, kind: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Returns the finalizers of an object.
pub fn finalizers(object: &Value) -> Vec<&str> {
    let names = object["metadata"]["finalizers"].as_array();
    let names = names.into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

/// GETs a page over a plain connection. Returns headers and body.
pub fn http_get(address: SocketAddr, path: &str) -> io::Result<String> {
    http_send(address, "GET", path, "")
}

/// Sends a request over a plain connection. Returns headers and body.
pub fn http_send(address: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Returns all Pods of the default namespace.
pub async fn pods(client: &Client) -> Vec<Value> {
    listed(&get(client, PODS).await).to_vec()
}

/// Returns all Pods of the default namespace once the condition holds.
pub async fn pods_when(client: &Client, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let list = seen_when(client, PODS, |list| holds(listed(list))).await;
    listed(&list).to_vec()
}

/// Returns the objects of a list.
pub fn listed(list: &Value) -> &[Value] {
    list["items"].as_array().expect("a list")
}

/// Returns true if a Pod has the finalizer that keeps it until it is counted.
pub fn is_held(pod: &Value) -> bool {
    finalizers(pod).contains(&FINALIZER)
}

/// Checks the Pods of an Indexed Job that ended Complete: none has its finalizer, and each index succeeded exactly
/// once.
pub fn check_pods_of_complete_job(pods: &[Value], completions: usize) {
    let succeeded = successes(pods, completions);
    assert!(
        succeeded.iter().all(|count| *count == 1),
        "an index succeeded twice or never: {succeeded:?}"
    );
}

/// Counts the Pods that succeeded, by index. None of them may have its finalizer.
pub fn successes(pods: &[Value], completions: usize) -> Vec<u32> {
    let mut succeeded = vec![0; completions];
    for pod in pods {
        assert!(!is_held(pod), "held back: {pod:#}");
        if pod["status"]["phase"] == "Succeeded" {
            let index = &pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"];
            let index: usize = index.as_str().expect("an index").parse().expect("a number");
            succeeded[index] += 1;
        }
    }
    succeeded
}

/// Returns the full path of a file of the project.
pub fn project(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(path)
        .display()
        .to_string()
}

/// Returns a CronJob with the label `of` on its Jobs, which have one Pod each. The label's value is the CronJob's name.
/// The fields of each spec are set, one spec after the other.
pub fn cron_job(name: &str, specs: [&Value; 2]) -> Value {
    let mut object = json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {
            "jobTemplate": {
                "metadata": {"labels": {"of": name}},
                "spec": {"template": {"spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox"}],
                }}},
            },
        },
    });
    for spec in specs {
        for (field, value) in spec.as_object().expect("members") {
            object["spec"][field] = value.clone();
        }
    }
    object
}
