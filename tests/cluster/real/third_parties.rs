//! Stops and admits Jobs as Kueue does, under the built-in controller and under lakh in both modes.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use lakh::client::{Client, Patch};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};

use crate::support;

use super::{Cluster, PATIENCE};

/// Enough Jobs to get both orders of the queue manager's writes and the controller's.
const JOBS: usize = 12;

const ROUNDS: usize = 3;

/// Times below this one are not compared.
const NOISE: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real cluster, see CONTRIBUTING.md"]
async fn jobs_are_stopped_and_admitted_as_under_the_built_in_controller() {
    let cluster = Arc::new(Cluster::connect().await);
    let Some(built_in) = cluster.built_in() else {
        return;
    };
    let (expected, namespace) = admissions(&cluster, None).await;
    cluster.remove(&namespace);
    drop(built_in);
    for (overlay, manager) in [
        ("replace", None),
        ("managed-by", Some("lakh.dev/job-controller")),
    ] {
        let lakh = cluster.grant(overlay).start().await;
        let (found, namespace) = admissions(&cluster, manager).await;
        // While a namespace is being removed, its Pods would be refused.
        lakh.check(&[]);
        cluster.remove(&namespace);
        // The last admission follows two stops within seconds. Times below half a second are random.
        let most = expected[ROUNDS - 1].max(NOISE).mul_f64(1.2);
        assert!(
            found[ROUNDS - 1] <= most,
            "{overlay}: {found:?}, built-in {expected:?}"
        );
        lakh.kill();
    }
}

/// Returns the median time from an admission until all Pods are ready, by round, and the namespace of the Jobs.
async fn admissions(
    cluster: &Arc<Cluster>,
    manager: Option<&'static str>,
) -> (Vec<Duration>, String) {
    let namespace = cluster.namespace("queued").await;
    let mut jobs = JoinSet::new();
    for number in 0..JOBS {
        let (cluster, namespace) = (Arc::clone(cluster), namespace.clone());
        jobs.spawn(async move {
            let job = Queued {
                client: &cluster.client,
                path: format!("/apis/batch/v1/namespaces/{namespace}/jobs/queued-{number}"),
                pods: format!(
                    "/api/v1/namespaces/{namespace}/pods?labelSelector=job-name%3Dqueued-{number}"
                ),
            };
            cluster.create(&namespace, &job_of(number, manager)).await;
            job.run().await
        });
    }
    let all = jobs.join_all().await;
    let medians = (0..ROUNDS).map(|round| {
        let mut times: Vec<Duration> = all.iter().map(|times| times[round]).collect();
        times.sort_unstable();
        times[times.len() / 2]
    });
    (medians.collect(), namespace)
}

fn job_of(number: usize, manager: Option<&str>) -> Value {
    let mut job = support::indexed_job(&format!("queued-{number}"), 3, 3);
    let spec = &mut job["spec"];
    spec["suspend"] = json!(true);
    spec["backoffLimit"] = json!(0);
    spec["managedBy"] = json!(manager);
    spec["template"]["metadata"]["annotations"]["sim.lakh.dev/duration"] = json!("36000s");
    if number.is_multiple_of(2) {
        spec["completionMode"] = json!("NonIndexed");
    }
    job
}

/// A Job under the control of a queue manager.
struct Queued<'a> {
    client: &'a Client,
    path: String,
    pods: String,
}

impl Queued<'_> {
    /// Admits and stops the Job again and again. Returns the time of each admission.
    async fn run(&self) -> Vec<Duration> {
        let (mut times, mut names) = (Vec::new(), BTreeSet::new());
        for round in 0..ROUNDS {
            let template = json!({"metadata": {"annotations": {"round": round.to_string()}}});
            assert!(
                self.patch(json!({"spec": {"suspend": false, "template": template}}))
                    .await
            );
            times.push(self.until_ready().await);
            for pod in support::listed(&support::get(self.client, &self.pods).await) {
                let name = pod["metadata"]["name"].as_str().expect("a name");
                assert!(names.insert(name.to_owned()), "{name} came back");
            }
            if round + 1 < ROUNDS {
                self.stop().await;
            }
        }
        let job = support::get(self.client, &self.path).await;
        assert_eq!(job["status"]["failed"], Value::Null, "{job:#}");
        times
    }

    /// Kueue's three writes.
    async fn stop(&self) {
        assert!(self.patch(json!({"spec": {"suspend": true}})).await);
        let status = json!({"status": {"startTime": null}}).to_string();
        let path = format!("{}/status", self.path);
        let cleared = self.client.patch(&path, Patch::Merge, status);
        cleared
            .await
            .expect("a suspended Job's start time may be cleared");
        let template = json!({"metadata": {"annotations": {"round": null}}});
        let began = Instant::now();
        while !self.patch(json!({"spec": {"template": template}})).await {
            assert!(
                began.elapsed() < PATIENCE,
                "the template cannot be restored"
            );
            sleep(Duration::from_millis(50)).await;
        }
        while !support::listed(&support::get(self.client, &self.pods).await).is_empty() {
            assert!(began.elapsed() < PATIENCE, "Pods of a suspended Job stay");
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn patch(&self, patch: Value) -> bool {
        let patched = self
            .client
            .patch(&self.path, Patch::Merge, patch.to_string());
        patched.await.is_ok()
    }

    /// Waits until three Pods are ready, and then for the status that reports it. Returns the time that the Pods took.
    async fn until_ready(&self) -> Duration {
        let began = Instant::now();
        let mut took = None;
        loop {
            let pods = support::get(self.client, &self.pods).await;
            let pods = support::listed(&pods);
            if took.is_none() && pods.iter().filter(|pod| is_ready(pod)).count() == 3 {
                took = Some(began.elapsed());
            }
            let job = support::get(self.client, &self.path).await;
            if let Some(took) = took
                && job["status"]["ready"] == 3
            {
                return took;
            }
            assert!(began.elapsed() < PATIENCE, "{job:#}");
            sleep(Duration::from_millis(30)).await;
        }
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|all| {
        all.iter()
            .any(|it| it["type"] == "Ready" && it["status"] == "True")
    })
}
