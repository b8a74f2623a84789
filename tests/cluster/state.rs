//! Tests the embedded cluster with a state: stopped, killed and restarted, and with a damaged file.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use lakh::{
    client::{self, Client},
    embedded::{ClusterOptions, EmbeddedCluster, ServeOptions, kubelet::KubeletOptions},
};
use serde_json::{Value, json};

use crate::support::{self, check_pods_of_complete_job, create, get, indexed_job, is, pods};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn start(folder: &Path) -> EmbeddedCluster {
    EmbeddedCluster::start(ClusterOptions {
        server: ServeOptions {
            state: Some(folder.to_owned()),
            ..ServeOptions::default()
        },
        kubelet: KubeletOptions::with_nodes(1),
        ..ClusterOptions::default()
    })
    .await
    .expect("the cluster starts")
}

fn config_map(name: &str) -> Vec<u8> {
    let body = json!({"metadata": {"name": name}, "data": {"a": "1"}});
    body.to_string().into_bytes()
}

fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).expect("a version")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_restores_all_objects() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = start(folder.path()).await;
    let client = support::client(&first).await;
    for name in ["a", "b", "c"] {
        let (code, _) = client
            .post(CONFIG_MAPS, config_map(name))
            .await
            .expect("an answer");
        assert_eq!(code, 201);
    }
    let gone = format!("{CONFIG_MAPS}/b");
    client.delete(&gone).await.expect("an answer");
    create(&client, &indexed_job("kept", 3, 0)).await;
    let before = get(&client, CONFIG_MAPS).await;
    let job = get(&client, "/apis/batch/v1/namespaces/default/jobs/kept").await;
    first.shutdown().await;

    let second = start(folder.path()).await;
    let client = support::client(&second).await;
    let after = get(&client, CONFIG_MAPS).await;
    assert_eq!(after["items"], before["items"]);
    assert_eq!(
        get(&client, "/apis/batch/v1/namespaces/default/jobs/kept").await,
        job
    );
    assert!(version(&after) > version(&before), "versions go on");
    let (code, fresh) = client
        .post(CONFIG_MAPS, config_map("d"))
        .await
        .expect("an answer");
    assert_eq!(code, 201);
    let fresh: Value = serde_json::from_slice(&fresh).expect("JSON");
    assert!(version(&fresh) > version(&after));
    let uids: Vec<&Value> = support::listed(&after)
        .iter()
        .map(|map| &map["metadata"]["uid"])
        .collect();
    assert!(
        !uids.contains(&&fresh["metadata"]["uid"]),
        "an identity comes twice"
    );
    // A watch from before the restart cannot continue.
    let watch = format!(
        "{CONFIG_MAPS}?watch=1&timeoutSeconds=5&resourceVersion={}",
        version(&before)
    );
    let address = second
        .url()
        .replace("http://", "")
        .parse()
        .expect("an address");
    let told = support::http_get(address, &watch).expect("an answer");
    assert!(told.contains("\"code\":410"), "{told}");
    second.shutdown().await;
}

fn run(folder: &Path, config: &Path) -> Child {
    let [folder, config] = [folder, config].map(|path| path.display().to_string());
    let _ = fs::remove_file(&config);
    support::lakh(&[
        "local",
        "--state",
        &folder,
        "--kubeconfig-out",
        &config,
        "--pod-duration",
        "300ms",
    ])
    .stdout(Stdio::null())
    .stderr(Stdio::inherit())
    .spawn()
    .expect("the binary runs")
}

async fn connect(config: &Path) -> Client {
    for _ in 0..600 {
        if let Ok(text) = fs::read_to_string(config)
            && let Some(url) = text
                .lines()
                .find_map(|line| line.trim().strip_prefix("server: "))
        {
            return client::connect_url(url).await.expect("a client");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no kubeconfig");
}

async fn succeeded(client: &Client) -> u64 {
    let job = get(client, "/apis/batch/v1/namespaces/default/jobs/main").await;
    job["status"]["succeeded"].as_u64().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_outlives_the_whole_cluster() {
    const INDEXES: u32 = 400;
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let config = folder.path().join("config");
    let mut process = run(&state, &config);
    let client = connect(&config).await;
    create(&client, &indexed_job("main", INDEXES, 50)).await;
    let mut made: BTreeMap<String, Value> = BTreeMap::new();
    for until in [40, 120, 250] {
        let client = connect(&config).await;
        while succeeded(&client).await < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The states that the server has returned stay valid: no Pod is lost, none becomes another one.
        let seen = pods(&client).await;
        process.kill().expect("SIGKILL");
        process.wait().expect("it ends");
        process = run(&state, &config);
        let client = connect(&config).await;
        let now: Vec<Value> = pods(&client).await;
        for pod in seen
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Succeeded")
        {
            made.insert(pod["metadata"]["uid"].to_string(), pod.clone());
        }
        for pod in made.values() {
            let uid = &pod["metadata"]["uid"];
            let there = now.iter().any(|now| now["metadata"]["uid"] == *uid);
            assert!(there, "lost: {}", pod["metadata"]["name"]);
        }
    }
    let client = connect(&config).await;
    let job = support::job_when(&client, "main", |job| is(job, "Complete")).await;
    process.kill().expect("SIGKILL");
    process.wait().expect("it ends");
    assert_eq!(
        job["status"]["completedIndexes"],
        format!("0-{}", INDEXES - 1)
    );
    assert_eq!(job["status"]["succeeded"], INDEXES);
    assert_eq!(job["status"]["failed"], Value::Null);

    let cluster = start(&state).await;
    let pods = pods(&support::client(&cluster).await).await;
    check_pods_of_complete_job(&pods, INDEXES as usize);
    cluster.shutdown().await;
}

/// Runs with a damaged file. Returns the error.
fn refused(state: &Path) -> String {
    let state_folder = state.display().to_string();
    let output = support::run(&["local", "--state", &state_folder]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code().is_some_and(|code| code != 0), "{said}");
    let file = state.join("objects.redb").display().to_string();
    assert!(said.contains(&file), "{file} is not named: {said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = start(folder.path()).await;
    let client = support::client(&cluster).await;
    for number in 0..50 {
        let body = config_map(&format!("map-{number}"));
        client.post(CONFIG_MAPS, body).await.expect("an answer");
    }
    let said = refused(folder.path());
    assert!(said.contains("another process uses it"), "{said}");
    cluster.shutdown().await;
    let file = folder.path().join("objects.redb");
    let whole = fs::read(&file).expect("the file is there");
    let place = whole
        .windows(6)
        .position(|window| window == b"map-17")
        .expect("it is in there");
    let mut changed = whole.clone();
    changed[place] ^= 1;
    let halved = whole[..whole.len() / 2].to_vec();
    for damaged in [changed, halved, Vec::new(), b"something else".to_vec()] {
        fs::write(&file, &damaged).expect("the file can be written");
        refused(folder.path());
    }
    fs::write(&file, &whole).expect("the file can be written");
    let cluster = start(folder.path()).await;
    let maps = get(&support::client(&cluster).await, CONFIG_MAPS).await;
    let maps = support::listed(&maps).iter();
    let own = maps.filter(|map| map["metadata"]["name"] != "kube-root-ca.crt");
    assert_eq!(own.count(), 50);
    cluster.shutdown().await;
}
