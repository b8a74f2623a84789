//! Tests nodes with little capacity end to end: Pods wait, and the Job still completes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use lakh::embedded::{ClusterOptions, EmbeddedCluster, kubelet::KubeletOptions};
use serde_json::{Value, json};

use crate::support::{
    self, controller, create, get, http_get, indexed_job, is, job_when, pods_when, run, seen_when,
};

/// Starts a cluster with three nodes of two CPUs each.
async fn cluster(pod_duration: Duration) -> EmbeddedCluster {
    EmbeddedCluster::start(ClusterOptions {
        kubelet: KubeletOptions {
            capacity: Some("cpu=2,pods=50".parse().expect("a capacity")),
            default_duration: pod_duration,
            ..KubeletOptions::with_nodes(3)
        },
        ..ClusterOptions::default()
    })
    .await
    .expect("a free port")
}

fn wants_cpu(mut job: Value, cpu: &str) -> Value {
    let container = &mut job["spec"]["template"]["spec"]["containers"][0];
    container["resources"] = json!({"requests": {"cpu": cpu}});
    job
}

fn condition(pod: &Value) -> Value {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let scheduled = conditions.find(|condition| condition["type"] == "PodScheduled");
    scheduled.cloned().unwrap_or_default()
}

/// Returns all Pod events of a watch since a version.
async fn history(cluster: &EmbeddedCluster, since: &str) -> Vec<Value> {
    let path = format!("/api/v1/pods?watch=true&resourceVersion={since}&timeoutSeconds=1");
    let url = cluster.url();
    let address = url
        .trim_start_matches("http://")
        .parse()
        .expect("an address");
    let answer = tokio::task::spawn_blocking(move || http_get(address, &path))
        .await
        .expect("no panic")
        .expect("an answer");
    let lines = answer.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).expect("an event"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_two_hundred_pods_completes_on_three_small_nodes() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let _controller = controller(&cluster).await;
    let client = support::client(&cluster).await;
    let before = get(&client, "/api/v1/pods").await;
    let before = before["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version");
    create(&client, &wants_cpu(indexed_job("main", 200, 200), "500m")).await;
    let done = job_when(&client, "main", |job| is(job, "Complete")).await;
    assert_eq!(done["status"]["completedIndexes"], "0-199");

    let mut on_nodes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut most, mut waited, mut succeeded) = (0, BTreeSet::new(), BTreeSet::new());
    for event in history(&cluster, before).await {
        let pod = &event["object"];
        let name = pod["metadata"]["name"].as_str().expect("a name").to_owned();
        if condition(pod)["reason"] == "Unschedulable" {
            waited.insert(name.clone());
        }
        if pod["status"]["phase"] == "Succeeded" {
            succeeded.insert(name.clone());
        }
        let Some(node) = pod["spec"]["nodeName"].as_str() else {
            continue;
        };
        assert_eq!(condition(pod)["status"], "True", "{pod:#}");
        assert!(condition(pod).get("reason").is_none(), "{pod:#}");
        let there = on_nodes.entry(node.to_owned()).or_default();
        if pod["status"]["phase"] == "Succeeded" || event["type"] == "DELETED" {
            there.remove(&name);
        } else {
            there.insert(name);
        }
        assert!(there.len() <= 4, "{node} has {there:?}");
        most = most.max(on_nodes.values().map(BTreeSet::len).sum());
    }
    assert_eq!(succeeded.len(), 200);
    assert_eq!(most, 12, "the nodes were never full");
    assert!(waited.len() > 100, "only {} waited", waited.len());
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unschedulable_pods_have_a_reason_and_full_nodes_reject_pods() {
    let cluster = cluster(Duration::from_secs(600)).await;
    let client = support::client(&cluster).await;
    let pod = |name: &str, node: Option<&str>| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "nodeName": node,
                "containers": [{
                    "name": "main",
                    "image": "busybox",
                    "resources": {"requests": {"cpu": "1500m"}},
                }],
            },
        })
    };
    let make = async |name: &str, node: Option<&str>| {
        let body = pod(name, node).to_string().into_bytes();
        let created = client.create("/api/v1/namespaces/default/pods", body).await;
        created.expect("a good Pod");
    };
    let settled = async |count: usize| {
        let is_settled = |pod: &Value| {
            pod["status"]["phase"] != "Pending" || condition(pod)["reason"] == "Unschedulable"
        };
        pods_when(&client, |pods| {
            pods.len() == count && pods.iter().all(is_settled)
        })
        .await
    };
    for name in ["a", "b", "c", "waits"] {
        make(name, None).await;
    }
    settled(4).await;
    // Each node is full now.
    make("forced", Some("hollow-0")).await;
    let all = settled(5).await;
    let named = |name: &str| {
        let mut pods = all.iter();
        pods.find(|pod| pod["metadata"]["name"] == name)
            .expect("it is there")
    };
    let message = "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, \
                   preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.";
    assert_eq!(condition(named("waits"))["message"], message);
    let forced = &named("forced")["status"];
    assert_eq!(
        (&forced["phase"], &forced["reason"]),
        (&"Failed".into(), &"OutOfcpu".into())
    );
    let detail =
        "Node didn't have enough resource: cpu, requested: 1500, used: 1500, capacity: 2000";
    assert_eq!(forced["message"], format!("Pod was rejected: {detail}"));
    let events = seen_when(&client, "/api/v1/namespaces/default/events", |events| {
        let has = |reason| {
            support::listed(events)
                .iter()
                .any(|event| event["reason"] == reason)
        };
        has("FailedScheduling") && has("OutOfcpu")
    })
    .await;
    let told = |reason: &str| {
        let mut events = support::listed(&events).iter();
        let event = events.find(|event| event["reason"] == reason);
        let event = event.unwrap_or_else(|| panic!("no event {reason}"));
        (
            event["involvedObject"]["name"].clone(),
            event["message"].clone(),
        )
    };
    assert_eq!(told("FailedScheduling"), ("waits".into(), message.into()));
    assert_eq!(told("OutOfcpu"), ("forced".into(), detail.into()));
    client
        .delete_with(
            "/api/v1/namespaces/default/pods/b",
            br#"{"gracePeriodSeconds":0}"#.to_vec(),
        )
        .await
        .expect("it is there");
    pods_when(&client, |pods| {
        let waits = pods.iter().find(|pod| pod["metadata"]["name"] == "waits");
        waits.is_some_and(|pod| pod["status"]["phase"] == "Running")
    })
    .await;
    cluster.shutdown().await;
}

#[test]
fn a_capacity_that_makes_no_sense_is_refused() {
    for (capacity, complaint) in [
        ("cpu=many", "cpu=many: not a quantity"),
        ("disk=1", "there is no resource \"disk\""),
        ("8", "\"8\" must be RESOURCE=QUANTITY"),
    ] {
        let output = run(&["local", "--node-capacity", capacity]);
        assert!(!output.status.success(), "{capacity}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains(complaint) && said.contains("--node-capacity"),
            "{said}"
        );
    }
}
