//! Compares the same Jobs under the built-in controller and under lakh: status, Events and Pods must be the same. The
//! Jobs are in `jobs`; how to run it: CONTRIBUTING.md.
//!
//! Annotations of a Job are its script: `ends` names the condition in which it comes to rest, or `Gone`. Each line of
//! `steps` is `STATE: DEED`. A state is a field of the status (`ready=2`), a condition (`Suspended=True`), or `before`
//! for steps before the Job is created. The deeds:
//!
//! - `patch JSON`: patches the Job; `remove POLICY`: deletes it, with a propagation policy;
//! - `pod JSON`: creates an ownerless Pod with these labels;
//! - `delete POD`, `force POD`, `evict POD`: deletes it with its grace period or with none, or evicts it;
//! - `label POD JSON`, `status POD JSON`: patches its labels or its status.
//!
//! A POD is an index, or `any`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use lakh::{
    client::Patch,
    embedded::manifest::{self, Source},
};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};

use super::Cluster;
use crate::support::{self, finalizers};

/// Longest time until a Job's next step, or its end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The label that selects the Pods of a Job, owned or not.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// Outcomes of all Jobs, by name: one fact per line.
type Outcomes = BTreeMap<String, BTreeSet<String>>;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real cluster, see CONTRIBUTING.md"]
async fn jobs_come_out_as_under_the_built_in_controller() {
    let cluster = Arc::new(Cluster::connect().await);
    let Some(built_in) = cluster.built_in() else {
        return;
    };
    let namespace = cluster.namespace("built-in").await;
    let expected = outcomes(&cluster, &namespace).await;
    cluster.remove(&namespace);
    drop(built_in);
    let lakh = cluster.grant("replace").start().await;
    let namespace = cluster.namespace("lakh").await;
    let found = outcomes(&cluster, &namespace).await;
    // Pods with a RuntimeClass that is absent.
    lakh.check(&[("POST", "403")]);
    assert!(expected.len() >= 70);
    let mut different = String::new();
    for (job, expected) in &expected {
        let found = &found[job];
        for line in expected.difference(found) {
            different += &format!("{job}: - {line}\n");
        }
        for line in found.difference(expected) {
            different += &format!("{job}: + {line}\n");
        }
    }
    assert!(different.is_empty(), "- built-in, + lakh\n{different}");
    cluster.remove(&namespace);
}

/// Runs all Jobs at once, in a namespace of their own.
async fn outcomes(cluster: &Arc<Cluster>, namespace: &str) -> Outcomes {
    let mut scripts = JoinSet::new();
    for job in jobs() {
        scripts.spawn(play(Arc::clone(cluster), namespace.to_owned(), job));
    }
    while let Some(played) = scripts.join_next().await {
        played.expect("it comes to its end");
    }
    // Events are sent with a delay, and garbage is collected later.
    sleep(Duration::from_secs(5)).await;
    let left = Left {
        jobs: cluster.jobs(namespace).await,
        pods: cluster.pods(namespace).await,
        events: cluster.events(namespace).await,
        namespace: namespace.to_owned(),
    };
    for pod in left.pods.iter().filter(|pod| !finalizers(pod).is_empty()) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{}", name(pod));
        let free = json!({"metadata": {"finalizers": null}}).to_string();
        let freed = cluster.client.patch(&path, Patch::Merge, free.into_bytes());
        freed.await.expect("it was there");
    }
    let names = jobs().into_iter().map(|job| name(&job).to_owned());
    names.map(|job| (job.clone(), left.outcome(&job))).collect()
}

