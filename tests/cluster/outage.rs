//! The API server is away for longer than a start takes: the log says so and says when it is back, `/readyz` names what
//! is not heard, and the Job goes on from where it was.

use std::{
    fs::{self, File},
    path::Path,
    time::{Duration, Instant},
};

use lakh::embedded::{ClusterOptions, EmbeddedCluster, ServeOptions, kubelet::KubeletOptions};

use crate::support::{
    self, Running, check_pods_of_complete_job, http_get, indexed_job, is, job_when, pods,
};

/// How long what is waited for may take.
const PATIENCE: Duration = Duration::from_secs(120);

const PODS: u32 = 500;

async fn start(state: &Path, port: u16) -> EmbeddedCluster {
    let options = ClusterOptions {
        server: ServeOptions {
            port,
            state: Some(state.to_owned()),
            ..ServeOptions::default()
        },
        kubelet: KubeletOptions {
            default_duration: Duration::from_secs(2),
            ..KubeletOptions::with_nodes(3)
        },
        ..ClusterOptions::default()
    };
    EmbeddedCluster::start(options).await.expect("it starts")
}

/// Waits until this is so; how long that took.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    started.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_told_and_survived() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let first = start(&path("state"), 0).await;
    let port = first
        .url()
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok());
    let port = port.expect("a port");
    first
        .write_kubeconfig(&path("config"))
        .expect("it can be written");
    let client = support::client(&first).await;
    support::create(&client, &indexed_job("main", PODS, 50)).await;

    let log = File::create(path("log")).expect("it can be written");
    let config = path("config").display().to_string();
    let arguments = [
        "controller",
        "--mode=replace",
        "--log-format=json",
        "--listen=127.0.0.1:0",
    ];
    let controller = support::lakh(&[&arguments[..], &["--kubeconfig", &config]].concat())
        .stderr(log)
        .spawn()
        .expect("the binary runs");
    let controller = Running(controller);
    let lines = || -> Vec<serde_json::Value> {
        let log = fs::read_to_string(path("log")).expect("it can be read");
        let whole = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        whole.collect()
    };
    let says = |words: &str, kind: Option<&str>| {
        lines().into_iter().find(|line| {
            let of_kind = kind.is_none_or(|kind| line["kind"] == kind);
            line["message"]
                .as_str()
                .is_some_and(|said| said.contains(words))
                && of_kind
        })
    };
    tokio::task::block_in_place(|| wait_until("ready", || says("ready", None).is_some()));
    let starting = says("starting", None).expect("the first line");
    assert_eq!(starting["mode"], "replace");
    let probes = says("probes are answered", None).expect("it listens");
    let listen = probes["listen"]
        .as_str()
        .and_then(|listen| listen.parse().ok());
    let listen = listen.expect("an address");
    let ready = || http_get(listen, "/readyz").expect("an answer");
    assert!(ready().starts_with("HTTP/1.1 200 "), "{}", ready());
    job_when(&client, "main", |job| {
        job["status"]["succeeded"].as_u64() > Some(50)
    })
    .await;
    first.shutdown().await;

    tokio::task::block_in_place(|| {
        // Each was heard last at another time.
        wait_until("all are named", || {
            let why = ready();
            let mut words = ["[-]watches failed: not heard of ", "jobs for ", "pods for "].iter();
            why.starts_with("HTTP/1.1 503 ") && words.all(|words| why.contains(words))
        });
    });
    for kind in ["jobs", "pods", "cronjobs"] {
        let line = says("to be tried again", Some(kind));
        let line = line.unwrap_or_else(|| panic!("{kind}: {:?}", lines()));
        assert_eq!(line["level"], "WARN");
    }

    let second = start(&path("state"), port).await;
    let back = tokio::task::block_in_place(|| {
        wait_until("ready again", || ready().starts_with("HTTP/1.1 200 "))
    });
    println!("ready again after {back:?}");
    for kind in ["jobs", "pods", "cronjobs"] {
        assert!(
            says("heard again", Some(kind)).is_some(),
            "{kind}: {:?}",
            lines()
        );
    }
    let client = support::client(&second).await;
    let done = job_when(&client, "main", |job| is(job, "Complete")).await;
    assert_eq!(done["status"]["succeeded"], PODS);
    check_pods_of_complete_job(&pods(&client).await, PODS as usize);
    tokio::task::block_in_place(|| {
        wait_until("the Job's line", || {
            says("Job ended", None).is_some_and(|line| line["job"] == "default/main")
        })
    });
    drop(controller);
    second.shutdown().await;
}
