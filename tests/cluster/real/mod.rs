//! Tests on a real cluster, and their shared helpers: the cluster, namespaces, and controllers as processes.
//!
//! `deployed` runs lakh with the rights of `deploy/`; `conformance` runs the Jobs of `jobs` under the built-in
//! controller and under lakh; `third_parties` makes the writes of queue managers. They only run on request, see
//! CONTRIBUTING.md. They expect:
//!
//! - `LAKH_CLUSTER_KUBECONFIG`: kubeconfig with all rights on a cluster with hollow nodes (`lakh-loadtest kubelet`) and
//!   no running Job controller;
//! - `kubectl` on the path;
//! - `LAKH_KUBE_CONTROLLER_MANAGER`: a binary of kube-controller-manager, for the tests that also run the built-in
//!   controller. Without it, they print a notice and end.

#![allow(unreachable_pub, reason = "for the tests beside it")]
#![allow(clippy::print_stdout, reason = "a test that was left out must say so")]

mod conformance;
mod deployed;
mod large;
mod third_parties;

use std::{
    fs::{self, File},
    io::Write as _,
    net::{SocketAddr, TcpListener},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use lakh::client::{self, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    sync::{Mutex, MutexGuard},
    time::sleep,
};

use crate::support::{
    self,
    manifests::{kustomize, objects},
};

/// Controllers work on all namespaces, so tests run one at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// Longest wait for an expected state.
const PATIENCE: Duration = Duration::from_secs(300);

/// The cluster, for one test.
pub struct Cluster {
    pub client: Client,
    kubeconfig: PathBuf,
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Cluster {
    /// Connects when the test before has ended.
    pub async fn connect() -> Self {
        let turn = TURN.lock().await;
        let kubeconfig = std::env::var_os("LAKH_CLUSTER_KUBECONFIG");
        let kubeconfig = PathBuf::from(kubeconfig.expect("LAKH_CLUSTER_KUBECONFIG names a file"));
        let client = client::connect(Some(&kubeconfig), None).await;
        Self {
            client: client.expect("the cluster answers"),
            kubeconfig,
            folder: tempfile::tempdir().expect("a folder for temporary files"),
            _turn: turn,
        }
    }

    /// Runs kubectl, which must succeed. Returns its output.
    pub fn kubectl(&self, args: &[&str], input: &str) -> String {
        let mut child = Command::new("kubectl")
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl is on the path");
        let mut stdin = child.stdin.take().expect("standard input is piped");
        stdin.write_all(input.as_bytes()).expect("kubectl reads");
        drop(stdin);
        let output = child.wait_with_output().expect("kubectl ends");
        assert!(
            output.status.success(),
            "kubectl {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// Creates a new namespace.
    pub async fn namespace(&self, purpose: &str) -> String {
        let body = json!({"metadata": {"generateName": format!("lakh-{purpose}-")}});
        let posted = self
            .client
            .post("/api/v1/namespaces", body.to_string().into_bytes());
        let (_, answer) = posted.await.expect("a namespace");
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        let name = answer["metadata"]["name"].as_str().expect("a name");
        name.to_owned()
    }

    /// Deletes a namespace with its contents and waits for that, so that the next controller does not find them. A
    /// failed test leaves its namespace for inspection.
    pub fn remove(&self, namespace: &str) {
        self.kubectl(&["delete", "namespace", namespace, "--timeout=5m"], "");
    }

    /// Creates a Job in a namespace.
    pub async fn create(&self, namespace: &str, job: &Value) {
        let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
        let created = self.client.create(&path, job.to_string().into_bytes());
        created.await.expect("a good Job");
    }

    /// Lists all objects of a kind in a namespace, such as `apis/batch/v1`, `jobs`.
    pub async fn list(&self, api: &str, namespace: &str, kind: &str) -> Vec<Value> {
        let path = format!("/{api}/namespaces/{namespace}/{kind}");
        let mut list = support::get(&self.client, &path).await;
        match list["items"].take() {
            Value::Array(items) => items,
            other => panic!("no list of {kind}: {other}"),
        }
    }

    pub async fn jobs(&self, namespace: &str) -> Vec<Value> {
        self.list("apis/batch/v1", namespace, "jobs").await
    }

    pub async fn pods(&self, namespace: &str) -> Vec<Value> {
        self.list("api/v1", namespace, "pods").await
    }

    pub async fn events(&self, namespace: &str) -> Vec<Value> {
        self.list("api/v1", namespace, "events").await
    }

    /// Returns the Jobs of a namespace once the condition holds of each.
    pub async fn all_jobs(&self, namespace: &str, holds: impl Fn(&Value) -> bool) -> Vec<Value> {
        let started = Instant::now();
        loop {
            let jobs = self.jobs(namespace).await;
            if jobs.iter().all(&holds) {
                return jobs;
            }
            if started.elapsed() > PATIENCE {
                let late = jobs.iter().filter(|job| !holds(job));
                let late: Vec<_> = late
                    .map(|job| format!("{}: {:#}", job["metadata"]["name"], job["status"]))
                    .collect();
                panic!("waited for {PATIENCE:?}: {}", late.join("\n"));
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// Grants lakh the rights of an overlay below `deploy/`, and nothing else.
    pub fn grant(&self, overlay: &'static str) -> Granted {
        let text = kustomize((overlay, &[])).expect("kubectl is on the path");
        let documents = objects(&text);
        let (deployment, rights): (Vec<_>, Vec<_>) = documents
            .into_iter()
            .partition(|document| document.kind == "Deployment");
        // The other overlay may have left more rights than this one has.
        let leftovers = "delete clusterrolebinding lakh-cron-jobs --ignore-not-found";
        self.kubectl(&leftovers.split(' ').collect::<Vec<_>>(), "");
        let rights = rights.iter().map(|document| document.body.to_string());
        self.kubectl(
            &["apply", "-f", "-"],
            &rights.collect::<Vec<_>>().join("\n"),
        );
        let token = self.kubectl(&["create", "token", "lakh", "--namespace=lakh-system"], "");
        let view = "config view --raw --minify --flatten --output=json";
        let view: Vec<&str> = view.split(' ').collect();
        let mut config: Value = serde_json::from_str(&self.kubectl(&view, "")).expect("JSON");
        config["users"][0]["user"] = json!({"token": token.trim()});
        let kubeconfig = self.folder.path().join(format!("{overlay}.kubeconfig"));
        fs::write(&kubeconfig, config.to_string()).expect("it can be written");
        let container = &deployment[0].body["spec"]["template"]["spec"]["containers"][0];
        let args = container["args"].as_array().expect("arguments").iter();
        let args = args.filter_map(Value::as_str);
        Granted {
            kubeconfig,
            args: args
                .filter(|arg| !arg.starts_with("--listen="))
                .map(str::to_owned)
                .collect(),
            log: self.folder.path().join(format!("{overlay}.log")),
        }
    }

    /// Starts the built-in Job controller. Returns `None` without its binary.
    pub fn built_in(&self) -> Option<Process> {
        let Some(binary) = std::env::var_os("LAKH_KUBE_CONTROLLER_MANAGER") else {
            println!("left out: LAKH_KUBE_CONTROLLER_MANAGER names no binary");
            return None;
        };
        let mut command = Command::new(binary);
        command
            // It uses this name as its field manager, whatever the file's name.
            .arg0("kube-controller-manager")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--controllers=job-controller", "--leader-elect=false"])
            .args(["--secure-port=0", "--kube-api-qps=1000"])
            .arg("--kube-api-burst=1000");
        Some(Process::start(
            command,
            &self.folder.path().join("built-in.log"),
        ))
    }
}

/// The arguments and credentials of a Deployment below `deploy/`.
pub struct Granted {
    kubeconfig: PathBuf,
    args: Vec<String>,
    log: PathBuf,
}

impl Granted {
    /// Starts the controller and waits until its caches are filled.
    pub async fn start(&self) -> Lakh {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("it has an address");
        drop(free);
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let mut command = support::lakh(&args);
        command
            .args(["-vv", "--listen", &address.to_string(), "--kubeconfig"])
            .arg(&self.kubeconfig);
        let lakh = Lakh {
            process: Process::start(command, &self.log),
            address,
        };
        let started = Instant::now();
        while !support::http_get(address, "/readyz").is_ok_and(|answer| answer.contains(" 200 ")) {
            assert!(started.elapsed() < PATIENCE, "{}", lakh.process.log());
            sleep(Duration::from_millis(50)).await;
        }
        lakh
    }
}

/// A running lakh controller.
pub struct Lakh {
    process: Process,
    address: SocketAddr,
}

impl Lakh {
    /// Checks that the server refused only expected requests, and understood all. Expected refusals are given by method
    /// and code.
    pub fn check(&self, refused_on_purpose: &[(&str, &str)]) {
        let metrics = support::http_get(self.address, "/metrics").expect("metrics");
        for line in metrics.lines() {
            let codes = ["400", "401", "403", "405", "415", "422"];
            let refused = line.starts_with("rest_client_requests_total{")
                && codes
                    .iter()
                    .any(|code| line.contains(&format!("code=\"{code}\"")));
            let on_purpose = refused_on_purpose.iter().any(|(method, code)| {
                line.contains(&format!("method=\"{method}\""))
                    && line.contains(&format!("code=\"{code}\""))
            });
            assert!(!refused || on_purpose, "{line}");
            if line.starts_with("lakh_actor_panics_total")
                || line.starts_with("lakh_unreadable_objects_total{")
            {
                assert!(line.ends_with(" 0"), "{line}");
            }
        }
        let log = self.process.log();
        let lacks_right =
            |line: &&str| line.contains("lakh-system:lakh") && line.contains("cannot");
        let bad: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("ERROR") || lacks_right(line))
            .collect();
        assert!(bad.is_empty(), "{}", bad.join("\n"));
    }

    /// Kills it, as a crash would.
    pub fn kill(self) {
        drop(self.process);
    }
}

/// A process that is killed on drop.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(mut command: Command, log: &Path) -> Self {
        let file = File::create(log).expect("a log can be written");
        let errors = file.try_clone().expect("a second handle");
        let child = command.stdout(file).stderr(errors).stdin(Stdio::null());
        Self {
            child: child.spawn().expect("the binary runs"),
            log: log.to_owned(),
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the log can be read")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns true if a Job is Complete or Failed.
pub fn has_ended(job: &Value) -> bool {
    support::is(job, "Complete") || support::is(job, "Failed")
}