/// Reads the Jobs of `jobs`.
fn jobs() -> Vec<Value> {
    let files = fs::read_dir(support::project("tests/cluster/real/jobs")).expect("it is there");
    let sources: Vec<Source> = files
        .map(|file| Source::read_file(&file.expect("a file").path()).expect("it can be read"))
        .collect();
    let documents = manifest::load(&sources).expect("good YAML").into_iter();
    documents.map(|document| document.body).collect()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

/// Runs a Job's script, and returns once the Job is at rest.
async fn play(cluster: Arc<Cluster>, namespace: String, job: Value) {
    let script = |key: &str| job["metadata"]["annotations"][key].as_str();
    let scene = Scene {
        job: name(&job).to_owned(),
        namespace,
        cluster,
    };
    let steps = script("steps").unwrap_or_default().lines();
    let (before, after): (Vec<&str>, Vec<&str>) =
        steps.partition(|step| step.starts_with("before: "));
    for step in before {
        scene.perform(step).await;
    }
    scene.cluster.create(&scene.namespace, &job).await;
    for step in after {
        let (state, _) = step.split_once(": ").expect("STATE: DEED");
        let (field, value) = state.split_once('=').expect("FIELD=VALUE");
        let number: Option<u64> = value.parse().ok();
        let holds = |status: &Value| {
            condition(status, field) == Some(value)
                || number.is_some_and(|number| status[field] == number)
        };
        scene
            .when(step, |job| job.is_some_and(|job| holds(&job["status"])))
            .await;
        scene.perform(step).await;
    }
    let ends = script("ends").expect("how it ends");
    let is_at_rest = |job: Option<&Value>| match job {
        None => ends == "Gone",
        Some(job) => {
            let status = &job["status"];
            condition(status, ends) == Some("True") && status["terminating"] == 0
        }
    };
    scene.when(ends, is_at_rest).await;
}

/// The Job of a script, and the cluster that it runs on.
struct Scene {
    cluster: Arc<Cluster>,
    namespace: String,
    job: String,
}

impl Scene {
    async fn perform(&self, step: &str) {
        let client = &self.cluster.client;
        let (_, deed) = step.split_once(": ").expect("STATE: DEED");
        let (verb, what) = deed.split_once(' ').expect("VERB WHAT");
        let (pod, body) = what.split_once(' ').unwrap_or((what, ""));
        let pods = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let done = match verb {
            "patch" => {
                client
                    .patch(&self.path(), Patch::Merge, what.to_owned())
                    .await
            }
            "remove" => {
                let options = json!({"propagationPolicy": what}).to_string();
                client.delete_with(&self.path(), options).await
            }
            "pod" => {
                let body = self.pod(what).to_string();
                client.create(&pods, body).await
            }
            "delete" | "force" => {
                let path = format!("{pods}/{}", self.find(pod).await);
                let grace = if verb == "force" {
                    json!(0)
                } else {
                    Value::Null
                };
                let options = json!({"gracePeriodSeconds": grace}).to_string();
                client.delete_with(&path, options).await
            }
            "evict" => {
                let name = self.find(pod).await;
                let body = json!({
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": name, "namespace": self.namespace},
                });
                let path = format!("{pods}/{name}/eviction");
                client.create(&path, body.to_string()).await
            }
            "label" => {
                let path = format!("{pods}/{}", self.find(pod).await);
                let body = format!(r#"{{"metadata": {{"labels": {body}}}}}"#);
                client.patch(&path, Patch::Merge, body).await
            }
            "status" => {
                let path = format!("{pods}/{}/status", self.find(pod).await);
                let body = format!(r#"{{"status": {body}}}"#);
                client.patch(&path, Patch::Merge, body).await
            }
            _ => panic!("no deed: {step}"),
        };
        done.unwrap_or_else(|error| panic!("{}: {step}: {error}", self.job));
    }

    fn path(&self) -> String {
        let Self { namespace, job, .. } = self;
        format!("/apis/batch/v1/namespaces/{namespace}/jobs/{job}")
    }

    /// Returns an ownerless Pod.
    fn pod(&self, labels: &str) -> Value {
        let mut labels: Value = serde_json::from_str(labels).expect("JSON");
        labels[JOB_NAME] = json!(self.job);
        json!({
            "metadata": {
                "generateName": format!("{}-", self.job),
                "labels": labels,
                "annotations": {"sim.lakh.dev/duration": "5s"},
            },
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "busybox"}],
            },
        })
    }

    /// Returns the name of one of the Job's Pods.
    async fn find(&self, pod: &str) -> String {
        let mut selector = format!("{JOB_NAME}={}", self.job);
        if pod != "any" {
            selector += &format!(",batch.kubernetes.io/job-completion-index={pod}");
        }
        let path = format!(
            "/api/v1/namespaces/{}/pods?labelSelector={selector}",
            self.namespace
        );
        let list = support::get(&self.cluster.client, &path).await;
        let items = list["items"].as_array().expect("a list");
        assert!(items.len() == 1 || pod == "any", "{path}");
        name(&items[0]).to_owned()
    }

    /// Waits until the condition holds of the Job, if the Job exists.
    async fn when(&self, what: &str, holds: impl Fn(Option<&Value>) -> bool) {
        let started = Instant::now();
        loop {
            let jobs = self.cluster.jobs(&self.namespace).await;
            let job = jobs.iter().find(|job| name(job) == self.job);
            if holds(job) {
                return;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{}: {what} does not come: {:#}",
                self.job,
                job.map_or(&Value::Null, |job| &job["status"])
            );
            sleep(Duration::from_millis(500)).await;
        }
    }
}

/// Returns the status of a condition, if the condition exists.
fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = status["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind)?["status"].as_str()
}

/// The objects that are left when all Jobs are at rest.
struct Left {
    jobs: Vec<Value>,
    pods: Vec<Value>,
    events: Vec<Value>,
    namespace: String,
}

impl Left {
    /// Returns the comparable facts of a Job, its Events and its Pods.
    fn outcome(&self, name: &str) -> BTreeSet<String> {
        let named = |text: &str| nameless(text, name, &self.namespace);
        let mut lines = BTreeSet::new();
        let job = self.jobs.iter().find(|job| self::name(job) == name);
        if let Some(mut status) = job.map(|job| job["status"].clone()) {
            without_times(&mut status);
            for (field, value) in status.as_object().into_iter().flatten() {
                lines.insert(format!("status.{field}: {}", named(&value.to_string())));
            }
        }
        let mut told: BTreeMap<String, u64> = BTreeMap::new();
        for event in &self.events {
            if event["involvedObject"]["name"] != name {
                continue;
            }
            let text = |field: &str| event[field].as_str().unwrap_or_default();
            let source = &event["source"]["component"];
            let message = named(text("message"));
            let line = format!("{} {} {source} {message}", text("type"), text("reason"));
            let count = event["count"].as_u64().unwrap_or(1);
            if text("reason") == "FailedCreate" {
                // The number of retries depends on timing.
                told.insert(line, 1);
            } else {
                *told.entry(line).or_default() += count;
            }
        }
        for (event, count) in told {
            lines.insert(format!("Event, {count} times: {event}"));
        }
        let mut shapes: BTreeMap<String, usize> = BTreeMap::new();
        for pod in &self.pods {
            if pod["metadata"]["labels"][JOB_NAME] == name {
                *shapes.entry(shape(pod)).or_default() += 1;
            }
        }
        for (shape, count) in shapes {
            lines.insert(format!("Pod, {count} times: {shape}"));
        }
        lines
    }
}

/// Replaces every time by a placeholder.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                if field.ends_with("Time") {
                    *value = json!("some time");
                }
                without_times(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}

