//! Tests gang scheduling over HTTP: Workload, PodGroup, and Pods that refer to their group.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lakh::{
    client::{self, Client},
    embedded::EmbeddedCluster,
    model::{Uid, names},
    runtime::{Controller, Options, StartError},
    wire::Call,
};
use serde_json::{Value, json};

use crate::support::{
    self, check_pods_of_complete_job, client, create, get, indexed_job, is, job_when, pods,
    pods_when,
    proxy::{self, Fate, Proxy, refusal},
};

const API: &str = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default";

fn options() -> Options {
    Options {
        workload_with_job: true,
        ..support::options()
    }
}

async fn controller(url: &str) -> Controller {
    let client = client::connect_url(url).await.expect("it answers");
    let started = Controller::start(client, options()).await;
    started.expect("the embedded server has gangs")
}

async fn items(client: &Client, plural: &str) -> Vec<Value> {
    let list = get(client, &format!("{API}/{plural}")).await;
    list["items"].as_array().cloned().unwrap_or_default()
}

async fn post(client: &Client, plural: &str, object: &Value) -> Value {
    let path = format!("{API}/{plural}");
    let call = Call::create_whole(path, object.to_string());
    let answer = client.send(&call).await.expect("a good object");
    serde_json::from_slice(&answer).expect("JSON")
}

/// Returns a Workload that refers to a Job, and is controlled by it if `job` is given.
fn workload_of(name: &str, job_name: &str, job: Option<&Value>) -> Value {
    let owners = job.map(|job| vec![job_reference(job)]);
    json!({
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": job_name},
            "podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}],
        },
    })
}

fn job_reference(job: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    })
}

/// Returns the PodGroups of a Job's Pods, without duplicates.
async fn groups_of(client: &Client, job: &str) -> Vec<Option<String>> {
    let all = pods(client).await.into_iter();
    let own = all.filter(|pod| pod["metadata"]["ownerReferences"][0]["name"] == job);
    let group = |pod: Value| {
        let group = &pod["spec"]["schedulingGroup"]["podGroupName"];
        group.as_str().map(str::to_owned)
    };
    let mut groups: Vec<Option<String>> = own.map(group).collect();
    groups.sort();
    groups.dedup();
    groups
}

async fn events(client: &Client, reason: &str) -> Vec<Value> {
    let list = get(client, "/api/v1/namespaces/default/events").await;
    let events = list["items"].as_array().cloned().unwrap_or_default();
    let events = events.into_iter();
    events.filter(|event| event["reason"] == reason).collect()
}

/// Returns the Job once it has active Pods.
async fn active(client: &Client, name: &str) -> Value {
    job_when(client, name, |job| {
        job["status"]["active"].as_u64() > Some(0)
    })
    .await
}

async fn complete(client: &Client, name: &str) -> Value {
    job_when(client, name, |job| is(job, "Complete")).await
}

fn uid(object: &Value) -> Uid {
    let text = object["metadata"]["uid"].as_str().expect("a UID");
    Uid::parse(text).expect("a good UID")
}

