//! Tests that a requested shutdown takes at most five seconds and loses nothing.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use lakh::client::{self, Client};
use serde_json::Value;

use crate::support::{
    self, check_pods_of_complete_job, create, indexed_job, is, job_when, lakh, pods,
    proxy::{Fate, Proxy},
    seen_when,
};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// Longest time of a shutdown.
const PATIENCE: Duration = Duration::from_secs(5);

fn start(args: &[&str]) -> Child {
    lakh(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs")
}

/// Returns true if programs that are started here ignore SIGINT until they set a handler, as programs that a shell
/// starts in the background do.
fn is_interrupt_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signal 2 is the second bit.
    ignored.is_some_and(|mask| mask & 0b10 != 0)
}

/// Sends a signal and waits for the end, which must come in time.
fn end(mut child: Child, signal: &str) -> Output {
    let asked = Instant::now();
    let sent = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(
        sent.expect("kill is there").success(),
        "it had ended before"
    );
    while child.try_wait().expect("it can be waited for").is_none() {
        assert!(asked.elapsed() < PATIENCE, "still there after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("its output can be read")
}

fn controller(kubeconfig: &Path) -> Child {
    let kubeconfig = kubeconfig.display().to_string();
    start(&[
        "controller",
        "--mode=replace",
        "--kubeconfig",
        &kubeconfig,
        "--listen",
        "127.0.0.1:0",
    ])
}

/// Waits until a local run serves its cluster and has written this kubeconfig.
async fn client_of(kubeconfig: &Path) -> Client {
    let started = Instant::now();
    loop {
        if let Ok(client) = client::connect(Some(kubeconfig), None).await {
            return client;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "no kubeconfig");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_local_run_reports_its_progress() {
    for signal in ["-INT", "-TERM"] {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let slow = folder.path().join("slow.yaml");
        let example = std::fs::read_to_string(support::project("examples/indexed.yaml"));
        let text = example
            .expect("an example")
            .replace("duration: 400ms", "duration: 1h");
        std::fs::write(&slow, text).expect("it can be written");
        let kubeconfig = folder.path().join("config");
        let [slow, config] = [&slow, &kubeconfig].map(|path| path.display().to_string());
        let args = [
            "local",
            "-f",
            &slow,
            "-o",
            "json",
            "--kubeconfig-out",
            &config,
        ];
        let child = start(&args);
        let client = client_of(&kubeconfig).await;
        seen_when(&client, JOBS, |jobs| {
            jobs["items"][0]["status"]["active"] == 5
        })
        .await;
        let output = tokio::task::block_in_place(|| end(child, signal));
        assert_eq!(output.status.code(), Some(1), "{signal}");
        let summary: Value = serde_json::from_slice(&output.stdout).expect("a summary");
        assert_eq!(summary["jobs"][0]["result"], "Unfinished");
        assert_eq!(summary["jobs"][0]["status"]["active"], 5);
    }
}

#[test]
fn a_serving_cluster_ends_well() {
    for signal in ["-INT", "-TERM"] {
        let mut child = start(&["local"]);
        let told = child.stderr.take().expect("standard error is piped");
        let mut told = BufReader::new(told);
        let mut line = String::new();
        told.read_line(&mut line).expect("it can be read");
        assert!(line.ends_with("ready for Jobs\n"), "{line}");
        assert_eq!(end(child, signal).status.code(), Some(0), "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_stopped_leaves_nothing_half_done() {
    let cluster = support::cluster(Duration::ZERO).await;
    let (_folder, kubeconfig) = support::kubeconfig(&cluster);
    let client = support::client(&cluster).await;
    create(&client, &indexed_job("main", 10_000, 1000)).await;
    let first = controller(&kubeconfig);
    job_when(&client, "main", |job| {
        job["status"]["succeeded"].as_u64() > Some(0)
    })
    .await;
    let output = tokio::task::block_in_place(|| end(first, "-TERM"));
    assert_eq!(output.status.code(), Some(0));

    let second = controller(&kubeconfig);
    job_when(&client, "main", |job| is(job, "Complete")).await;
    tokio::task::block_in_place(|| end(second, "-INT"));
    check_pods_of_complete_job(&pods(&client).await, 10_000);
    cluster.shutdown().await;
}

#[test]
fn a_server_that_never_answers_does_not_keep_it() {
    // It accepts connections, as far as the system does, and never answers.
    let deaf = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", deaf.local_addr().expect("it has an address"));
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let kubeconfig = folder.path().join("config");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: x,
          clusters: [{{name: c, cluster: {{server: '{url}'}}}}], users: [{{name: u, user: {{}}}}],
          contexts: [{{name: x, context: {{cluster: c, user: u}}}}]}}"
    );
    std::fs::write(&kubeconfig, text).expect("it can be written");
    let child = controller(&kubeconfig);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(end(child, "-TERM").status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_signal_is_handled() {
    let cluster = support::cluster(Duration::ZERO).await;
    let (_folder, kubeconfig) = support::kubeconfig(&cluster);
    tokio::task::block_in_place(|| {
        for round in 0..80 {
            let child = controller(&kubeconfig);
            thread::sleep(Duration::from_micros(500 * round));
            let code = end(child, "-TERM").status.code();
            // Before any setup, the signal itself ends the process.
            assert!(matches!(code, None | Some(0)), "{code:?}");
        }
        let interrupt = match is_interrupt_ignored() {
            true => "-TERM",
            false => "-INT",
        };
        for round in 0..40 {
            let child = start(&["local"]);
            thread::sleep(Duration::from_millis(round));
            let code = end(child, interrupt).status.code();
            assert!(matches!(code, None | Some(0 | 1)), "{code:?}");
        }
    });
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stands_still_does_not_keep_it() {
    let cluster = support::cluster(Duration::ZERO).await;
    let (folder, kubeconfig) = support::kubeconfig(&cluster);
    let proxy = Proxy::start(&cluster.url(), |_| Fate::Passed).await;
    let text = std::fs::read_to_string(&kubeconfig).expect("just written");
    let over_the_line = folder.path().join("line");
    std::fs::write(&over_the_line, text.replace(&cluster.url(), &proxy.url()))
        .expect("it can be written");
    let client = support::client(&cluster).await;
    create(&client, &indexed_job("main", 5000, 500)).await;
    let first = controller(&over_the_line);
    job_when(&client, "main", |job| {
        job["status"]["succeeded"].as_u64() > Some(0)
    })
    .await;
    proxy.freeze(true);
    let output = tokio::task::block_in_place(|| {
        thread::sleep(Duration::from_millis(200));
        end(first, "-TERM")
    });
    assert_eq!(output.status.code(), Some(0));
    proxy.freeze(false);

    let second = controller(&kubeconfig);
    let job = job_when(&client, "main", |job| is(job, "Complete")).await;
    assert_eq!(job["status"]["succeeded"], 5000);
    tokio::task::block_in_place(|| end(second, "-TERM"));
    check_pods_of_complete_job(&pods(&client).await, 5000);
    cluster.shutdown().await;
}
