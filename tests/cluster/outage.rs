//! Tests an API server outage that is longer than a start. The log reports its begin and its end, `/readyz` names the
//! silent kinds, and the Job continues.

use std::{path::Path, time::Duration};

use lakh::embedded::{ClusterOptions, EmbeddedCluster, ServeOptions, kubelet::KubeletOptions};

use crate::support::{
    self, check_pods_of_complete_job, http_get, indexed_job, is, job_when, logged::Logged, pods,
    wait_until,
};

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

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_reported_and_survived() {
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

    let controller = Logged::start(&path("config"), path("log"), &[]);
    let says = |words: &str, kind: Option<&str>| controller.says(words, kind);
    wait_until("ready", || says("ready", None).is_some()).await;
    let starting = says("starting", None).expect("the first line");
    assert_eq!(starting["mode"], "replace");
    let listen = controller.listens().expect("it listens");
    let ready = || http_get(listen, "/readyz").expect("an answer");
    assert!(ready().starts_with("HTTP/1.1 200 "), "{}", ready());
    job_when(&client, "main", |job| {
        job["status"]["succeeded"].as_u64() > Some(50)
    })
    .await;
    first.shutdown().await;

    // The last event of each kind came at a different time.
    wait_until("all are named", || {
        let why = ready();
        let mut words = [
            "[-]watches failed: no data about ",
            "jobs for ",
            "pods for ",
        ]
        .iter();
        why.starts_with("HTTP/1.1 503 ") && words.all(|words| why.contains(words))
    })
    .await;
    for kind in ["jobs", "pods", "cronjobs"] {
        let line = says("request failed; will retry", Some(kind));
        let line = line.unwrap_or_else(|| panic!("{kind}: {:?}", controller.lines()));
        assert_eq!(line["level"], "WARN");
    }

    let second = start(&path("state"), port).await;
    let back = wait_until("ready again", || ready().starts_with("HTTP/1.1 200 ")).await;
    println!("ready again after {back:?}");
    for kind in ["jobs", "pods", "cronjobs"] {
        assert!(
            says("requests succeed again", Some(kind)).is_some(),
            "{kind}: {:?}",
            controller.lines()
        );
    }
    let client = support::client(&second).await;
    let done = job_when(&client, "main", |job| is(job, "Complete")).await;
    assert_eq!(done["status"]["succeeded"], PODS);
    check_pods_of_complete_job(&pods(&client).await, PODS as usize);
    wait_until("the Job's line", || {
        says("Job finished", None).is_some_and(|line| line["job"] == "default/main")
    })
    .await;
    drop(controller);
    second.shutdown().await;
}
