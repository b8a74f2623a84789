//! Tests stage files end to end: on the embedded cluster, and as objects for kwok.

#![allow(
    clippy::print_stderr,
    reason = "whoever runs it learns that it was skipped"
)]

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use lakh::{
    embedded::{
        ClusterOptions, EmbeddedCluster,
        kubelet::{Action, Kubelet, KubeletOptions, Stage, stages::kwok_stages},
        manifest::{Source, load_stages, print, read_stages},
    },
    model::Time,
    runtime::Controller,
};
use serde_json::{Value, json};

use crate::support::{self, create, indexed_job, is, is_held, job_when, pods_when, project};

fn stages(text: &str) -> Vec<Stage> {
    read_stages(&[Source::new("stages", text)]).expect("good stages")
}

/// Compares with a file of the project; `UPDATE_GOLDEN=1` rewrites it.
#[track_caller]
fn check_file(path: &str, got: &str) {
    let path = project(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, got).expect("it can be written");
    }
    let want = fs::read_to_string(&path).expect("it can be read");
    assert!(
        got == want,
        "{path} is not what is rendered; UPDATE_GOLDEN=1 rewrites it"
    );
}

#[test]
fn stages_for_kwok_match_the_files() {
    let night = load_stages(&[PathBuf::from(project("examples/stages/night.yaml"))]);
    let night = night.expect("the example is good");
    check_file(
        "tests/golden/night.kwok.yaml",
        &print(&kwok_stages(&night, 1)),
    );
    let all = load_stages(&[PathBuf::from(project("tests/golden/all.stages.yaml"))]);
    let all = all.expect("the file is good");
    check_file("tests/golden/all.kwok.yaml", &print(&kwok_stages(&all, 1)));
}

const CHANCES: &str = "
apiVersion: sim.lakh.dev/v1alpha1
kind: Stage
metadata: {name: few}
spec:
  pods: {namespace: ns, matchLabels: {app: a}, indexes: '0-49,60'}
  probability: 0.3
  end: {exitCode: 11}
---
apiVersion: sim.lakh.dev/v1alpha1
kind: Stage
metadata: {name: others}
spec:
  pods:
    matchExpressions:
    - {key: app, operator: In, values: [a, b]}
    - {key: tier, operator: DoesNotExist}
  probability: 0.5
  end: {exitCode: 12}
---
apiVersion: sim.lakh.dev/v1alpha1
kind: Stage
metadata: {name: tiers}
spec:
  pods: {matchExpressions: [{key: tier, operator: NotIn, values: ['1']}]}
  end: {exitCode: 13}
";

/// Returns Pods that differ in all fields that stages match.
fn many_pods() -> Vec<Value> {
    let pod = |n: u64| {
        let word = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let namespace = if n % 7 == 6 { "other" } else { "ns" };
        let app = ["a", "b", "c"][(n % 3) as usize];
        let mut pod = json!({
            "metadata": {
                "name": format!("p{n}"),
                "namespace": namespace,
                "uid": format!("{:08x}-{:04x}-4000-8000-{word:012x}", word >> 32, n),
                "annotations": {"batch.kubernetes.io/job-completion-index": (n % 80).to_string()},
                "labels": {"app": app},
            },
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Pending"},
        });
        if n.is_multiple_of(5) {
            pod["metadata"]["labels"]["tier"] = (n % 2).to_string().into();
        }
        pod
    };
    (0..400).map(pod).collect()
}

/// Returns the exit code that the hollow kubelet gives to a Pod.
fn exit_code(stages: &[Stage], pod: &Value) -> u64 {
    let mut kubelet = Kubelet::new(KubeletOptions {
        stages: stages.to_vec().into(),
        seed: 7,
        ..KubeletOptions::with_nodes(1)
    });
    let json = pod.to_string();
    let now = Time::from_secs(0);
    kubelet
        .handle_pod(json.as_bytes(), now)
        .expect("a good Pod");
    let bind = kubelet.poll_write().expect("it is bound");
    kubelet.handle_answer(&bind, 201, now);
    let Some(Action::Status(patch)) = kubelet.poll_write().map(|write| write.action) else {
        panic!("a Pod of no duration ends at once");
    };
    let patch: Value = serde_json::from_slice(&patch).expect("JSON");
    let code = &patch["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"];
    code.as_u64().expect("an exit code")
}

