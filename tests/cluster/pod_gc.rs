//! Tests the Pod garbage collector on the embedded cluster over HTTP.
//!
//! Server, hollow nodes, collector and controller share a clock, which the tests move from pass to pass. The table
//! checks which Pods go when (`tests/rules/pod_gc_golden.rs`). These tests check the effects on other components.

use std::time::{Duration, Instant};

use lakh::{
    client::{Client, Patch},
    clock::Clock,
    embedded::{
        ClusterOptions, EmbeddedCluster, ServeOptions,
        apiserver::{EventType, Kind},
        kubelet::KubeletOptions,
    },
    model::Time,
    runtime::{Controller, Options},
};
use serde_json::{Value, json};

use crate::support::{
    client, create, get, http_get, indexed_job, is, job_when, listed, options, pods, pods_when,
    seen_when,
};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const PERIOD: Duration = Duration::from_secs(20);
const QUARANTINE: Duration = Duration::from_secs(40);
const KEPT: &str = "example.com/kept";

/// A cluster and its clock.
struct World {
    clock: Clock,
    cluster: EmbeddedCluster,
    client: Client,
}

impl World {
    /// Starts a cluster with this many hollow nodes and this duration of Pods.
    async fn new(nodes: usize, pod_duration: Duration, threshold: Option<i32>) -> Self {
        let clock = Clock::default();
        let usual = ClusterOptions::default();
        let cluster = EmbeddedCluster::start(ClusterOptions {
            server: ServeOptions {
                clock: clock.clone(),
                ..usual.server
            },
            kubelet: KubeletOptions {
                default_duration: pod_duration,
                ..KubeletOptions::with_nodes(nodes)
            },
            terminated_pod_gc_threshold: threshold.unwrap_or(usual.terminated_pod_gc_threshold),
        });
        let cluster = cluster.await.expect("a free port");
        let client = client(&cluster).await;
        Self {
            clock,
            cluster,
            client,
        }
    }

    /// Starts a cluster with Pods that run longer than any test.
    async fn with_nodes(nodes: usize) -> Self {
        let month = Duration::from_secs(30 * 24 * 3600);
        Self::new(nodes, month, None).await
    }

    async fn controller(&self) -> Controller {
        let options = Options {
            clock: self.clock.clone(),
            ..options()
        };
        let controller = Controller::start(self.client.clone(), options).await;
        controller.expect("nothing to listen on")
    }

    async fn stop(self, controller: Option<Controller>) {
        if let Some(controller) = controller {
            controller.stop().await;
        }
        self.cluster.shutdown().await;
    }

