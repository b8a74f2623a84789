//! Tests changes of a running Job: suspended, resumed, scaled, past its deadline, or in a namespace that is deleted.
//! Also with a controller restart in the middle.

use std::{collections::BTreeSet, time::Duration};

use lakh::{
    client::{Client, Patch},
    embedded::EmbeddedCluster,
    runtime::Controller,
};
use serde_json::{Value, json};

use crate::support::{
    self, create, get, indexed_job, is, is_held, job_when, pods, pods_when, seen_when, successes,
};

const LONG: Duration = Duration::from_secs(3600);
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A cluster and its controller, which may be replaced.
struct Scene {
    cluster: EmbeddedCluster,
    client: Client,
    controller: Controller,
}

impl Scene {
    /// Starts with a Job and this duration of its Pods.
    async fn with(job: &Value, pod_duration: Duration) -> Self {
        let cluster = support::cluster(pod_duration).await;
        let client = support::client(&cluster).await;
        let controller = support::controller(&cluster).await;
        create(&client, job).await;
        Self {
            cluster,
            client,
            controller,
        }
    }

    /// Stops the controller and starts another one.
    async fn restart(self) -> Self {
        self.controller.stop().await;
        Self {
            controller: support::controller(&self.cluster).await,
            ..self
        }
    }

    /// Changes the Job's spec.
    async fn change(&self, spec: Value) {
        let path = "/apis/batch/v1/namespaces/default/jobs/j";
        let body = json!({ "spec": spec }).to_string().into_bytes();
        let changed = self.client.patch(path, Patch::Merge, body).await;
        changed.expect("a good change");
    }

    async fn job_when(&self, holds: impl Fn(&Value) -> bool) -> Value {
        job_when(&self.client, "j", holds).await
    }

    /// Waits until the active Pods have exactly these indexes.
    async fn indexes_are(&self, wanted: &[&str]) {
        let wanted: BTreeSet<&str> = wanted.iter().copied().collect();
        pods_when(&self.client, |all| {
            let active = all.iter().filter(|pod| is_active(pod));
            let indexes: Vec<&str> = active
                .filter_map(|pod| pod["metadata"]["annotations"][INDEX].as_str())
                .collect();
            indexes.len() == wanted.len() && indexes.into_iter().collect::<BTreeSet<_>>() == wanted
        })
        .await;
    }

    async fn end(self) {
        pods_when(&self.client, |all| !all.iter().any(is_held)).await;
        self.controller.stop().await;
        self.cluster.shutdown().await;
    }
}

fn is_active(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    !["Succeeded", "Failed"].contains(&phase) && pod["metadata"]["deletionTimestamp"].is_null()
}

fn condition<'a>(job: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = job["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
}

fn job(completions: u32, parallelism: u32) -> Value {
    indexed_job("j", completions, parallelism)
}

