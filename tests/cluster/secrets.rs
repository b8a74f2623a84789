//! Tests that the log has no secrets.

use std::{fs, time::Duration};

use lakh::{
    client,
    embedded::{ClusterOptions, EmbeddedCluster, ServeOptions, Users, kubelet::KubeletOptions},
};
use serde_json::Value;

use crate::support::{self, create, indexed_job, is, job_when, logged::Logged};

const TOKEN: &str = "a-token-that-nobody-else-has";

/// At the most verbose level, which would log headers if any did.
#[tokio::test(flavor = "multi_thread")]
async fn no_token_is_in_the_log() {
    let users = format!("{TOKEN},ann,1,\"system:masters\"\n");
    let options = ClusterOptions {
        server: ServeOptions {
            users: Some(Users::read(&users).expect("good tokens")),
            ..ServeOptions::default()
        },
        kubelet: KubeletOptions {
            default_duration: Duration::ZERO,
            ..KubeletOptions::with_nodes(3)
        },
        ..ClusterOptions::default()
    };
    let cluster = EmbeddedCluster::start(options).await.expect("a free port");
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = |name: &str| folder.path().join(name);
    support::write_kubeconfig(&path("config"), &cluster.url());
    let config = fs::read_to_string(path("config")).expect("it was written");
    let mut config: Value = serde_json::from_str(&config).expect("JSON");
    config["users"][0]["user"]["token"] = TOKEN.into();
    fs::write(path("config"), config.to_string()).expect("it can be written");

    let client = client::connect(Some(&path("config")), None).await;
    let client = client.expect("the embedded server answers");
    let controller = Logged::start(&path("config"), path("log"), &["-vv"]);
    create(&client, &indexed_job("main", 5, 5)).await;
    job_when(&client, "main", |job| is(job, "Complete")).await;
    drop(controller);
    let log = fs::read_to_string(path("log")).expect("it was written");
    assert!(
        log.contains("\"became the leader\""),
        "it says little: {log}"
    );
    assert!(!log.contains(TOKEN), "{log}");
    cluster.shutdown().await;
}