#[test]
fn kwok_computes_the_same_lives_as_the_hollow_kubelet() {
    if Command::new("jq").arg("--version").output().is_err() {
        eprintln!("skipped: there is no jq");
        return;
    }
    let stages = stages(CHANCES);
    let objects = kwok_stages(&stages, 7);
    let expectations = objects[1]["spec"]["selector"]["matchExpressions"].as_array();
    let life = expectations
        .expect("a list")
        .iter()
        .find_map(|expectation| {
            let key = expectation["key"].as_str().expect("a key");
            key.starts_with("def ").then_some(key)
        });
    let pods = many_pods();
    let mut jq = Command::new("jq")
        .args(["-r", life.expect("an expression that draws")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("jq runs");
    let mut input = jq.stdin.take().expect("a pipe");
    for pod in &pods {
        writeln!(input, "{pod}").expect("jq reads");
    }
    drop(input);
    let output = jq.wait_with_output().expect("jq ends");
    assert!(output.status.success(), "jq refuses the expression");
    let lives = String::from_utf8(output.stdout).expect("text");
    let lives: Vec<&str> = lives.lines().collect();
    assert_eq!(lives.len(), pods.len());
    for (pod, life) in pods.iter().zip(&lives) {
        let want = match *life {
            "few" => 11,
            "others" => 12,
            "tiers" => 13,
            other => {
                assert_eq!(other, "-");
                0
            }
        };
        assert_eq!(exit_code(&stages, pod), want, "{life} {pod}");
    }
    for life in ["few", "others", "tiers", "-"] {
        assert!(lives.contains(&life), "no Pod lives by {life}");
    }
}

const DISRUPTIONS: &str = "
apiVersion: sim.lakh.dev/v1alpha1
kind: Stage
metadata: {name: evicted}
spec:
  pods: {indexes: 0}
  probability: 0.6
  disruption: {delay: 100ms, cause: NodePressureEviction}
---
apiVersion: sim.lakh.dev/v1alpha1
kind: Stage
metadata: {name: preempted}
spec:
  pods: {indexes: 1}
  probability: 0.6
  disruption: {delay: 100ms, cause: SchedulerPreemption}
---
apiVersion: sim.lakh.dev/v1alpha1
kind: Stage
metadata: {name: drained}
spec:
  pods: {indexes: 2}
  probability: 0.6
  disruption: {delay: 100ms, cause: ApiEviction}
---
apiVersion: sim.lakh.dev/v1alpha1
kind: Stage
metadata: {name: lost}
spec:
  pods: {indexes: 3}
  probability: 0.6
  disruption: {delay: 100ms, cause: NodeLoss}
---
apiVersion: sim.lakh.dev/v1alpha1
kind: Stage
metadata: {name: out-of-memory}
spec:
  pods: {indexes: 4}
  probability: 0.6
  end: {delay: 50ms, exitCode: 137, reason: OOMKilled}
---
apiVersion: sim.lakh.dev/v1alpha1
kind: Stage
metadata: {name: usual}
spec:
  end: {delay: 300ms, jitter: 100ms}
";

/// Returns the column STATUS of `kubectl get pods`.
async fn printed_statuses(cluster: &EmbeddedCluster) -> Option<Vec<String>> {
    let (_folder, kubeconfig) = support::kubeconfig(cluster);
    let run = move || {
        let mut kubectl = Command::new("kubectl");
        kubectl.arg("--kubeconfig").arg(kubeconfig);
        kubectl.args(["get", "pods", "--no-headers"]).output()
    };
    let output = tokio::task::spawn_blocking(run)
        .await
        .expect("no panic")
        .ok()?;
    let text = String::from_utf8(output.stdout).expect("text");
    let column = |line: &str| line.split_whitespace().nth(2).map(str::to_owned);
    Some(text.lines().filter_map(column).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_outlives_all_that_takes_its_pods_away() {
    let cluster = EmbeddedCluster::start(ClusterOptions {
        kubelet: KubeletOptions {
            stages: stages(DISRUPTIONS).into(),
            // With this seed every stage picks some Pod; the UIDs follow from the cluster's seed.
            seed: 3,
            // Longer than any stage's delay before it disrupts a Pod.
            default_duration: Duration::from_secs(30),
            ..KubeletOptions::with_nodes(3)
        },
        ..ClusterOptions::default()
    })
    .await
    .expect("a free port");
    let client = support::client(&cluster).await;
    let mut options = support::options();
    options.limits.pod_failure_backoff.max = Duration::from_millis(200);
    let controller = Controller::start(support::client(&cluster).await, options)
        .await
        .expect("nothing to listen on");
    let mut job = indexed_job("main", 60, 20);
    job["spec"]["backoffLimit"] = 1000.into();
    create(&client, &job).await;
    // Each of the five indexes may be hit several times; several Jobs make sure that each is hit.
    for n in 0..6 {
        create(&client, &{
            let mut job = indexed_job(&format!("more-{n}"), 5, 5);
            job["spec"]["backoffLimit"] = 1000.into();
            job
        })
        .await;
    }
    let done = job_when(&client, "main", |job| is(job, "Complete")).await;
    assert_eq!(done["status"]["succeeded"], 60);
    for n in 0..6 {
        let done = job_when(&client, &format!("more-{n}"), |job| is(job, "Complete")).await;
        assert_eq!(done["status"]["completedIndexes"], "0-4");
    }
    let all = pods_when(&client, |all| !all.iter().any(is_held)).await;
    let failed: Vec<&Value> = all
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Failed")
        .collect();
    let target = |pod: &Value| {
        let conditions = pod["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let found = conditions
            .into_iter()
            .find(|c| c["type"] == "DisruptionTarget");
        found.map_or(String::new(), |c| {
            c["reason"].as_str().unwrap_or_default().to_owned()
        })
    };
    let evicted = failed
        .iter()
        .filter(|pod| pod["status"]["reason"] == "Evicted");
    let evicted: Vec<_> = evicted.collect();
    assert!(!evicted.is_empty(), "nothing was evicted");
    for pod in evicted {
        assert_eq!(target(pod), "TerminationByKubelet", "{pod:#}");
    }
    let state = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["terminated"].clone();
    let killed = failed
        .iter()
        .filter(|pod| state(pod)["reason"] == "OOMKilled");
    assert!(killed.clone().count() > 0, "nothing ran out of memory");
    assert!(
        killed
            .clone()
            .all(|pod| state(pod)["exitCode"] == 137 && target(pod).is_empty())
    );
    // The deleted Pods are gone; the Jobs have counted them.
    let gone = job_when(&client, "more-0", |job| is(job, "Complete")).await;
    assert_eq!(gone["status"]["succeeded"], 5);
    if let Some(statuses) = printed_statuses(&cluster).await {
        for status in ["Error", "OOMKilled", "Completed"] {
            assert!(
                statuses.iter().any(|printed| printed == status),
                "no {status}: {statuses:?}"
            );
        }
    } else {
        eprintln!("not printed: there is no kubectl");
    }
    controller.stop().await;
    cluster.shutdown().await;
}

/// Runs a Job with a sidecar, a second container and a failure policy to its end, on a cluster with these stages.
async fn job_with_sidecar(text: &str, policy: Value) -> (EmbeddedCluster, Value) {
    let cluster = EmbeddedCluster::start(ClusterOptions {
        kubelet: KubeletOptions {
            stages: stages(text).into(),
            ..KubeletOptions::with_nodes(1)
        },
        ..ClusterOptions::default()
    })
    .await
    .expect("a free port");
    let client = support::client(&cluster).await;
    let controller = support::controller(&cluster).await;
    let mut job = indexed_job("main", 1, 1);
    job["spec"]["podFailurePolicy"] = policy;
    job["spec"]["backoffLimit"] = 0.into();
    let spec = &mut job["spec"]["template"]["spec"];
    spec["initContainers"] = json!([
        {"name": "proxy", "image": "busybox", "restartPolicy": "Always"},
    ]);
    let second = json!({"name": "second", "image": "busybox"});
    spec["containers"]
        .as_array_mut()
        .expect("a list")
        .push(second);
    create(&client, &job).await;
    let job = job_when(&client, "main", |job| {
        is(job, "Failed") || is(job, "Complete")
    })
    .await;
    controller.stop().await;
    (cluster, job)
}

/// Returns reason and message of a Job's failure.
fn failure(job: &Value) -> String {
    let mut conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    let failed = conditions.find(|it| it["type"] == "Failed");
    let failed = failed.unwrap_or_else(|| panic!("it has not failed: {job:#}"));
    format!("{}: {}", failed["reason"], failed["message"]).replace('"', "")
}

const FAILS: &str = "
apiVersion: sim.lakh.dev/v1alpha1
kind: Stage
metadata: {name: fails}
spec:
";

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_policy_without_a_container_meets_the_sidecar_that_was_stopped() {
    let on_143 = json!({"rules": [{
        "action": "FailJob",
        "onExitCodes": {"operator": "In", "values": [143]},
    }]});
    let fails = format!("{FAILS}  end: {{exitCode: 1}}");
    let (cluster, job) = job_with_sidecar(&fails, on_143.clone()).await;
    let why = failure(&job);
    assert!(
        why.starts_with("PodFailurePolicy: Container proxy for pod default/main-0-"),
        "{why}"
    );
    assert!(
        why.contains("failed with exit code 143 matching FailJob rule"),
        "{why}"
    );
    cluster.shutdown().await;

    // The rule does not match a sidecar that exits with 0 on its signal. A rule for another container does not match
    // either.
    let obeys = format!("{fails}\n  sidecars: [{{name: proxy, exitCode: 0}}]");
    let (cluster, job) = job_with_sidecar(&obeys, on_143.clone()).await;
    assert!(failure(&job).starts_with("BackoffLimitExceeded"), "{job:#}");
    cluster.shutdown().await;
    let mut of_main = on_143.clone();
    of_main["rules"][0]["onExitCodes"]["containerName"] = json!("main");
    let (cluster, job) = job_with_sidecar(&fails, of_main).await;
    assert!(failure(&job).starts_with("BackoffLimitExceeded"), "{job:#}");
    cluster.shutdown().await;

    // The second container may be the one that fails.
    let second = format!("{FAILS}  containers: [{{name: second, exitCode: 7}}]");
    let mut on_7 = on_143;
    on_7["rules"][0]["onExitCodes"]["values"] = json!([7]);
    let (cluster, job) = job_with_sidecar(&second, on_7).await;
    let why = failure(&job);
    assert!(
        why.starts_with("PodFailurePolicy: Container second for pod"),
        "{why}"
    );
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_print_their_stages_output() {
    let stage = format!(
        "{FAILS}  end: {{exitCode: 3}}\n  output: |\n    frame {{index}} on {{node}}\n    \
         ended with {{exitCode}}\n  sidecars: [{{output: proxied}}]\n"
    );
    let (cluster, _) = job_with_sidecar(&stage, Value::Null).await;
    let client = support::client(&cluster).await;
    let pods = support::pods(&client).await;
    let pod = pods[0]["metadata"]["name"].as_str().expect("a name");
    let log = async |query: &str| {
        let path = format!("/api/v1/namespaces/default/pods/{pod}/log?{query}");
        let answer = client.get(&path).await.expect("an answer");
        String::from_utf8(answer.to_vec()).expect("text")
    };
    assert_eq!(
        log("container=main").await,
        "frame 0 on hollow-0\nended with 3\n"
    );
    assert_eq!(log("container=main&tailLines=1").await, "ended with 3\n");
    assert_eq!(log("container=proxy").await, "proxied\n");
    assert!(log("container=second").await.contains("without output"));
    cluster.shutdown().await;
}