/// Starts a cluster of short Pods and a client, but no controller.
async fn start() -> (EmbeddedCluster, Client) {
    let cluster = support::cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    (cluster, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_has_its_workload_and_pod_group_before_its_pods() {
    let (cluster, client) = start().await;
    let controller = controller(&cluster.url()).await;
    create(&client, &indexed_job("train", 8, 8)).await;
    let job = complete(&client, "train").await;
    check_pods_of_complete_job(&pods(&client).await, 8);

    let workloads = items(&client, "workloads").await;
    let [workload] = workloads.as_slice() else {
        panic!("{workloads:#?}");
    };
    assert_eq!(
        workload["metadata"]["name"],
        names::workload_name("train", uid(&job)).as_str()
    );
    assert_eq!(
        workload["metadata"]["ownerReferences"],
        json!([job_reference(&job)])
    );
    assert_eq!(
        workload["spec"],
        json!({
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
            "podGroupTemplates": [
                {"name": "train-pgt-0", "schedulingPolicy": {"gang": {"minCount": 8}}},
            ],
        })
    );
    let groups = items(&client, "podgroups").await;
    let [group] = groups.as_slice() else {
        panic!("{groups:#?}");
    };
    let workload_name = workload["metadata"]["name"].as_str().expect("a name");
    let name = names::pod_group_name(workload_name, "train-pgt-0");
    assert_eq!(group["metadata"]["name"], name.as_str());
    assert_eq!(
        group["metadata"]["ownerReferences"],
        json!([job_reference(&job), {
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "name": workload_name,
            "uid": workload["metadata"]["uid"],
        }])
    );
    assert_eq!(
        group["spec"],
        json!({
            "podGroupTemplateRef": {"workload": {
                "workloadName": workload_name, "podGroupTemplateName": "train-pgt-0",
            }},
            "schedulingPolicy": {"gang": {"minCount": 8}},
        })
    );
    assert_eq!(groups_of(&client, "train").await, [Some(name.to_string())]);
    let told = loop {
        let told = events(&client, "WorkloadCreated").await;
        if !told.is_empty() {
            break told;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["type"], "Normal");
    assert_eq!(
        told[0]["message"],
        format!("Created Workload {workload_name} for Job train")
    );
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_no_gang_get_nothing() {
    let (cluster, client) = start().await;
    let controller = controller(&cluster.url()).await;
    create(&client, &indexed_job("parts", 8, 4)).await;
    create(&client, &indexed_job("one", 1, 1)).await;
    let mut plain = indexed_job("plain", 4, 4);
    plain["spec"]["completionMode"] = json!("NonIndexed");
    create(&client, &plain).await;
    let mut own = indexed_job("own", 4, 4);
    own["spec"]["template"]["spec"]["schedulingGroup"] = json!({"podGroupName": "mine"});
    create(&client, &own).await;
    for name in ["parts", "one", "plain", "own"] {
        complete(&client, name).await;
    }
    assert!(items(&client, "workloads").await.is_empty());
    assert!(items(&client, "podgroups").await.is_empty());
    for name in ["parts", "one", "plain"] {
        assert_eq!(groups_of(&client, name).await, [None], "{name}");
    }
    assert_eq!(groups_of(&client, "own").await, [Some("mine".to_owned())]);
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_gate_nothing_is_made_or_looked_for() {
    let (cluster, client) = start().await;
    let controller = support::controller(&cluster).await;
    create(&client, &indexed_job("train", 4, 4)).await;
    complete(&client, "train").await;
    assert_eq!(groups_of(&client, "train").await, [None]);
    let counts = cluster.server().api().request_counts();
    let mut asked = counts.iter().map(|count| count.resource);
    assert!(!asked.any(|resource| ["workloads", "podgroups"].contains(&resource)));
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_began_before_is_left_as_it_is() {
    let (cluster, client) = start().await;
    let before = support::controller(&cluster).await;
    let mut old = indexed_job("old", 4, 4);
    let hour = json!({"annotations": {"sim.lakh.dev/duration": "1h"}});
    old["spec"]["template"]["metadata"] = hour.clone();
    create(&client, &old).await;
    let mut asleep = indexed_job("asleep", 4, 4);
    asleep["spec"]["suspend"] = json!(true);
    create(&client, &asleep).await;
    active(&client, "old").await;
    job_when(&client, "asleep", |job| is(job, "Suspended")).await;
    before.stop().await;

    let controller = controller(&cluster.url()).await;
    let path = "/apis/batch/v1/namespaces/default/jobs/asleep";
    let resume = br#"{"spec":{"suspend":false}}"#.to_vec();
    let patched = client.patch(path, client::Patch::Merge, resume).await;
    patched.expect("it is there");
    complete(&client, "asleep").await;
    for pod in pods(&client).await {
        if pod["metadata"]["ownerReferences"][0]["name"] == "old" {
            let name = pod["metadata"]["name"].as_str().expect("a name");
            let path = format!("/api/v1/namespaces/default/pods/{name}");
            client.delete(&path).await.expect("it is there");
            break;
        }
    }
    job_when(&client, "old", |job| {
        job["status"]["active"] == 4 && job["status"]["terminating"] == 0
    })
    .await;
    for name in ["old", "asleep"] {
        assert_eq!(groups_of(&client, name).await, [None], "{name}");
    }
    assert!(items(&client, "workloads").await.is_empty());
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_job_gets_its_gang_at_once() {
    let (cluster, client) = start().await;
    let controller = controller(&cluster.url()).await;
    let mut job = indexed_job("later", 4, 4);
    job["spec"]["suspend"] = json!(true);
    create(&client, &job).await;
    job_when(&client, "later", |job| is(job, "Suspended")).await;
    assert_eq!(items(&client, "workloads").await.len(), 1);
    let groups = items(&client, "podgroups").await;
    assert!(pods(&client).await.is_empty());
    let path = "/apis/batch/v1/namespaces/default/jobs/later";
    let resume = br#"{"spec":{"suspend":false}}"#.to_vec();
    let patched = client.patch(path, client::Patch::Merge, resume).await;
    patched.expect("it is there");
    complete(&client, "later").await;
    let name = groups[0]["metadata"]["name"].as_str().map(str::to_owned);
    assert_eq!(groups_of(&client, "later").await, [name]);
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_of_others_are_used_only_where_it_is_clear() {
    let (cluster, client) = start().await;
    for name in ["foreign", "prepared", "twice"] {
        create(&client, &indexed_job(name, 4, 4)).await;
    }
    let job = async |name: &str| {
        get(
            &client,
            &format!("/apis/batch/v1/namespaces/default/jobs/{name}"),
        )
        .await
    };
    post(
        &client,
        "workloads",
        &workload_of("not-ours", "foreign", None),
    )
    .await;
    let prepared = job("prepared").await;
    let own = workload_of("own", "prepared", Some(&prepared));
    post(&client, "workloads", &own).await;
    let twice = job("twice").await;
    for name in ["first", "second"] {
        let workload = workload_of(name, "twice", Some(&twice));
        post(&client, "workloads", &workload).await;
    }

    let controller = controller(&cluster.url()).await;
    for name in ["foreign", "prepared", "twice"] {
        complete(&client, name).await;
    }
    assert_eq!(groups_of(&client, "foreign").await, [None]);
    assert_eq!(groups_of(&client, "twice").await, [None]);
    let group = names::pod_group_name("own", "t").to_string();
    assert_eq!(groups_of(&client, "prepared").await, [Some(group)]);
    assert_eq!(items(&client, "workloads").await.len(), 4, "none was made");
    let groups = items(&client, "podgroups").await;
    assert_eq!(groups.len(), 1);
    assert_eq!(
        groups[0]["spec"]["schedulingPolicy"],
        json!({"basic": {}}),
        "a copy of the template's"
    );
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_that_is_taken_away_is_made_anew_as_far_as_it_may() {
    let (cluster, client) = start().await;
    let controller = controller(&cluster.url()).await;
    let mut job = indexed_job("train", 2, 2);
    job["spec"]["template"]["metadata"] = json!({"annotations": {"sim.lakh.dev/duration": "1h"}});
    create(&client, &job).await;
    active(&client, "train").await;
    let group = only_gang(&client, "train").await;
    let workload = items(&client, "workloads").await.remove(0);
    let workload = workload["metadata"]["name"].as_str().expect("a name");

    client
        .delete(&format!("{API}/podgroups/{group}"))
        .await
        .expect("it is there");
    replace_all_pods(&client).await;
    while items(&client, "podgroups").await.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(only_gang(&client, "train").await, group, "a new one");

    client
        .delete(&format!("{API}/workloads/{workload}"))
        .await
        .expect("it is there");
    // The first replacements may come before the controller gets the event.
    while groups_of(&client, "train").await != [None] {
        replace_all_pods(&client).await;
    }
    let made = items(&client, "workloads").await;
    assert!(made.is_empty(), "the Job had begun");
    controller.stop().await;
    cluster.shutdown().await;
}

/// Deletes all existing Pods, and waits for as many new ones.
async fn replace_all_pods(client: &Client) {
    let name = |pod: &Value| pod["metadata"]["name"].as_str().expect("a name").to_owned();
    let old: Vec<String> = pods(client).await.iter().map(name).collect();
    for name in &old {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        client.delete(&path).await.expect("it is there");
    }
    pods_when(client, |now| {
        now.len() == old.len() && !now.iter().any(|pod| old.contains(&name(pod)))
    })
    .await;
}

/// Starts a proxy on which the first `times` creations of a kind have this fate. Also returns how many of these are
/// left.
async fn line(
    cluster: &EmbeddedCluster,
    plural: &'static str,
    times: u32,
    fate: impl Fn() -> Fate + Send + Sync + 'static,
) -> (Proxy, Arc<AtomicU32>) {
    let left = Arc::new(AtomicU32::new(times));
    let counter = Arc::clone(&left);
    let judge = move |request: &str| {
        let take = |left: u32| left.checked_sub(1);
        let is_create = request.starts_with(&format!("POST {API}/{plural} "));
        let taken = is_create
            && counter
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
                .is_ok();
        if taken { fate() } else { Fate::Passed }
    };
    (Proxy::start(&cluster.url(), judge).await, left)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_ends_half_way_is_followed_by_one_that_goes_on() {
    let (cluster, client) = start().await;
    let refused = || Fate::Answered(refusal(403, "Forbidden", "no"));
    let (proxy, left) = line(&cluster, "podgroups", u32::MAX, refused).await;
    let first = controller(&proxy.url()).await;
    create(&client, &indexed_job("train", 4, 4)).await;
    while left.load(Ordering::SeqCst) == u32::MAX {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    first.stop().await;
    assert_eq!(items(&client, "workloads").await.len(), 1);
    assert!(items(&client, "podgroups").await.is_empty());
    let job = get(&client, "/apis/batch/v1/namespaces/default/jobs/train").await;
    assert_eq!(job["status"], json!({}), "no status either");
    assert!(pods(&client).await.is_empty());

    let second = controller(&cluster.url()).await;
    complete(&client, "train").await;
    let name = only_gang(&client, "train").await;
    second.stop().await;

    let third = controller(&cluster.url()).await;
    create(&client, &indexed_job("other", 4, 4)).await;
    complete(&client, "other").await;
    assert_eq!(items(&client, "workloads").await.len(), 2);
    assert_eq!(groups_of(&client, "train").await, [Some(name)]);
    third.stop().await;
    cluster.shutdown().await;
}

/// Returns the PodGroup of all Pods of the only gang.
async fn only_gang(client: &Client, job: &str) -> String {
    assert_eq!(items(client, "workloads").await.len(), 1);
    let groups = items(client, "podgroups").await;
    assert_eq!(groups.len(), 1);
    let name = groups[0]["metadata"]["name"].as_str().expect("a name");
    assert_eq!(groups_of(client, job).await, [Some(name.to_owned())]);
    name.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_and_taken_names_make_no_second_gang() {
    let failed = || Fate::Answered(refusal(500, "InternalError", "no"));
    let taken = || Fate::Answered(refusal(409, "AlreadyExists", "no"));
    let lost = || Fate::AnswerLost;
    let fates: [(fn() -> Fate, u32); 3] = [(failed, 1), (taken, 3), (lost, 1)];
    for plural in ["workloads", "podgroups"] {
        for (fate, times) in fates {
            let (cluster, client) = start().await;
            let (proxy, left) = line(&cluster, plural, times, fate).await;
            let controller = controller(&proxy.url()).await;
            create(&client, &indexed_job("train", 4, 4)).await;
            complete(&client, "train").await;
            assert_eq!(left.load(Ordering::SeqCst), 0);
            only_gang(&client, "train").await;
            check_pods_of_complete_job(&pods(&client).await, 4);
            controller.stop().await;
            cluster.shutdown().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_gangs_are_not_served_the_controller_does_not_start() {
    let cluster = support::cluster(Duration::ZERO).await;
    for answer in [
        proxy::answer(404, "", "404 page not found"),
        proxy::answer(200, "", r#"{"versions":[{"version":"v1"}]}"#),
    ] {
        let proxy = Proxy::start(&cluster.url(), move |request| {
            match request.starts_with("GET /apis/scheduling.k8s.io ") {
                true => Fate::Answered(answer.clone()),
                false => Fate::Passed,
            }
        })
        .await;
        let client = client::connect_url(&proxy.url()).await;
        let started = Controller::start(client.expect("it answers"), options()).await;
        let error = started.expect_err("nothing to start for");
        assert!(matches!(error, StartError::Gangs(_)));

        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let kubeconfig = folder.path().join("config");
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: x,
              clusters: [{{name: c, cluster: {{server: '{}'}}}}], users: [{{name: u, user: {{}}}}],
              contexts: [{{name: x, context: {{cluster: c, user: u}}}}]}}",
            proxy.url()
        );
        std::fs::write(&kubeconfig, text).expect("it can be written");
        let kubeconfig = kubeconfig.display().to_string();
        let gate = "--feature-gates=WorkloadWithJob=true";
        let args = [
            "controller",
            "--kubeconfig",
            &kubeconfig,
            "--listen=127.0.0.1:0",
            gate,
        ];
        let output = tokio::task::block_in_place(|| support::run(&args));
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains("--feature-gates WorkloadWithJob=true"),
            "{said}"
        );
        assert!(
            said.contains("does not serve Workload and PodGroup"),
            "{said}"
        );
    }
    cluster.shutdown().await;
}

#[test]
fn gates_that_are_no_good_are_refused() {
    for command in ["controller", "local"] {
        for (gate, why) in [
            ("Nonsense=true", "unknown feature gate Nonsense"),
            ("WorkloadWithJob=maybe", "must be true or false"),
            ("WorkloadWithJob", "must be NAME=true or NAME=false"),
        ] {
            let output = support::run(&[command, "--feature-gates", gate]);
            assert_eq!(output.status.code(), Some(2), "{command} {gate}");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains(why), "{command} {gate}: {said}");
        }
    }
}

#[test]
fn the_example_runs_with_the_gate_and_without() {
    let example = support::project("examples/gang.yaml");
    for gate in ["true", "false"] {
        let gate = format!("--feature-gates=WorkloadWithJob={gate}");
        let output = support::run(&["local", "-f", &example, &gate]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{gate}: {said}");
    }
}
