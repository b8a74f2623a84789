//! The same Jobs under the built-in controller and under lakh: status, Events and Pods must come
//! out the same. The Jobs are in `tests/conformance`; how to run it: CONTRIBUTING.md.
//!
//! Annotations of a Job are its script: `ends` says in which condition it comes to rest, each line
//! of `steps` is `STATE: DEED`. A state is a field of the status (`ready=2`) or a condition
//! (`Suspended=True`); a deed is a `patch` of the Job, or `delete` or `evict` with the index of the
//! Pod that it happens to.

mod real;
mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use lakh::{
    cluster::Patch,
    manifest::{self, Source},
};
use real::Cluster;
use serde_json::{Value, json};
use support::finalizers;
use tokio::{task::JoinSet, time::sleep};

/// How long a Job may take to its next step, or to its end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Outcomes of all Jobs, by their names: texts of which each line says one thing.
type Outcomes = BTreeMap<String, BTreeSet<String>>;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real cluster, see CONTRIBUTING.md"]
async fn jobs_come_out_as_under_the_built_in_controller() {
    let cluster = Arc::new(Cluster::connect().await);
    let Some(built_in) = cluster.built_in() else {
        return;
    };
    let expected = outcomes(&cluster, "built-in").await;
    drop(built_in);
    let lakh = cluster.grant("replace").start().await;
    let found = outcomes(&cluster, "lakh").await;
    lakh.check();
    assert!(expected.len() >= 50);
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
}

/// Runs all Jobs at once, in a namespace of their own.
async fn outcomes(cluster: &Arc<Cluster>, controller: &str) -> Outcomes {
    let namespace = cluster.namespace(controller).await;
    let mut scripts = JoinSet::new();
    for job in jobs() {
        cluster.create(&namespace, &job).await;
        scripts.spawn(play(Arc::clone(cluster), namespace.clone(), job));
    }
    while let Some(played) = scripts.join_next().await {
        played.expect("it comes to its end");
    }
    // Events are sent when there is time.
    sleep(Duration::from_secs(3)).await;
    let jobs = cluster.jobs(&namespace).await;
    let pods = cluster.pods(&namespace).await;
    let events = cluster.events(&namespace).await;
    let outcomes = jobs.iter().map(|job| {
        let name = name(job).to_owned();
        let outcome = outcome(job, &pods, &events, &namespace);
        (name, outcome)
    });
    let outcomes = outcomes.collect();
    for pod in pods.iter().filter(|pod| !finalizers(pod).is_empty()) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{}", name(pod));
        let free = json!({"metadata": {"finalizers": null}}).to_string();
        let freed = cluster.client.patch(&path, Patch::Merge, free.into_bytes());
        freed.await.expect("it was there");
    }
    cluster.remove(&namespace);
    outcomes
}

