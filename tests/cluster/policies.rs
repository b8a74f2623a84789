//! Tests policies end to end as a user sees them, also with a controller restart in the middle.

use std::time::Duration;

use lakh::{
    client::Client,
    embedded::{ClusterOptions, EmbeddedCluster, kubelet::KubeletOptions},
    runtime::{Controller, Options},
};
use serde_json::{Value, json};

use crate::support::{
    self, client, cluster, controller, create, indexed_job, is, is_held, job_when, pods, pods_when,
};

const SHORT: Duration = Duration::from_millis(100);
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// Returns an Indexed Job with these annotations for the hollow kubelet on its Pods.
fn job(completions: u32, parallelism: u32, plays: &Value) -> Value {
    let mut job = indexed_job("j", completions, parallelism);
    let wishes = plays.as_object().expect("an object").iter();
    for (wish, value) in wishes {
        job["spec"]["template"]["metadata"]["annotations"][format!("sim.lakh.dev/{wish}")] =
            value.clone();
    }
    job
}

/// Returns a rule for Pods with a container that exits with 42.
fn on_42(action: &str) -> Value {
    json!({"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [42]}}]})
}

fn reason(job: &Value, kind: &str) -> (String, String) {
    let conditions = job["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten();
    let found = found.into_iter().find(|one| one["type"] == kind);
    let found = found.unwrap_or_else(|| panic!("no condition {kind}: {job:#}"));
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

fn annotated(pod: &Value, key: &str) -> Option<String> {
    let value = pod["metadata"]["annotations"][key].as_str();
    value.map(ToOwned::to_owned)
}

/// Waits until no Pod has its finalizer. Returns the Pods.
async fn assert_all_free(client: &Client) -> Vec<Value> {
    pods_when(client, |pods| !pods.iter().any(is_held)).await
}

/// Runs a Job to its end with one controller, and once more with a restart in the middle. Both runs must have the same
/// result.
async fn run(job: &Value, ends: &str) -> (Value, Vec<Value>) {
    let (ended, pods) = run_once(job, ends, false).await;
    let (again, _) = run_once(job, ends, true).await;
    assert_eq!(reasons(&again), reasons(&ended), "{again:#}");
    (ended, pods)
}

async fn run_once(job: &Value, ends: &str, restarted: bool) -> (Value, Vec<Value>) {
    let cluster = cluster(SHORT).await;
    let client = client(&cluster).await;
    let mut controller = controller(&cluster).await;
    create(&client, job).await;
    if restarted {
        pods_when(&client, |pods| !pods.is_empty()).await;
        controller.stop().await;
        controller = support::controller(&cluster).await;
    }
    let ended = job_when(&client, "j", |job| is(job, "Complete") || is(job, "Failed")).await;
    assert!(is(&ended, ends), "{ended:#}");
    let pods = assert_all_free(&client).await;
    controller.stop().await;
    cluster.shutdown().await;
    (ended, pods)
}

/// Returns the conditions of a Job with their reasons.
fn reasons(job: &Value) -> Vec<(&Value, &Value)> {
    let conditions = job["status"]["conditions"].as_array();
    let conditions = conditions.into_iter().flatten();
    conditions
        .map(|one| (&one["type"], &one["reason"]))
        .collect()
}

async fn patient_controller(cluster: &EmbeddedCluster) -> Controller {
    let mut limits = support::options().limits;
    limits.pod_failure_backoff.base = Duration::from_secs(5);
    let options = Options {
        limits,
        ..support::options()
    };
    let controller = Controller::start(client(cluster).await, options).await;
    controller.expect("nothing to listen on")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_fails_the_job_while_no_controller_is_there() {
    let cluster = cluster(SHORT).await;
    let client = client(&cluster).await;
    let first = controller(&cluster).await;
    let mut wanted = job(2, 2, &json!({"exit-code": "42", "duration": "1s"}));
    wanted["spec"]["podFailurePolicy"] = on_42("FailJob");
    create(&client, &wanted).await;
    pods_when(&client, |pods| pods.len() == 2).await;
    first.stop().await;
    let has_failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    pods_when(&client, |pods| pods.iter().all(has_failed)).await;
    let second = controller(&cluster).await;
    let ended = job_when(&client, "j", |job| is(job, "Failed")).await;
    let (reason, message) = reason(&ended, "Failed");
    assert_eq!(reason, "PodFailurePolicy");
    assert!(
        message.starts_with("Container main for pod default/j-")
            && message.ends_with(" failed with exit code 42 matching FailJob rule at index 0"),
        "{message}"
    );
    assert_eq!(ended["status"]["failed"], 2);
    assert_all_free(&client).await;
    second.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_failures_do_not_count() {
    let plays = json!({"exit-code": "42", "fail-attempts": "2"});
    let mut wanted = job(1, 1, &plays);
    wanted["spec"]["podFailurePolicy"] = on_42("Ignore");
    wanted["spec"]["backoffLimit"] = json!(0);
    let (ended, pods) = run(&wanted, "Complete").await;
    assert_eq!(ended["status"]["failed"], Value::Null);
    assert_eq!(pods.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_index_has_its_own_limit_though_the_controller_restarts() {
    let cluster = cluster(SHORT).await;
    let client = client(&cluster).await;
    let first = patient_controller(&cluster).await;
    let mut wanted = job(4, 4, &json!({"fail-indexes": "1,3", "exit-code": "7"}));
    wanted["spec"]["backoffLimitPerIndex"] = json!(1);
    create(&client, &wanted).await;
    let waiting = job_when(&client, "j", |job| {
        job["status"]["completedIndexes"] == "0,2" && job["status"]["active"] == Value::Null
    })
    .await;
    assert_eq!(waiting["status"]["failedIndexes"], "");
    assert_eq!(waiting["status"]["failed"], Value::Null);
    first.stop().await;
    let kept = pods(&client).await;
    let kept: Vec<&Value> = kept.iter().filter(|pod| is_held(pod)).collect();
    assert_eq!(kept.len(), 2, "the failed Pods of 1 and 3");
    let second = patient_controller(&cluster).await;
    let ended = job_when(&client, "j", |job| is(job, "Failed")).await;
    assert_eq!(reason(&ended, "Failed").0, "FailedIndexes");
    assert_eq!(ended["status"]["failedIndexes"], "1,3");
    assert_eq!(ended["status"]["completedIndexes"], "0,2");
    assert_eq!(ended["status"]["failed"], 4);
    let mut told: Vec<(Option<String>, Option<String>)> = assert_all_free(&client)
        .await
        .iter()
        .map(|pod| (annotated(pod, INDEX), annotated(pod, FAILURES)))
        .collect();
    told.sort();
    let told: Vec<String> = told
        .into_iter()
        .map(|(index, failures)| {
            format!(
                "{}:{}",
                index.unwrap_or_default(),
                failures.unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(told, ["0:0", "1:0", "1:1", "2:0", "3:0", "3:1"]);
    second.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_can_recover_within_its_limit() {
    let plays = json!({"fail-indexes": "1", "fail-attempts": "2", "exit-code": "42"});
    let mut wanted = job(3, 3, &plays);
    wanted["spec"]["backoffLimitPerIndex"] = json!(0);
    wanted["spec"]["podFailurePolicy"] = on_42("Ignore");
    let (ended, pods) = run(&wanted, "Complete").await;
    assert_eq!(ended["status"]["failedIndexes"], "");
    assert_eq!(ended["status"]["failed"], Value::Null);
    let mut told: Vec<_> = pods
        .iter()
        .filter(|pod| annotated(pod, INDEX).as_deref() == Some("1"))
        .map(|pod| (annotated(pod, FAILURES), annotated(pod, IGNORED)))
        .collect();
    told.sort();
    let zero = Some("0".to_owned());
    let expect = [None, Some("1".to_owned()), Some("2".to_owned())];
    assert_eq!(told, expect.map(|ignored| (zero.clone(), ignored)));
}

#[tokio::test(flavor = "multi_thread")]
async fn fail_index_spends_no_further_pods() {
    let mut wanted = job(3, 3, &json!({"fail-indexes": "1", "exit-code": "42"}));
    wanted["spec"]["backoffLimitPerIndex"] = json!(5);
    wanted["spec"]["podFailurePolicy"] = on_42("FailIndex");
    let (ended, pods) = run(&wanted, "Failed").await;
    assert_eq!(reason(&ended, "Failed").0, "FailedIndexes");
    assert_eq!(ended["status"]["failedIndexes"], "1");
    assert_eq!(ended["status"]["completedIndexes"], "0,2");
    assert_eq!(ended["status"]["failed"], 1);
    assert_eq!(pods.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_failed_indexes_end_the_job() {
    let mut wanted = job(9, 2, &json!({"fail-indexes": "0-8"}));
    wanted["spec"]["backoffLimitPerIndex"] = json!(0);
    wanted["spec"]["maxFailedIndexes"] = json!(1);
    let (ended, _) = run(&wanted, "Failed").await;
    let (reason, message) = reason(&ended, "Failed");
    assert_eq!(reason, "MaxFailedIndexesExceeded");
    assert_eq!(
        message,
        "Job has exceeded the specified maximal number of failed indexes"
    );
    assert_eq!(ended["status"]["completedIndexes"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_policy_deletes_running_pods() {
    let cluster = cluster(Duration::from_millis(1500)).await;
    let client = client(&cluster).await;
    let first = controller(&cluster).await;
    // Two at a time: when 0 and 1 have succeeded, 2 and 3 have just begun.
    let mut wanted = job(8, 2, &json!({}));
    wanted["spec"]["successPolicy"] = json!({"rules": [
        {"succeededIndexes": "7", "succeededCount": 1},
        {"succeededIndexes": "0,1"},
    ]});
    create(&client, &wanted).await;
    pods_when(&client, |pods| pods.len() == 2).await;
    first.stop().await;
    let second = controller(&cluster).await;
    let ended = job_when(&client, "j", |job| is(job, "Complete")).await;
    for kind in ["SuccessCriteriaMet", "Complete"] {
        let (reason, message) = reason(&ended, kind);
        assert_eq!(reason, "SuccessPolicy");
        assert_eq!(message, "Matched rules at index 1");
    }
    assert_eq!(ended["status"]["completedIndexes"], "0,1");
    assert_eq!(ended["status"]["succeeded"], 2);
    assert_eq!(ended["status"]["failed"], Value::Null);
    assert_all_free(&client).await;
    second.stop().await;
    cluster.shutdown().await;
}

/// Starts a cluster with Pods that run long, stop slowly and restart quickly.
async fn slow_to_stop() -> EmbeddedCluster {
    let kubelet = KubeletOptions {
        default_duration: Duration::from_secs(60),
        stop_delay: Duration::from_millis(1500),
        restart_backoff: Duration::from_millis(20),
        ..KubeletOptions::with_nodes(1)
    };
    EmbeddedCluster::start(ClusterOptions {
        kubelet,
        ..ClusterOptions::default()
    })
    .await
    .expect("a free port")
}

/// Deletes the only Pod of a Job. Returns the Pods that exist when the second one has come.
async fn pods_after_deletion(policy: &str) -> Vec<Value> {
    let cluster = slow_to_stop().await;
    let client = client(&cluster).await;
    let first = controller(&cluster).await;
    let mut wanted = job(1, 1, &json!({}));
    wanted["spec"]["podReplacementPolicy"] = json!(policy);
    create(&client, &wanted).await;
    let running = |pods: &[Value]| pods.iter().any(|pod| pod["status"]["phase"] == "Running");
    let running = pods_when(&client, running).await;
    let name = running[0]["metadata"]["name"].as_str().expect("a name");
    let path = format!("/api/v1/namespaces/default/pods/{name}");
    client.delete(&path).await.expect("it is there");
    first.stop().await;
    let second = controller(&cluster).await;
    let uid = running[0]["metadata"]["uid"].clone();
    let replaced = |pods: &[Value]| pods.iter().any(|pod| pod["metadata"]["uid"] != uid);
    let pods = pods_when(&client, replaced).await;
    second.stop().await;
    cluster.shutdown().await;
    pods
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_is_replaced_at_once_or_when_it_has_ended() {
    let still_runs = |pods: &[Value]| {
        pods.iter().any(|pod| {
            let deleting = pod["metadata"].get("deletionTimestamp").is_some();
            deleting && pod["status"]["phase"] == "Running"
        })
    };
    let pods = pods_after_deletion("TerminatingOrFailed").await;
    assert!(still_runs(&pods), "{pods:#?}");
    let pods = pods_after_deletion("Failed").await;
    assert!(!still_runs(&pods), "{pods:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn never_restarted_backoff_limit_3_is_four_pods() {
    let mut wanted = job(1, 1, &json!({"exit-code": "1"}));
    wanted["spec"]["backoffLimit"] = json!(3);
    let (ended, pods) = run(&wanted, "Failed").await;
    assert_eq!(reason(&ended, "Failed").0, "BackoffLimitExceeded");
    assert_eq!(ended["status"]["failed"], 4);
    assert_eq!(pods.len(), 4, "all are left in place");
    assert!(pods.iter().all(|pod| pod["status"]["phase"] == "Failed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_in_place_backoff_limit_3_is_four_starts_and_the_last_is_cut_off() {
    let cluster = slow_to_stop().await;
    let client = client(&cluster).await;
    let controller = controller(&cluster).await;
    let mut wanted = job(1, 1, &json!({"exit-code": "1", "duration": "700ms"}));
    wanted["spec"]["backoffLimit"] = json!(3);
    wanted["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    create(&client, &wanted).await;
    let cut_off = |pods: &[Value]| {
        let deleting = |pod: &Value| pod["metadata"].get("deletionTimestamp").is_some();
        pods.iter().any(deleting)
    };
    let pods = pods_when(&client, cut_off).await;
    assert_eq!(pods.len(), 1);
    let container = &pods[0]["status"]["containerStatuses"][0];
    assert_eq!(container["restartCount"], 3, "{container:#}");
    assert!(container["state"].get("running").is_some(), "{container:#}");
    let ended = job_when(&client, "j", |job| is(job, "Failed")).await;
    assert_eq!(reason(&ended, "Failed").0, "BackoffLimitExceeded");
    assert_eq!(ended["status"]["failed"], 1);
    pods_when(&client, <[Value]>::is_empty).await;
    controller.stop().await;
    cluster.shutdown().await;
}