/// Removes the namespace and the random part of Pods' names from a text.
fn nameless(text: &str, job: &str, namespace: &str) -> String {
    let text = text.replace(&format!("{namespace}/"), "NAMESPACE/");
    // Pods of Jobs with long names have only the start of the name.
    let start = &job[..job.len().min(50)];
    let mut pieces = text.split(start);
    let mut result = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        if !piece.starts_with('-') {
            result += &format!("{start}{piece}");
            continue;
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let end = piece.find(|c| !is_name(c)).unwrap_or(piece.len());
        // An early refusal of a Pod lacks the end of its name, unless the request had a full name.
        let kept = end.saturating_sub(5).max(1);
        result += &format!("{start}{}?????{}", &piece[..kept], &piece[end..]);
    }
    result
}

/// Describes all of a Pod that its Job's controller decides, and its phase.
fn shape(pod: &Value) -> String {
    let mut pod = pod.clone();
    let generated = pod["metadata"]["generateName"].as_str().map_or(0, str::len);
    let chance = name(&pod).len() - generated;
    let metadata = pod["metadata"].as_object_mut().expect("metadata");
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    ] {
        metadata.remove(field);
    }
    for label in ["controller-uid", "batch.kubernetes.io/controller-uid"] {
        if let Some(uid) = pod["metadata"]["labels"].get_mut(label) {
            *uid = json!("some UID");
        }
    }
    if let Some(owner) = pod["metadata"].pointer_mut("/ownerReferences/0/uid") {
        *owner = json!("some UID");
    }
    pod["spec"]["nodeName"] = Value::Null;
    let phase = pod["status"]["phase"].take();
    // Admission adds the volume with the Pod's token. Its name ends in five random letters.
    let token = "kube-api-access-";
    let spec = pod["spec"].to_string();
    let mut pieces = spec.split(token);
    let mut spec = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        spec += &format!("{token}?????{}", &piece[5..]);
    }
    format!("{phase} {} {spec} and {chance} letters", pod["metadata"])
}