/// The Jobs of `tests/conformance`.
fn jobs() -> Vec<Value> {
    let files = fs::read_dir(support::project("tests/conformance")).expect("it is there");
    let sources: Vec<Source> = files
        .map(|file| Source::read_file(&file.expect("a file").path()).expect("it can be read"))
        .collect();
    let documents = manifest::load(&sources).expect("good YAML").into_iter();
    documents.map(|document| document.body).collect()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

/// Does what a Job's script says, and returns once the Job is at rest.
async fn play(cluster: Arc<Cluster>, namespace: String, job: Value) {
    let script = |key: &str| job["metadata"]["annotations"][key].as_str();
    let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs/{}", name(&job));
    for step in script("steps").into_iter().flat_map(str::lines) {
        let (state, deed) = step.split_once(": ").expect("STATE: DEED");
        let (field, value) = state.split_once('=').expect("FIELD=VALUE");
        when(&cluster, &path, step, |status| {
            let number: Option<u64> = value.parse().ok();
            condition(status, field) == Some(value)
                || number.is_some_and(|number| status[field] == number)
        })
        .await;
        let (verb, what) = deed.split_once(' ').expect("VERB WHAT");
        let pod = format!(
            "/api/v1/namespaces/{namespace}/pods?labelSelector=job-name={},{}={what}",
            name(&job),
            "batch.kubernetes.io/job-completion-index",
        );
        let done = match verb {
            "patch" => {
                let body = what.as_bytes().to_vec();
                cluster.client.patch(&path, Patch::Merge, body).await
            }
            "delete" => {
                let pod = only_pod(&cluster, &pod).await;
                let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
                cluster.client.delete(&path).await
            }
            "evict" => {
                let pod = only_pod(&cluster, &pod).await;
                let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction");
                let body = json!({
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": pod, "namespace": namespace},
                });
                let body = body.to_string().into_bytes();
                cluster.client.create(&path, body).await
            }
            _ => panic!("no deed: {step}"),
        };
        done.unwrap_or_else(|error| panic!("{}: {step}: {error}", name(&job)));
    }
    let ends = script("ends").expect("how it ends");
    when(&cluster, &path, ends, |status| {
        condition(status, ends) == Some("True") && status["terminating"] == 0
    })
    .await;
}

async fn only_pod(cluster: &Cluster, path: &str) -> String {
    let list = support::get(&cluster.client, path).await;
    let items = list["items"].as_array().expect("a list");
    assert_eq!(items.len(), 1, "{path}");
    name(&items[0]).to_owned()
}

/// Returns once this holds of a Job's status.
async fn when(cluster: &Cluster, path: &str, what: &str, holds: impl Fn(&Value) -> bool) {
    let started = Instant::now();
    loop {
        let job = support::get(&cluster.client, path).await;
        if holds(&job["status"]) {
            return;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "{path}: {what} does not come: {:#}",
            job["status"]
        );
        sleep(Duration::from_millis(200)).await;
    }
}

/// The status of a condition, if it is there.
fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = status["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind)?["status"].as_str()
}

/// What can be compared of a Job, its Events and its Pods.
fn outcome(job: &Value, pods: &[Value], events: &[Value], namespace: &str) -> BTreeSet<String> {
    let job_name = name(job);
    let mut lines = BTreeSet::new();
    let mut status = job["status"].clone();
    without_times(&mut status);
    for (field, value) in status.as_object().into_iter().flatten() {
        let value = nameless(&value.to_string(), job_name, namespace);
        lines.insert(format!("status.{field}: {value}"));
    }
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    for event in events {
        if event["involvedObject"]["uid"] != job["metadata"]["uid"] {
            continue;
        }
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        let message = nameless(text("message"), job_name, namespace);
        let source = &event["source"]["component"];
        let line = format!("{} {} {source} {message}", text("type"), text("reason"));
        *told.entry(line).or_default() += event["count"].as_u64().unwrap_or(1);
    }
    for (event, count) in told {
        lines.insert(format!("Event, {count} times: {event}"));
    }
    let mut shapes: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods {
        if pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"] {
            *shapes.entry(shape(pod)).or_default() += 1;
        }
    }
    for (shape, count) in shapes {
        lines.insert(format!("Pod, {count} times: {shape}"));
    }
    lines
}

/// Puts a word in the place of every time.
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

/// A text without the part of Pods' names that is left to chance, and without the namespace.
fn nameless(text: &str, job: &str, namespace: &str) -> String {
    let text = text.replace(&format!("{namespace}/"), "NAMESPACE/");
    // The start of the name is all that is left of it in Pods of Jobs with long names.
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
        let kept = end.saturating_sub(5);
        result += &format!("{start}{}?????{}", &piece[..kept], &piece[end..]);
    }
    result
}

/// All of a Pod that its Job's controller decides about, and how it ended.
fn shape(pod: &Value) -> String {
    let mut pod = pod.clone();
    let generated = pod["metadata"]["generateName"].as_str().map_or(0, str::len);
    let chance = name(&pod).len() - generated;
    let metadata = pod["metadata"].as_object_mut().expect("metadata");
    for field in [
        "creationTimestamp",
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
    pod["metadata"]["ownerReferences"][0]["uid"] = json!("some UID");
    pod["spec"]["nodeName"] = Value::Null;
    let phase = pod["status"]["phase"].take();
    format!(
        "{phase} {} {} and {chance} letters",
        pod["metadata"], pod["spec"]
    )
}
