//! Tests hollow nodes over HTTP: their capacity, and the binding of Pods by other clients.

use std::{
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

use lakh::{
    client::{self, Client},
    embedded::serve::{self, ServeOptions},
};
use serde_json::{Value, json};

const NODE: &str = "/api/v1/nodes/hollow-0";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A child process that ends with the test.
struct Kubelet(Child);

impl Kubelet {
    fn start(kubeconfig: &Path, args: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_lakh-loadtest"))
            .args(["kubelet", "--nodes", "1", "--pod-duration", "0s"])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(args)
            .spawn()
            .expect("the program runs");
        Self(child)
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pod(name: &str, cpu: &str, node: &str) -> Vec<u8> {
    let requests = json!({"requests": {"cpu": cpu}});
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox", "resources": requests}],
        },
    });
    if !node.is_empty() {
        pod["spec"]["nodeName"] = node.into();
    }
    pod.to_string().into_bytes()
}

/// Waits until the object at a path meets the condition; returns it.
async fn seen_when(client: &Client, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let (seen, text) = match client.get(path).await {
            Ok(answer) => (
                serde_json::from_slice(&answer).expect("JSON"),
                String::new(),
            ),
            Err(error) => (Value::Null, error.message),
        };
        if holds(&seen) {
            return seen;
        }
        let patience = Duration::from_secs(60);
        assert!(started.elapsed() < patience, "{path}: {seen} {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_have_a_capacity_and_bind_without_a_scheduler() {
    let server = serve::start(ServeOptions::default()).await.expect("a port");
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("config");
    std::fs::write(&kubeconfig, server.kubeconfig()).expect("a file");
    let client = client::connect_url(&server.url()).await.expect("a client");
    let capacity = |node: &Value| node["status"]["capacity"].clone();

    let args = [
        "--no-scheduling",
        "--node-capacity",
        "cpu=1,example.com/gpu=1",
    ];
    let kubelet = Kubelet::start(&kubeconfig, &args);
    let node = seen_when(&client, NODE, |node| node["status"].is_object()).await;
    assert_eq!(capacity(&node)["cpu"], "1");
    assert_eq!(capacity(&node)["example.com/gpu"], "1");
    assert_eq!(node["status"]["allocatable"], capacity(&node));
    for (name, cpu, node) in [
        ("free", "1", ""),
        ("large", "2", "hollow-0"),
        ("small", "1", "hollow-0"),
    ] {
        client.create(PODS, pod(name, cpu, node)).await.expect(name);
    }
    let is_over = |pod: &Value| {
        ["Failed", "Succeeded"]
            .map(Value::from)
            .contains(&pod["status"]["phase"])
    };
    let large = seen_when(&client, &format!("{PODS}/large"), is_over).await;
    assert_eq!(large["status"]["reason"], "OutOfcpu");
    let small = seen_when(&client, &format!("{PODS}/small"), is_over).await;
    assert_eq!(small["status"]["phase"], "Succeeded");
    let free = format!("{PODS}/free");
    let left = seen_when(&client, &free, Value::is_object).await;
    assert_eq!(left["spec"]["nodeName"], Value::Null, "nobody binds it");
    drop(kubelet);

    let _kubelet = Kubelet::start(&kubeconfig, &["--node-capacity", "cpu=3"]);
    let node = seen_when(&client, NODE, |node| capacity(node)["cpu"] == "3").await;
    assert_eq!(capacity(&node)["example.com/gpu"], Value::Null);
    assert_eq!(node["status"]["allocatable"], capacity(&node));
    seen_when(&client, &free, |pod| pod["status"]["phase"] == "Succeeded").await;
    server.shutdown().await;
}
