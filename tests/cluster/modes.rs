//! Tests the two modes, side by side and one after the other.

use std::time::Duration;

use lakh::{
    client::Client,
    embedded::EmbeddedCluster,
    runtime::{Controller, ManagerName, Mode, Options},
};
use serde_json::{Value, json};

use crate::support::{
    self, FINALIZER, client, cluster, finalizers, get, indexed_job, is, job_when, options,
};

const NAME: &str = "lakh.dev/job-controller";
const OWN_FINALIZER: &str = "lakh.dev/job-tracking";

async fn controller(cluster: &EmbeddedCluster, mode: Mode) -> Controller {
    let options = Options { mode, ..options() };
    let controller = Controller::start(client(cluster).await, options).await;
    controller.expect("nothing to listen on")
}

fn managed_by(name: &str) -> Mode {
    Mode::ManagedBy(ManagerName::parse(name).expect("a good name"))
}

/// Returns an Indexed Job with this `managedBy`.
fn job_of(name: &str, manager: Option<&str>) -> Value {
    let mut job = indexed_job(name, 20, 10);
    job["spec"]["managedBy"] = json!(manager);
    job
}

async fn pods_of(client: &Client, job: &str) -> Vec<Value> {
    let pods = support::pods(client).await.into_iter();
    pods.filter(|pod| pod["metadata"]["ownerReferences"][0]["name"] == job)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_controllers_share_a_cluster() {
    let cluster = cluster(Duration::from_millis(300)).await;
    let client = client(&cluster).await;
    let builtin = controller(&cluster, Mode::Replace).await;
    let beside = controller(&cluster, managed_by(NAME)).await;
    for (name, manager) in [
        ("plain", None),
        ("spelled", Some("kubernetes.io/job-controller")),
        ("ours", Some(NAME)),
        ("foreign", Some("example.com/other")),
    ] {
        support::create(&client, &job_of(name, manager)).await;
    }
    // While they run, each Pod has its own controller's finalizer.
    for (name, finalizer) in [
        ("plain", FINALIZER),
        ("spelled", FINALIZER),
        ("ours", OWN_FINALIZER),
    ] {
        job_when(&client, name, |job| {
            job["status"]["active"].as_u64() > Some(0)
        })
        .await;
        for pod in pods_of(&client, name).await {
            let held = finalizers(&pod);
            assert!(held.is_empty() || held == [finalizer], "{name}: {held:?}");
        }
    }
    for name in ["plain", "spelled", "ours"] {
        job_when(&client, name, |job| is(job, "Complete")).await;
        let pods = pods_of(&client, name).await;
        assert_eq!(pods.len(), 20, "{name}: nobody else made Pods for it");
        assert!(pods.iter().all(|pod| finalizers(pod).is_empty()));
    }
    let foreign = job_when(&client, "foreign", |_| true).await;
    assert!(
        foreign["status"]
            .as_object()
            .is_none_or(serde_json::Map::is_empty),
        "{foreign:#}"
    );
    assert!(pods_of(&client, "foreign").await.is_empty());
    let events = get(&client, "/api/v1/namespaces/default/events").await;
    for event in events["items"].as_array().into_iter().flatten() {
        let ours = event["involvedObject"]["name"] == "ours";
        let source = if ours {
            "lakh-job-controller"
        } else {
            "job-controller"
        };
        assert_eq!(event["source"]["component"], source);
        assert_ne!(event["involvedObject"]["name"], "foreign");
    }
    builtin.stop().await;
    beside.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_own_finalizers_are_taken_off_pods_without_job() {
    let cluster = cluster(Duration::from_secs(3600)).await;
    let client = client(&cluster).await;
    for (name, finalizer) in [("reserved", FINALIZER), ("own", OWN_FINALIZER)] {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "finalizers": [finalizer]},
            "spec": {"containers": [{"name": "c", "image": "busybox"}]},
        });
        let path = "/api/v1/namespaces/default/pods";
        client
            .create(path, pod.to_string().into_bytes())
            .await
            .expect("a good Pod");
    }
    let beside = controller(&cluster, managed_by(NAME)).await;
    beside.ready().await;
    let held = |name: &'static str| {
        let client = &client;
        async move {
            let pod = get(client, &format!("/api/v1/namespaces/default/pods/{name}")).await;
            !finalizers(&pod).is_empty()
        }
    };
    while held("own").await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The first Pod of the list was handled by now.
    assert!(
        held("reserved").await,
        "another controller's finalizer was taken off"
    );
    beside.stop().await;
    let builtin = controller(&cluster, Mode::Replace).await;
    while held("reserved").await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    builtin.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_controller_goes_on_where_the_first_was_stopped() {
    let cluster = cluster(Duration::from_millis(200)).await;
    let client = client(&cluster).await;
    let first = controller(&cluster, Mode::Replace).await;
    support::create(&client, &indexed_job("long", 600, 40)).await;
    job_when(&client, "long", |job| {
        job["status"]["succeeded"].as_u64() > Some(20)
    })
    .await;
    first.stop().await;
    let half = job_when(&client, "long", |_| true).await;
    assert!(!is(&half, "Complete"), "it was stopped too late to tell");
    let second = controller(&cluster, Mode::Replace).await;
    let job = job_when(&client, "long", |job| is(job, "Complete")).await;
    assert_eq!(job["status"]["succeeded"], 600);
    assert!(job["status"]["failed"].is_null());
    support::check_pods_of_complete_job(&pods_of(&client, "long").await, 600);
    second.stop().await;
    cluster.shutdown().await;
}
