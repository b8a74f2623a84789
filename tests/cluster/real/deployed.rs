//! Runs lakh on a real cluster: with the rights of `deploy/`, and beside and after the built-in controller. How to run
//! it: CONTRIBUTING.md.

use std::{
    collections::BTreeSet,
    fs,
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use lakh::embedded::manifest::{self, Source};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Cluster, has_ended};
use crate::support::{
    self, FINALIZER, check_pods_of_complete_job, finalizers, indexed_job, is,
    manifests::{OVERLAYS, VARIANTS, helm, kustomize, objects},
};

const NAME: &str = "lakh.dev/job-controller";
const OWN_FINALIZER: &str = "lakh.dev/job-tracking";

/// The used part of the Prometheus Operator's kind, so that a server can validate strictly.
const SERVICE_MONITORS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: servicemonitors.monitoring.coreos.com
spec:
  group: monitoring.coreos.com
  names: {kind: ServiceMonitor, plural: servicemonitors}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [endpoints, selector]
              properties:
                endpoints:
                  type: array
                  items:
                    type: object
                    properties: {port: {type: string}, path: {type: string}}
                selector:
                  type: object
                  properties: {matchLabels: {type: object, additionalProperties: {type: string}}}
"#;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real cluster, see CONTRIBUTING.md"]
async fn deploy_is_taken_as_it_is() {
    let cluster = Cluster::connect().await;
    // Namespaces and kinds of the objects must exist.
    let namespaces = OVERLAYS.map(|(_, name, _)| name).into_iter();
    for name in namespaces.collect::<BTreeSet<_>>() {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        cluster.kubectl(&["apply", "-f", "-"], &namespace.to_string());
    }
    cluster.kubectl(&["apply", "-f", "-"], SERVICE_MONITORS);
    let established = "wait --for=condition=Established crd/servicemonitors.monitoring.coreos.com";
    cluster.kubectl(&established.split(' ').collect::<Vec<_>>(), "");
    let strict = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
    for variant in VARIANTS {
        for text in [helm(variant), kustomize(variant)].into_iter().flatten() {
            let said = cluster.kubectl(&strict, &text);
            let objects = objects(&text).len();
            assert_eq!(said.lines().count(), objects, "{variant:?}: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real cluster, see CONTRIBUTING.md"]
async fn every_example_ends_as_it_says() {
    every_example("replace", None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real cluster, see CONTRIBUTING.md"]
async fn every_example_ends_as_it_says_managed_by_lakh() {
    every_example("managed-by", Some(NAME)).await;
}

async fn every_example(overlay: &'static str, manager: Option<&str>) {
    let cluster = Cluster::connect().await;
    let namespace = cluster.namespace("examples").await;
    let lakh = cluster.grant(overlay).start().await;
    let mut ends = Vec::new();
    for entry in fs::read_dir(support::project("examples")).expect("there are examples") {
        let path = entry.expect("an entry can be read").path();
        if path.extension().is_none_or(|end| end != "yaml") {
            continue;
        }
        let source = Source::read_file(&path).expect("it can be read");
        let first = source.text.lines().next().unwrap_or_default().to_owned();
        let end = first.strip_prefix("# ends: ").expect("how it ends");
        let documents = manifest::load(&[source]).expect("good YAML");
        for document in documents.into_iter().filter(|it| it.kind == "Job") {
            let mut job = document.body;
            job["spec"]["managedBy"] = json!(manager);
            // The Job has to exist when the last one ends.
            if let Some(ttl) = job["spec"].get_mut("ttlSecondsAfterFinished") {
                *ttl = json!(3600);
            }
            cluster.create(&namespace, &job).await;
            ends.push((document.name.to_string(), end.to_owned()));
        }
    }
    assert!(ends.len() >= 19);
    let jobs = cluster
        .all_jobs(&namespace, |job| has_ended(job) || is(job, "Suspended"))
        .await;
    for (name, end) in ends {
        let job = jobs.iter().find(|job| job["metadata"]["name"] == name);
        let job = job.expect("it is listed");
        assert!(is(job, &end), "{name} does not end {end}: {job:#}");
    }
    for pod in cluster.pods(&namespace).await {
        assert!(finalizers(&pod).is_empty(), "held back: {pod:#}");
    }
    lakh.check(&[]);
    cluster.remove(&namespace);
}

/// Both controllers take turns at the same Jobs, and each is killed at a random moment.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real cluster, see CONTRIBUTING.md"]
async fn taken_over_and_handed_back() {
    const INDEXES: u32 = 1000;
    const FAILING: u32 = 20;
    let cluster = Cluster::connect().await;
    let Some(mut built_in) = cluster.built_in() else {
        return;
    };
    let namespace = cluster.namespace("take-over").await;
    let granted = cluster.grant("replace");
    cluster
        .create(&namespace, &indexed_job("plain", INDEXES, 60))
        .await;
    let mut job = indexed_job("retried", INDEXES / 2, 30);
    job["spec"]["backoffLimitPerIndex"] = json!(1);
    job["spec"]["template"]["metadata"]["annotations"] = json!({
        "sim.lakh.dev/fail-indexes": format!("0-{}", FAILING - 1),
        "sim.lakh.dev/fail-attempts": "1",
    });
    cluster.create(&namespace, &job).await;
    let mut counted = indexed_job("counted", INDEXES / 2, 30);
    counted["spec"]["completionMode"] = json!("NonIndexed");
    cluster.create(&namespace, &counted).await;

    let dice = RandomState::new();
    let mut turns = 0;
    let mut progress = Vec::new();
    let last = loop {
        let life = |turn: u64| Duration::from_millis(1000 + dice.hash_one(turn) % 4000);
        sleep(life(turns)).await;
        drop(built_in);
        // Requests in flight at the kill are done by then.
        sleep(Duration::from_millis(200)).await;
        let lakh = granted.start().await;
        sleep(life(turns + 1)).await;
        let jobs = cluster.jobs(&namespace).await;
        let succeeded = jobs
            .iter()
            .filter_map(|job| job["status"]["succeeded"].as_u64());
        progress.push(succeeded.sum::<u64>());
        if jobs.iter().all(has_ended) {
            break lakh;
        }
        lakh.check(&[]);
        lakh.kill();
        sleep(Duration::from_millis(200)).await;
        turns += 2;
        assert!(turns < 200, "{jobs:#?}");
        built_in = cluster.built_in().expect("it was there before");
    };
    println!("succeeded when lakh was killed: {progress:?}");
    assert!(turns >= 4, "over after {turns} turns");
    last.check(&[]);
    let pods = cluster.pods(&namespace).await;
    for job in cluster.jobs(&namespace).await {
        check_end(&job, &pods, FAILING);
    }
    cluster.remove(&namespace);
}

/// Checks that no Pod is lost or counted twice.
fn check_end(job: &Value, pods: &[Value], failing: u32) {
    let name = job["metadata"]["name"].as_str().expect("a name");
    let status = &job["status"];
    assert!(is(job, "Complete"), "{name}: {status:#}");
    let completions = job["spec"]["completions"].as_u64().expect("a number");
    assert_eq!(status["succeeded"], completions, "{name}: {status:#}");
    assert_eq!(status["uncountedTerminatedPods"], json!({}), "{name}");
    let failed = if name == "retried" {
        json!(failing)
    } else {
        Value::Null
    };
    assert_eq!(status["failed"], failed, "{name}: {status:#}");
    let pods: Vec<Value> = pods
        .iter()
        .filter(|pod| owner(pod) == name)
        .cloned()
        .collect();
    let succeeded = pods
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Succeeded");
    assert_eq!(succeeded.count() as u64, completions, "{name}");
    if job["spec"]["completionMode"] == "Indexed" {
        assert_eq!(status["completedIndexes"], format!("0-{}", completions - 1));
        check_pods_of_complete_job(&pods, completions as usize);
    } else {
        assert!(pods.iter().all(|pod| finalizers(pod).is_empty()), "{name}");
    }
}

/// Both controllers run at once: each runs its own Jobs and writes to no other.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real cluster, see CONTRIBUTING.md"]
async fn side_by_side_with_the_built_in_controller() {
    const JOBS: usize = 100;
    let cluster = Cluster::connect().await;
    let Some(_built_in) = cluster.built_in() else {
        return;
    };
    let namespace = cluster.namespace("beside").await;
    let lakh = cluster.grant("managed-by").start().await;
    for n in 0..JOBS {
        for (name, manager) in [("plain", None), ("ours", Some(NAME))] {
            let mut job = indexed_job(&format!("{name}-{n}"), 3, 2);
            job["spec"]["managedBy"] = json!(manager);
            cluster.create(&namespace, &job).await;
        }
    }
    let mut held = BTreeSet::new();
    loop {
        for pod in cluster.pods(&namespace).await {
            let ours = owner(&pod).starts_with("ours");
            for finalizer in finalizers(&pod) {
                held.insert((ours, finalizer.to_owned()));
            }
        }
        let jobs = cluster.jobs(&namespace).await;
        if jobs.iter().all(has_ended) {
            assert!(jobs.iter().all(|job| is(job, "Complete")));
            check_managers(&jobs, "status", |job| job["metadata"]["name"].as_str());
            break;
        }
        sleep(Duration::from_millis(200)).await;
    }
    let expected = [(false, FINALIZER), (true, OWN_FINALIZER)];
    assert_eq!(
        held,
        expected.map(|(ours, name)| (ours, name.to_owned())).into()
    );
    let pods = cluster.pods(&namespace).await;
    assert_eq!(pods.len(), 2 * 3 * JOBS);
    check_managers(&pods, "", |pod| Some(owner(pod)));
    // Events are sent with a delay.
    sleep(Duration::from_secs(3)).await;
    let mut sources = BTreeSet::new();
    for event in cluster.events(&namespace).await {
        let job = event["involvedObject"]["name"].as_str().expect("a name");
        let source = event["source"]["component"].as_str().expect("a name");
        sources.insert((job.starts_with("ours"), source.to_owned()));
    }
    let expected = [(false, "job-controller"), (true, "lakh-job-controller")];
    assert_eq!(
        sources,
        expected.map(|(ours, name)| (ours, name.to_owned())).into()
    );
    lakh.check(&[]);
    cluster.remove(&namespace);
}

/// Checks the field managers of objects: of the Job controllers, only the one that runs the object's Job may have
/// written.
fn check_managers<'a>(
    objects: &'a [Value],
    subresource: &str,
    job: impl Fn(&'a Value) -> Option<&'a str>,
) {
    for object in objects {
        let job = job(object).expect("a Job's name");
        let managers = object["metadata"]["managedFields"].as_array();
        let managers: BTreeSet<&str> = managers
            .expect("a real server notes the managers of fields")
            .iter()
            .filter(|entry| entry["subresource"].as_str().unwrap_or_default() == subresource)
            .filter_map(|entry| entry["manager"].as_str())
            .collect();
        let writer = if job.starts_with("ours") {
            "lakh"
        } else {
            "kube-controller-manager"
        };
        assert_eq!(managers, [writer].into(), "{job}");
    }
}

/// Returns the name of a Pod's Job.
fn owner(pod: &Value) -> &str {
    let name = &pod["metadata"]["ownerReferences"][0]["name"];
    name.as_str().expect("an owner")
}