/// Waits until there are Events with these reasons. Events are written a moment after the change.
async fn told(client: &Client, wanted: &[&str]) {
    let is_told = |events: &Value| {
        let events = events["items"].as_array().into_iter().flatten();
        let reasons: BTreeSet<_> = events
            .filter_map(|event| event["reason"].as_str())
            .collect();
        wanted.iter().all(|reason| reasons.contains(reason))
    };
    seen_when(client, "/api/v1/namespaces/default/events", is_told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_it_has_no_pods_and_resumed_it_goes_on() {
    let scene = Scene::with(&job(40, 4), Duration::from_millis(400)).await;
    scene
        .job_when(|job| job["status"]["succeeded"].as_u64() > Some(5))
        .await;
    scene.change(json!({"suspend": true})).await;
    let suspended = scene
        .job_when(|job| is(job, "Suspended") && job["status"]["active"].as_u64().unwrap_or(0) == 0)
        .await;
    let found = condition(&suspended, "Suspended").expect("just seen");
    assert_eq!(found["reason"], "JobSuspended");
    assert_eq!(found["message"], "Job suspended");
    assert!(suspended["status"]["startTime"].is_null(), "{suspended:#}");
    pods_when(&scene.client, |all| !all.iter().any(is_active)).await;
    let before = suspended["status"]["succeeded"].as_u64();

    let scene = scene.restart().await;
    scene.controller.ready().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!pods(&scene.client).await.iter().any(is_active));
    scene.change(json!({"suspend": false})).await;
    let job = scene.job_when(|job| is(job, "Complete")).await;
    assert_eq!(job["status"]["completedIndexes"], "0-39");
    assert!(job["status"]["succeeded"].as_u64() > before);
    let found = condition(&job, "Suspended").expect("it stays");
    assert_eq!(found["status"], "False");
    assert_eq!(found["reason"], "JobResumed");
    assert_eq!(found["message"], "Job resumed");
    assert!(job["status"]["startTime"].is_string());
    let all = pods(&scene.client).await;
    // A Pod may succeed while its deletion is in progress. Then its index counts, and the Pod is gone.
    let succeeded = successes(&all, 40);
    assert!(
        succeeded.iter().all(|count| *count <= 1),
        "an index succeeded twice: {succeeded:?}"
    );
    let wanted = ["SuccessfulDelete", "Suspended", "Resumed", "Completed"];
    told(&scene.client, &wanted).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadlines_clock_starts_when_the_job_does() {
    let mut wanted = job(2, 2);
    wanted["spec"]["suspend"] = json!(true);
    wanted["spec"]["activeDeadlineSeconds"] = json!(1);
    let scene = Scene::with(&wanted, LONG).await;
    scene.job_when(|job| is(job, "Suspended")).await;
    let scene = scene.restart().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    scene.job_when(|job| !is(job, "Failed")).await;
    scene.change(json!({"suspend": false})).await;
    // On a busy machine the deadline may pass before the first read.
    let began = |job: &Value| job["status"]["active"] == 2 || is(job, "Failed");
    scene.job_when(began).await;
    let scene = scene.restart().await;
    let failed = scene.job_when(|job| is(job, "Failed")).await;
    assert_eq!(failed["status"]["failed"], 2);
    let found = condition(&failed, "Failed").expect("just seen");
    assert_eq!(found["reason"], "DeadlineExceeded");
    assert_eq!(
        found["message"],
        "Job was active longer than specified deadline"
    );
    pods_when(&scene.client, |all| !all.iter().any(is_active)).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_elastic_job_grows_and_shrinks() {
    let mut wanted = job(4, 4);
    let plays = json!({"sim.lakh.dev/duration": "3s"});
    wanted["spec"]["template"]["metadata"] = json!({ "annotations": plays });
    let scene = Scene::with(&wanted, LONG).await;
    scene.indexes_are(&["0", "1", "2", "3"]).await;
    scene
        .change(json!({"completions": 6, "parallelism": 6}))
        .await;
    scene.indexes_are(&["0", "1", "2", "3", "4", "5"]).await;
    let scene = scene.restart().await;
    scene
        .change(json!({"completions": 2, "parallelism": 2}))
        .await;
    scene.indexes_are(&["0", "1"]).await;
    let done = scene.job_when(|job| is(job, "Complete")).await;
    assert_eq!(done["status"]["completedIndexes"], "0,1");
    assert_eq!(done["status"]["succeeded"], 2);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parallelism_follows_the_spec() {
    let mut wanted = job(8, 0);
    wanted["spec"]["completionMode"] = json!("NonIndexed");
    // Longer than the start of a new controller: the Pods still run when the Job is scaled down.
    let plays = json!({"sim.lakh.dev/duration": "5s"});
    wanted["spec"]["template"]["metadata"] = json!({ "annotations": plays });
    let scene = Scene::with(&wanted, LONG).await;
    scene
        .job_when(|job| job["status"]["startTime"].is_string())
        .await;
    assert!(pods(&scene.client).await.is_empty());
    scene.change(json!({"parallelism": 6})).await;
    scene.job_when(|job| job["status"]["active"] == 6).await;
    let scene = scene.restart().await;
    scene.change(json!({"parallelism": 2})).await;
    scene.job_when(|job| job["status"]["active"] == 2).await;
    pods_when(&scene.client, |all| {
        all.iter().filter(|pod| is_active(pod)).count() <= 2
    })
    .await;
    scene.change(json!({"parallelism": 8})).await;
    let done = scene.job_when(|job| is(job, "Complete")).await;
    assert_eq!(done["status"]["succeeded"], 8);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_work_queue_is_done_when_its_pods_are() {
    let wanted = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"parallelism": 3, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox"}],
        }}},
    });
    let scene = Scene::with(&wanted, Duration::from_millis(400)).await;
    scene.job_when(|job| job["status"]["active"] == 3).await;
    let scene = scene.restart().await;
    let done = scene.job_when(|job| is(job, "Complete")).await;
    assert_eq!(done["status"]["succeeded"], 3);
    assert_eq!(pods(&scene.client).await.len(), 3);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_to_do_is_done_at_once() {
    for mode in ["Indexed", "NonIndexed"] {
        let mut wanted = job(0, 3);
        wanted["spec"]["completionMode"] = json!(mode);
        let scene = Scene::with(&wanted, LONG).await;
        let done = scene.job_when(|job| is(job, "Complete")).await;
        assert!(done["status"]["completionTime"].is_string(), "{done:#}");
        assert!(pods(&scene.client).await.is_empty());
        scene.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_come_from_the_template_as_it_was_when_the_job_was_resumed() {
    let mut wanted = job(2, 2);
    wanted["spec"]["suspend"] = json!(true);
    let scene = Scene::with(&wanted, Duration::from_millis(100)).await;
    scene.job_when(|job| is(job, "Suspended")).await;
    let container = json!({
        "name": "main", "image": "busybox", "resources": {"requests": {"cpu": "250m"}},
    });
    scene
        .change(json!({"template": {"spec": {
            "nodeSelector": {"zone": "b"},
            "containers": [container],
        }}}))
        .await;
    let scene = scene.restart().await;
    scene.change(json!({"suspend": false})).await;
    scene.job_when(|job| is(job, "Complete")).await;
    let all = pods(&scene.client).await;
    assert_eq!(all.len(), 2);
    for pod in &all {
        assert_eq!(pod["spec"]["nodeSelector"], json!({"zone": "b"}));
        let resources = &pod["spec"]["containers"][0]["resources"];
        assert_eq!(resources["requests"]["cpu"], "250m");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_with_its_namespace() {
    let cluster = support::cluster(Duration::from_millis(300)).await;
    let client = support::client(&cluster).await;
    let controller = support::controller(&cluster).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "brief"}});
    let created = client.create("/api/v1/namespaces", namespace.to_string().into_bytes());
    created.await.expect("a good name");
    let mut wanted = job(200, 20);
    wanted["metadata"]["namespace"] = json!("brief");
    let path = "/apis/batch/v1/namespaces/brief/jobs";
    let created = client.create(path, wanted.to_string().into_bytes());
    created.await.expect("a good Job");
    let path = "/api/v1/namespaces/brief/pods";
    for _ in 0..500 {
        let all = get(&client, path).await;
        let all = all["items"].as_array().cloned().unwrap_or_default();
        if all.iter().any(|pod| pod["status"]["phase"] == "Running") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    client
        .delete("/api/v1/namespaces/brief")
        .await
        .expect("it was there");
    let mut tries = 0;
    while client.get("/api/v1/namespaces/brief").await.is_ok() {
        tries += 1;
        assert!(tries < 1000, "something holds the namespace");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The controller still runs other Jobs.
    create(&client, &job(3, 3)).await;
    job_when(&client, "j", |job| is(job, "Complete")).await;
    controller.stop().await;
    cluster.shutdown().await;
}
