//! Drives the embedded API server with the real kubectl, if there is one.
#![cfg(feature = "runtime")]

mod support;

use lakh::serve::{self, ServeOptions};
use support::kubectl::{Kubectl, is_installed};

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata:
  name: demo
spec:
  completions: 3
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: busybox:1.36
        command: [sleep, '1']
        resources:
          requests: {cpu: '1'}
";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: alone
spec:
  containers:
  - name: main
    image: busybox
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_works_unmodified() {
    if !is_installed() {
        println!("kubectl is not installed: skipped");
        return;
    }
    let server = serve::start(ServeOptions {
        seed: 1,
        ..ServeOptions::default()
    })
    .await
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::write(&config, server.kubeconfig()).unwrap();
    tokio::task::spawn_blocking(move || session(&Kubectl { config: &config }))
        .await
        .unwrap();
    server.shutdown().await;
}

fn session(kubectl: &Kubectl<'_>) {
    kubectl.check("version", "", &["Server Version: v1.36"]);
    kubectl.check("api-resources", "", &["jobs", "batch/v1", "po ", "Lease"]);
    kubectl.check("get namespaces", "", &["default", "kube-system", "Active"]);
    kubectl.check("auth can-i create jobs", "", &["yes"]);
    kubectl.check("apply -f -", JOB, &["job.batch/demo created"]);
    kubectl.check("apply -f -", JOB, &["job.batch/demo unchanged"]);
    let changed = JOB.replace("parallelism: 2", "parallelism: 3");
    kubectl.check("apply -f -", &changed, &["job.batch/demo configured"]);
    kubectl.check(
        "apply --server-side --force-conflicts -f -",
        &changed,
        &["serverside-applied"],
    );
    let wrong = JOB.replace("parallelism", "parallelsim");
    kubectl.refuse("apply -f -", &wrong, "unknown field \"spec.parallelsim\"");
    kubectl.check(
        "get jobs",
        "",
        &["NAME", "COMPLETIONS", "demo", "Running", "0/3"],
    );
    kubectl.check("get jobs -o wide", "", &["busybox:1.36", "controller-uid="]);
    kubectl.check("get job demo -o yaml", "", &["completionMode: Indexed"]);
    kubectl.check(
        "describe job demo",
        "",
        &["Completion Mode:", "Indexed", "busybox:1.36"],
    );
    kubectl.check("label job demo team=a", "", &["labeled"]);
    kubectl.check("annotate job demo note=b", "", &["annotated"]);
    kubectl.check(
        "patch job demo --type=merge -p {\"spec\":{\"suspend\":true}}",
        "",
        &["patched"],
    );
    kubectl.check("get jobs -l team=a", "", &["demo", "Running"]);
    kubectl.check("create -f -", POD, &["pod/alone created"]);
    kubectl.check("get pods", "", &["READY", "alone", "0/1", "Pending"]);
    kubectl.check("get pods -A -o wide", "", &["default", "NODE", "<none>"]);
    kubectl.check("describe pod alone", "", &["QoS Class:", "BestEffort"]);
    kubectl.check(
        "get pods -w --request-timeout=1s --output-watch-events",
        "",
        &["ADDED", "alone"],
    );
    kubectl.check("get all", "", &["pod/alone", "job.batch/demo"]);
    kubectl.check("get events", "", &[]);
    kubectl.check("get --raw /readyz", "", &["ok"]);
    kubectl.check(
        "wait pod/alone --for=jsonpath={.status.phase}=Pending",
        "",
        &["condition met"],
    );
    kubectl.check("delete pod alone", "", &["deleted"]);
    kubectl.refuse("get pod alone", "", "pods \"alone\" not found");
    for cascade in ["background", "foreground", "orphan"] {
        kubectl.check(
            &format!("delete job demo --cascade={cascade}"),
            "",
            &["deleted"],
        );
        kubectl.refuse("get job demo", "", "jobs.batch \"demo\" not found");
        kubectl.check("create -f -", JOB, &["created"]);
    }
    kubectl.check(
        "create job quick --image=busybox",
        "",
        &["job.batch/quick created"],
    );
    kubectl.check("delete jobs --all", "", &["quick"]);
    kubectl.check("create namespace other", "", &["created"]);
    kubectl.check(
        "create configmap c --from-literal=a=b -n other",
        "",
        &["created"],
    );
    kubectl.check("delete namespace other", "", &["deleted"]);
}