    /// Returns the collector's count of deleted Pods for this reason.
    fn collected(&self, reason: &str) -> u32 {
        let url = self.cluster.url();
        let address = url.trim_start_matches("http://").parse();
        let address = address.expect("an address");
        let page = tokio::task::block_in_place(|| http_get(address, "/metrics"));
        let page = page.expect("it answers");
        assert!(!page.contains("force_delete_pod_errors_total{"), "{page}");
        let labels = format!(r#"{{namespace="default",reason="{reason}"}} "#);
        let sample = format!("pod_gc_collector_force_delete_pods_total{labels}");
        let count = page.lines().find_map(|line| line.strip_prefix(&sample));
        count.map_or(0, |count| count.parse().expect("a number"))
    }

    /// Lets passes go by until the condition holds of the object at a path.
    async fn passes_until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let seen = get(&self.client, path).await;
            if holds(&seen) {
                return seen;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{seen:#}");
            self.clock.move_on_to(self.clock.now().wall + PERIOD);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for a pass that knows of all events until now: it handles a terminating Pod without a node.
    async fn a_pass(&self) {
        self.make(PODS, &waiting_pod("canary")).await;
        let path = format!("{PODS}/canary");
        self.client.delete(&path).await.expect("it is there");
        self.passes_until(&path, |pod| pod["status"]["phase"] == "Failed")
            .await;
        self.release("canary").await;
    }

    /// Does the same where as many Pods have ended as may stay. The pass deletes an evicted Pod, although it is the
    /// youngest.
    async fn a_pass_that_counts(&self) {
        let mut canary = waiting_pod("canary");
        canary["metadata"]["finalizers"] = json!([]);
        self.make(PODS, &canary).await;
        let status = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
        self.patch(&format!("{PODS}/canary/status"), status).await;
        let is_gone = |list: &Value| listed(list).iter().all(|pod| name(pod) != "canary");
        self.passes_until(PODS, is_gone).await;
    }

    async fn make(&self, path: &str, object: &Value) {
        let body = object.to_string().into_bytes();
        let (code, answer) = self.client.post(path, body).await.expect("an answer");
        assert!(code < 300, "{}", String::from_utf8_lossy(&answer));
    }

    async fn patch(&self, path: &str, patch: Value) {
        let body = patch.to_string().into_bytes();
        let answer = self.client.patch(path, Patch::Merge, body).await;
        answer.expect("it is taken");
    }

    /// Removes the finalizers of a Pod.
    async fn release(&self, pod: &str) {
        let none = json!({"metadata": {"finalizers": null}});
        self.patch(&format!("{PODS}/{pod}"), none).await;
    }

    /// Sets a Pod's phase.
    async fn set_phase(&self, pod: &str, phase: &str) {
        let status = json!({"status": {"phase": phase}});
        self.patch(&format!("{PODS}/{pod}/status"), status).await;
    }

    /// Returns all states of a Pod.
    fn states(&self, pod: &str) -> Vec<(EventType, Value)> {
        let events = self.cluster.server().api().events(Kind::Pod, 0, usize::MAX);
        let events = events.expect("the log has room").into_iter();
        events
            .filter(|event| event.object.name == pod)
            .map(|event| {
                let state = serde_json::from_slice(event.object.bytes());
                (event.event_type, state.expect("JSON"))
            })
            .collect()
    }

    /// Returns all states of the Pod with this UID, without other Pods of its name.
    fn states_of(&self, pod: &Value) -> Vec<(EventType, Value)> {
        let mut states = self.states(name(pod));
        states.retain(|(_, state)| uid(state) == uid(pod));
        states
    }

    /// Returns the changes of a Pod that a collector may cause.
    fn history(&self, pod: &str) -> Vec<String> {
        told(&self.states(pod))
    }
}

/// Describes the changes between states that a collector may cause.
fn told(states: &[(EventType, Value)]) -> Vec<String> {
    let mut told: Vec<String> = states
        .iter()
        .map(|(event_type, pod)| {
            let phase = pod["status"]["phase"].as_str().unwrap_or_default();
            let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64();
            let grace = grace.map_or(String::new(), |secs| format!(", {secs} s to go"));
            format!("{event_type:?} {phase}{grace}")
        })
        .collect();
    told.dedup();
    told
}

/// Returns a Pod that is never scheduled, and stays until it is released.
fn waiting_pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "finalizers": [KEPT]},
        "spec": {
            "schedulingGates": [{"name": "example.com/never"}],
            "containers": [{"name": "main", "image": "busybox"}],
        },
    })
}

/// Returns a Job of one Pod, which may not fail.
fn job(name: &str) -> Value {
    let mut job = indexed_job(name, 1, 1);
    job["spec"]["backoffLimit"] = 0.into();
    job
}

/// Returns such a Job that ignores disruptions.
fn job_that_ignores_disruptions(name: &str) -> Value {
    let mut job = job(name);
    job["spec"]["podFailurePolicy"] = json!({"rules": [{
        "action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget"}],
    }]});
    job
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().expect("a UID")
}

