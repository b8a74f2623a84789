//! Tests the deletion of running Jobs, also while the server refuses the removal of finalizers. No Pod may be left
//! behind with a finalizer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lakh::{client::Client, embedded::EmbeddedCluster, runtime::Controller};
use serde_json::{Value, json};

use crate::support::{
    self, create, indexed_job, is, is_held, job_when, pods, pods_when,
    proxy::{Fate, Proxy, refusal},
};

/// Removals of finalizers that are refused at first: some of each Pod.
const REFUSALS: u32 = 30;

const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/main";

/// A running Job, and a proxy that refuses the first removals of finalizers.
struct Scene {
    cluster: EmbeddedCluster,
    controller: Controller,
    client: Client,
    /// Keeps the proxy running.
    _proxy: Proxy,
    refusals_left: Arc<AtomicU32>,
}

impl Scene {
    async fn new() -> Self {
        let cluster = support::cluster(Duration::from_secs(3600)).await;
        let refusals_left = Arc::new(AtomicU32::new(REFUSALS));
        let left = Arc::clone(&refusals_left);
        let proxy = Proxy::start(&cluster.url(), move |request| {
            let is_removal = request.starts_with("PATCH /api/v1/namespaces/default/pods/")
                && request.contains("$deleteFromPrimitiveList/finalizers");
            let take = |left: u32| left.checked_sub(1);
            let refused = is_removal
                && left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
                    .is_ok();
            match refused {
                true => Fate::Answered(refusal(422, "Invalid", "not now")),
                false => Fate::Passed,
            }
        })
        .await;
        let controller = support::controller_over(&proxy).await;
        let client = support::client(&cluster).await;
        create(&client, &indexed_job("main", 20, 20)).await;
        let scene = Self {
            cluster,
            controller,
            client,
            _proxy: proxy,
            refusals_left,
        };
        scene.at_work().await;
        scene
    }

    async fn at_work(&self) {
        job_when(&self.client, "main", |job| job["status"]["ready"] == 20).await;
    }

    async fn delete(&self, propagation: &str) {
        let path = format!("{JOB}?propagationPolicy={propagation}");
        self.client.delete(&path).await.expect("it was there");
    }

    async fn end(self) {
        let left = self.refusals_left.load(Ordering::SeqCst);
        assert_eq!(left, 0, "the line was good");
        self.controller.stop().await;
        self.cluster.shutdown().await;
    }
}

fn owner(pod: &Value) -> &Value {
    &pod["metadata"]["ownerReferences"][0]["uid"]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_deleted_in_the_background_takes_its_pods_along() {
    let scene = Scene::new().await;
    scene.delete("Background").await;
    pods_when(&scene.client, <[Value]>::is_empty).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_deleted_in_the_foreground_goes_after_its_pods() {
    let scene = Scene::new().await;
    scene.delete("Foreground").await;
    pods_when(&scene.client, <[Value]>::is_empty).await;
    let mut tries = 0;
    while scene.client.get(JOB).await.is_ok() {
        tries += 1;
        assert!(tries < 500, "the Job is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_a_deleted_job_leaves_behind_are_free() {
    let scene = Scene::new().await;
    scene.delete("Orphan").await;
    let all = pods_when(&scene.client, |all| {
        !all.iter().any(|pod| is_held(pod) || !owner(pod).is_null())
    })
    .await;
    assert_eq!(all.len(), 20, "they run on");
    assert!(all.iter().all(|pod| pod["status"]["phase"] == "Running"));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_the_same_name_has_pods_of_its_own() {
    let scene = Scene::new().await;
    let before = pods(&scene.client).await;
    scene.delete("Background").await;
    let mut job = indexed_job("main", 20, 20);
    let annotation = json!({"sim.lakh.dev/duration": "10ms"});
    job["spec"]["template"]["metadata"] = json!({"annotations": annotation});
    create(&scene.client, &job).await;
    let job = job_when(&scene.client, "main", |job| is(job, "Complete")).await;
    assert_eq!(job["status"]["succeeded"], 20);
    assert!(job["status"]["failed"].is_null(), "{job:#}");
    let all = pods_when(&scene.client, |all| {
        all.len() == 20 && !all.iter().any(is_held)
    })
    .await;
    assert!(all.iter().all(|pod| owner(pod) == &job["metadata"]["uid"]));
    assert!(
        before
            .iter()
            .all(|pod| owner(pod) != &job["metadata"]["uid"])
    );
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_job_deleted_during_downtime_are_released() {
    let scene = Scene::new().await;
    let Scene {
        cluster,
        controller,
        client,
        ..
    } = scene;
    controller.stop().await;
    let path = format!("{JOB}?propagationPolicy=Background");
    client.delete(&path).await.expect("it was there");
    pods_when(&client, |all| {
        all.iter()
            .all(|pod| pod["metadata"]["deletionTimestamp"].is_string())
    })
    .await;
    assert_eq!(pods(&client).await.len(), 20, "they are held");
    let controller = support::controller(&cluster).await;
    pods_when(&client, <[Value]>::is_empty).await;
    controller.stop().await;
    cluster.shutdown().await;
}
