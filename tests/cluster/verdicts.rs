//! Tests a Pod that fails its Job by the podFailurePolicy while others run. The controller is killed at any later
//! moment. No stored status has the failure without the verdict, the Job ends by it, and no Pod is created again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, future::join_all};
use lakh::{
    client::{Client, Patch},
    embedded::EmbeddedCluster,
    runtime::{Controller, Options, Rate},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{self, client, get, indexed_job, is, listed, options};

/// Moments at which a controller is killed, each in a namespace of its own.
const MOMENTS: u32 = 50;

/// Controllers that run at once.
const AT_ONCE: usize = 10;

/// Time between two of the moments. With ten calls a second the 59 running Pods take six seconds.
const APART: Duration = Duration::from_millis(100);

const INDEXES: usize = 60;

/// Watched states of Jobs and Pods, by namespace.
#[derive(Default)]
struct Seen {
    statuses: usize,
    /// Statuses with a failed Pod and without a verdict.
    unannounced: Vec<String>,
    pods: BTreeMap<String, BTreeSet<String>>,
    ended: BTreeMap<String, Value>,
}

impl Seen {
    fn note(&mut self, object: &Value) {
        let namespace = text(&object["metadata"]["namespace"]);
        if object["kind"] == "Pod" {
            let pods = self.pods.entry(namespace).or_default();
            pods.insert(text(&object["metadata"]["uid"]));
            return;
        }
        self.statuses += 1;
        let status = &object["status"];
        let named = status["uncountedTerminatedPods"]["failed"].as_array();
        let tells =
            status["failed"].as_u64() > Some(0) || named.is_some_and(|uids| !uids.is_empty());
        if tells && !is(object, "FailureTarget") {
            self.unannounced.push(format!("{namespace}: {status}"));
        }
        if is(object, "Failed") {
            self.ended.insert(namespace, status.clone());
        }
    }

    /// Checks that no status had the failure alone, that each Job ended by it, and that no Pod was created again.
    fn check(&self) {
        let wrong = &self.unannounced;
        assert!(
            wrong.is_empty(),
            "{} of {} statuses tell of no verdict: {}",
            wrong.len(),
            self.statuses,
            wrong[0]
        );
        for (namespace, status) in &self.ended {
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let reasons = conditions.map(|condition| text(&condition["reason"]));
            let reasons: BTreeSet<String> = reasons.collect();
            assert_eq!(reasons, BTreeSet::from(["PodFailurePolicy".to_owned()]));
            assert_eq!(status["failed"], INDEXES, "{namespace}");
            let pods = self.pods[namespace].len();
            assert_eq!(pods, INDEXES, "{namespace}: Pods were made again");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_outlives_the_controller_at_any_moment() {
    let cluster = support::cluster(Duration::from_secs(3600)).await;
    let client = client(&cluster).await;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let watches = ["/apis/batch/v1/jobs", "/api/v1/pods"];
    let watches = watches.map(|path| tokio::spawn(follow(client.clone(), path, Arc::clone(&seen))));

    let namespaces: Vec<String> = (0..MOMENTS).map(|moment| format!("at-{moment}")).collect();
    for namespace in &namespaces {
        make(&client, namespace).await;
    }
    let first = start(&cluster, &[], 0).await;
    for namespace in &namespaces {
        let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs/main");
        support::seen_when(&client, &path, |job| job["status"]["ready"] == INDEXES).await;
    }
    drop(first);

    let moments: Vec<(&String, u32)> = namespaces.iter().zip(0..).collect();
    for some in moments.chunks(AT_ONCE) {
        let rounds = some.iter().map(async |(namespace, moment)| {
            let first = start(&cluster, &[namespace], 10).await;
            fail_a_pod(&client, namespace).await;
            tokio::time::sleep(APART * *moment).await;
            drop(first);
            let next = start(&cluster, &[namespace], 0).await;
            let started = Instant::now();
            while !seen.lock().ended.contains_key(*namespace) {
                assert!(started.elapsed() < Duration::from_secs(60), "{namespace}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            next.stop().await;
        });
        join_all(rounds).await;
    }

    for watch in watches {
        assert!(!watch.is_finished(), "a watch has ended");
        watch.abort();
    }
    seen.lock().check();
    cluster.shutdown().await;
}

/// Records all watch events of a kind.
async fn follow(client: Client, path: &'static str, seen: Arc<Mutex<Seen>>) {
    let watch = client.watch(&format!("{path}?watch=true")).await;
    let mut pieces = watch.expect("a watch");
    let mut rest = Vec::new();
    while let Some(piece) = pieces.next().await {
        rest.extend_from_slice(&piece.expect("the line is good"));
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).expect("an event");
            seen.lock().note(&event["object"]);
        }
    }
}

/// Creates a namespace, and a Job in it that a Pod fails by exit code 42.
async fn make(client: &Client, namespace: &str) {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let made = client.create("/api/v1/namespaces", body.to_string().into_bytes());
    made.await.expect("a good name");
    let mut job = indexed_job("main", INDEXES as u32, INDEXES as u32);
    job["spec"]["podFailurePolicy"] = json!({"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]});
    let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
    let made = client.create(&path, job.to_string().into_bytes());
    made.await.expect("a good Job");
}

async fn fail_a_pod(client: &Client, namespace: &str) {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let pods = get(client, &path).await;
    let name = text(&listed(&pods)[0]["metadata"]["name"]);
    let failed = json!({"status": {"phase": "Failed", "containerStatuses": [{
        "name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 42}},
    }]}});
    let path = format!("{path}/{name}/status");
    let told = client.patch(&path, Patch::Merge, failed.to_string().into_bytes());
    told.await.expect("it is taken");
}

/// Starts a controller for some namespaces, or for all, with a limit on calls a second; 0 for no limit.
async fn start(cluster: &EmbeddedCluster, namespaces: &[&String], qps: u32) -> Controller {
    let options = Options {
        namespaces: namespaces.iter().map(ToString::to_string).collect(),
        rate: Rate { qps, burst: qps },
        ..options()
    };
    let started = Controller::start(client(cluster).await, options).await;
    started.expect("nothing to listen on")
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