fn node(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

fn is_of(pod: &Value, job: &str) -> bool {
    pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == job
}

/// Returns the Pods of two Jobs once each has one that runs.
async fn one_running_of(client: &Client, jobs: [&str; 2]) -> [Value; 2] {
    let of = |pods: &[Value], job: &str| -> Option<Value> {
        let runs = |pod: &&Value| is_of(pod, job) && pod["status"]["phase"] == "Running";
        pods.iter().find(runs).cloned()
    };
    let pods = pods_when(client, |pods| {
        jobs.iter().all(|job| of(pods, job).is_some())
    })
    .await;
    jobs.map(|job| of(&pods, job).expect("it was there"))
}

fn condition_types(pod: &Value) -> Vec<&str> {
    let conditions = pod["status"]["conditions"].as_array();
    let conditions = conditions.into_iter().flatten();
    conditions.filter_map(|one| one["type"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_node_that_is_gone_fail_and_their_job_may_ignore_it() {
    let world = World::with_nodes(3).await;
    let client = &world.client;
    let controller = world.controller().await;
    create(client, &job_that_ignores_disruptions("ignores")).await;
    create(client, &job("counts")).await;
    let [ignored, counted] = one_running_of(client, ["ignores", "counts"]).await;
    assert_ne!(node(&ignored), node(&counted), "nodes take turns");
    let gone_at = world.clock.now().wall;
    for pod in [&ignored, &counted] {
        let path = format!("{NODES}/{}", node(pod));
        client.delete(&path).await.expect("it is there");
    }
    let are_gone = |list: &Value| {
        // The replacement of an ignored failure reuses the failed Pod's name, if that Pod is gone by then.
        let mut left = listed(list).iter().map(uid);
        left.all(|left| left != uid(&ignored) && left != uid(&counted))
    };
    world.passes_until(PODS, are_gone).await;

    for pod in [&ignored, &counted] {
        let states = world.states_of(pod);
        let history = told(&states);
        let end = &history[history.len() - 4..];
        assert_eq!(
            end,
            [
                "Modified Running",
                "Modified Failed",
                "Modified Failed, 0 s to go",
                "Deleted Failed, 0 s to go"
            ]
        );
        let at = states
            .iter()
            .position(|(_, pod)| pod["status"]["phase"] == "Failed");
        let (before, failed) = match at {
            Some(at) if at > 0 => (&states[at - 1].1, &states[at].1),
            _ => panic!("it did not fail"),
        };
        let mut types = condition_types(before);
        assert!(types.contains(&"Ready"), "{types:?}");
        // A patch without an order puts new elements first.
        types.insert(0, "DisruptionTarget");
        assert_eq!(condition_types(failed), types);
        let condition = &failed["status"]["conditions"][0];
        let time = condition["lastTransitionTime"].as_str().expect("a time");
        let told_at = Time::parse_rfc3339(time).expect("a time");
        assert!(told_at >= gone_at.whole_secs() + QUARANTINE, "too early");
        assert_eq!(
            *condition,
            json!({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastProbeTime": null,
                "lastTransitionTime": time,
                "observedGeneration": failed["metadata"]["generation"],
            })
        );
        let observed = &failed["status"]["observedGeneration"];
        assert_eq!(observed, &failed["metadata"]["generation"]);
        assert_eq!(failed["status"]["reason"], Value::Null);
    }

    let failed = job_when(client, "counts", |job| is(job, "Failed")).await;
    assert_eq!(failed["status"]["failed"], 1);
    let replaced = |pods: &[Value]| pods.len() == 1 && pods[0]["status"]["phase"] == "Running";
    let others = pods_when(client, replaced).await;
    assert!(is_of(&others[0], "ignores"));
    let goes_on = job_when(client, "ignores", |job| job["status"]["active"] == 1).await;
    assert_eq!(goes_on["status"]["failed"], Value::Null);
    assert!(!is(&goes_on, "Failed"), "{goes_on:#}");

    let events = get(client, "/api/v1/namespaces/default/events").await;
    for event in listed(&events) {
        let told_by = &event["source"]["component"];
        assert_eq!(told_by, "job-controller", "{event:#}");
    }
    world.stop(Some(controller)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pod_goes_to_a_node_that_is_gone_until_it_is_back() {
    let world = World::with_nodes(1).await;
    let client = &world.client;
    let controller = world.controller().await;
    seen_when(client, NODES, |list| listed(list).len() == 1).await;
    let path = format!("{NODES}/hollow-0");
    client.delete(&path).await.expect("it is there");
    create(client, &job("j")).await;
    let first = pods_when(client, |pods| pods.len() == 1).await.remove(0);
    world.a_pass().await;
    let waits = pods(client).await.remove(0);
    assert_eq!(node(&waits), "");
    let again = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "hollow-0"}});
    world.make(NODES, &again).await;
    pods_when(client, |pods| pods[0]["status"]["phase"] == "Running").await;
    for _ in 0..3 {
        world.a_pass().await;
    }
    let runs = pods(client).await.remove(0);
    assert_eq!(name(&runs), name(&first));
    assert_eq!(runs["status"]["phase"], "Running");
    world.stop(Some(controller)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_waits_for_its_end_and_has_no_node_fails_and_goes() {
    let world = World::with_nodes(1).await;
    world.make(PODS, &waiting_pod("stays")).await;
    world.make(PODS, &waiting_pod("goes")).await;
    let path = format!("{PODS}/goes");
    world.client.delete(&path).await.expect("it is there");
    let has_failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    let failed = world.passes_until(&path, has_failed).await;
    assert!(!condition_types(&failed).contains(&"DisruptionTarget"));
    // The Pod stays until its finalizer is removed. Another deletion request changes nothing.
    world.a_pass().await;
    let until_now = [
        "Added Pending",
        "Modified Pending, 0 s to go",
        "Modified Failed, 0 s to go",
    ];
    assert_eq!(world.history("goes"), until_now);
    assert_eq!(world.states("goes").len(), 3);
    world.release("goes").await;
    let left = pods_when(&world.client, |pods| pods.len() == 1).await;
    assert_eq!(name(&left[0]), "stays");
    assert_eq!(left[0]["status"]["phase"], "Pending");
    assert!(world.collected("unscheduled") >= 2, "the canary, too");
    assert_eq!(world.collected("orphaned"), 0);
    world.stop(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_wait_for_a_node_out_of_service_fail_and_count() {
    let world = World::with_nodes(0).await;
    let client = &world.client;
    let controller = world.controller().await;
    // A node without a hollow kubelet and without a Ready condition.
    let n1 = format!("{NODES}/n1");
    let taint = |key: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoExecute"}]}});
    let ready =
        |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    world
        .make(
            NODES,
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}),
        )
        .await;
    create(client, &job_that_ignores_disruptions("j")).await;
    let pod = pods_when(client, |pods| pods.len() == 1).await.remove(0);
    let pod = name(&pod);
    let path = format!("{PODS}/{pod}");
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    });
    world.make(&format!("{path}/binding"), &binding).await;
    world.set_phase(pod, "Running").await;
    client.delete(&path).await.expect("it is there");

    let still_runs = || async {
        world.a_pass().await;
        let pod = get(client, &path).await;
        assert_eq!(pod["status"]["phase"], "Running", "{pod:#}");
    };
    still_runs().await;
    world
        .patch(&n1, taint("node.kubernetes.io/unreachable"))
        .await;
    still_runs().await;
    world.patch(&format!("{n1}/status"), ready("True")).await;
    world
        .patch(&n1, taint("node.kubernetes.io/out-of-service"))
        .await;
    still_runs().await;
    world.patch(&format!("{n1}/status"), ready("Unknown")).await;
    let job = "/apis/batch/v1/namespaces/default/jobs/j";
    let failed = world.passes_until(job, |job| is(job, "Failed")).await;
    assert_eq!(
        failed["status"]["failed"], 1,
        "nobody calls it a disruption"
    );
    pods_when(client, <[Value]>::is_empty).await;

    let history = world.history(pod);
    assert_eq!(
        history[history.len() - 4..],
        [
            "Modified Running, 30 s to go",
            "Modified Failed, 30 s to go",
            "Modified Failed, 0 s to go",
            "Deleted Failed, 0 s to go"
        ]
    );
    let (_, last) = world.states(pod).pop().expect("it was there");
    assert!(!condition_types(&last).contains(&"DisruptionTarget"));
    assert!(world.collected("out-of-service") >= 1);
    world.stop(Some(controller)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_pods_that_have_ended_only_so_many_stay_and_their_job_has_counted_them() {
    let world = World::new(3, Duration::from_millis(20), Some(2)).await;
    let controller = world.controller().await;
    create(&world.client, &indexed_job("j", 6, 2)).await;
    let job = "/apis/batch/v1/namespaces/default/jobs/j";
    let done = world.passes_until(job, |job| is(job, "Complete")).await;
    assert_eq!(done["status"]["succeeded"], 6);
    assert_eq!(done["status"]["completedIndexes"], "0-5");
    world
        .passes_until(PODS, |list| listed(list).len() <= 2)
        .await;
    world.a_pass_that_counts().await;
    let left = pods(&world.client).await;
    assert_eq!(left.len(), 2, "and no more of them go");
    let deleted = world
        .cluster
        .server()
        .api()
        .events(Kind::Pod, 0, usize::MAX);
    let deleted = deleted.expect("the log has room");
    let deleted = deleted
        .iter()
        .filter(|event| event.event_type == EventType::Deleted && event.object.name != "canary");
    let mut count = 0;
    for event in deleted {
        let history = world.history(&event.object.name);
        assert_eq!(
            history[history.len() - 3..],
            [
                "Modified Succeeded",
                "Modified Succeeded, 0 s to go",
                "Deleted Succeeded, 0 s to go"
            ]
        );
        count += 1;
    }
    assert_eq!(count, 4);
    let job = get(&world.client, job).await;
    assert_eq!(job["status"]["succeeded"], 6);
    assert!(world.collected("terminated") >= 5, "the canary, too");
    world.stop(Some(controller)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_pods_stay_without_a_threshold() {
    let world = World::new(3, Duration::from_millis(20), None).await;
    let controller = world.controller().await;
    create(&world.client, &indexed_job("j", 6, 6)).await;
    job_when(&world.client, "j", |job| is(job, "Complete")).await;
    world.a_pass().await;
    assert_eq!(pods(&world.client).await.len(), 6);
    world.stop(Some(controller)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_relists_after_missed_events() {
    let world = World::new(0, Duration::ZERO, Some(1)).await;
    for pod in ["old", "young"] {
        let mut pod = waiting_pod(pod);
        pod["metadata"]["finalizers"] = json!([]);
        world.make(PODS, &pod).await;
    }
    world.set_phase("young", "Succeeded").await;
    world.a_pass_that_counts().await;
    let path = format!("{PODS}/young");
    world.client.delete(&path).await.expect("it is there");
    world.set_phase("old", "Succeeded").await;
    world.cluster.server().api().forget_events();
    // A collector that still counts both Pods deletes the old one.
    world.a_pass_that_counts().await;
    let left = pods(&world.client).await;
    assert_eq!(left.iter().map(name).collect::<Vec<_>>(), ["old"]);
    world.stop(None).await;
}
