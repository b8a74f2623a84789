//! Tests `/metrics` and Events after runs with known outcomes.

use std::{collections::BTreeMap, time::Duration};

use lakh::runtime::Controller;
use serde_json::{Value, json};

use crate::support::{
    self, client, cluster, create, get, indexed_job, is, is_at_rest, job_when, listening, metrics,
    metrics_when, options,
};

/// The metrics of Kubernetes' Job controller and of client-go's work queues, with their types. Empty families are
/// exposed without samples.
const NAMES: &[(&str, &str)] = &[
    ("job_controller_job_sync_duration_seconds", "histogram"),
    ("job_controller_job_syncs", "counter"),
    ("job_controller_jobs_finished", "counter"),
    ("job_controller_job_pods_finished", "counter"),
    (
        "job_controller_terminated_pods_tracking_finalizer",
        "counter",
    ),
    ("job_controller_job_finished_indexes", "counter"),
    ("job_controller_job_pods_creation", "counter"),
    ("job_controller_jobs_by_external_controller", "counter"),
    ("workqueue_depth", "gauge"),
    ("workqueue_adds", "counter"),
    ("workqueue_retries", "counter"),
    ("workqueue_queue_duration_seconds", "histogram"),
    ("workqueue_work_duration_seconds", "histogram"),
    ("workqueue_unfinished_work_seconds", "gauge"),
    ("workqueue_longest_running_processor_seconds", "gauge"),
];

/// Parses samples by name and labels.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

/// Starts a controller and waits until its caches are filled: a Job's delay is measured from a watch event, not from a
/// list.
async fn controller(url: &str) -> Controller {
    let client = lakh::client::connect_url(url).await.expect("it answers");
    let controller = Controller::start(client, listening(options()))
        .await
        .expect("a free port");
    controller.ready().await;
    controller
}

fn failing_job(name: &str) -> Value {
    let mut job = indexed_job(name, 1, 1);
    job["spec"]["completionMode"] = json!("NonIndexed");
    job["spec"]["backoffLimit"] = json!(0);
    job["spec"]["template"]["metadata"]["annotations"] = json!({"sim.lakh.dev/exit-code": "3"});
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_upstreams_names_and_add_up() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let controller = controller(&cluster.url()).await;
    create(&client, &indexed_job("good", 30, 10)).await;
    create(&client, &failing_job("bad")).await;
    let mut foreign = indexed_job("foreign", 3, 3);
    foreign["spec"]["managedBy"] = json!("example.com/other");
    create(&client, &foreign).await;
    job_when(&client, "good", |job| is(job, "Complete")).await;
    job_when(&client, "bad", |job| is(job, "Failed")).await;
    // The response to the last write is counted a moment after other clients see its effect.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let text = metrics(&controller);
    assert!(
        text.contains("content-type: text/plain; version=0.0.4"),
        "{text}"
    );
    for (name, kind) in NAMES {
        let total = if *kind == "counter" { "_total" } else { "" };
        let line = format!("# TYPE {name}{total} {kind}\n");
        assert!(text.contains(&line), "no {line} in\n{text}");
    }
    let host = cluster.url().replace("http://", "");
    for line in [
        format!(r#"rest_client_requests_total{{code="201",host="{host}",method="POST"}}"#),
        format!(r#"rest_client_request_duration_seconds_count{{host="{host}",verb="PATCH"}}"#),
        format!(r#"rest_client_request_duration_seconds_count{{host="{host}",verb="GET"}}"#),
    ] {
        assert!(text.contains(&line), "no {line} in\n{text}");
    }
    let samples = samples(&text);
    let expected = [
        (
            r#"jobs_finished_total{completion_mode="Indexed",result="succeeded",reason="CompletionsReached"}"#,
            1.0,
        ),
        (
            r#"jobs_finished_total{completion_mode="NonIndexed",result="failed",reason="BackoffLimitExceeded"}"#,
            1.0,
        ),
        (
            r#"job_pods_finished_total{completion_mode="Indexed",result="succeeded"}"#,
            30.0,
        ),
        (
            r#"job_pods_finished_total{completion_mode="Indexed",result="failed"}"#,
            0.0,
        ),
        (
            r#"job_pods_finished_total{completion_mode="NonIndexed",result="failed"}"#,
            1.0,
        ),
        (
            r#"job_finished_indexes_total{status="succeeded",backoffLimit="global"}"#,
            30.0,
        ),
        (
            r#"job_pods_creation_total{reason="new",status="succeeded"}"#,
            31.0,
        ),
        (
            r#"terminated_pods_tracking_finalizer_total{event="add"}"#,
            31.0,
        ),
        (
            r#"terminated_pods_tracking_finalizer_total{event="delete"}"#,
            31.0,
        ),
        (
            r#"jobs_by_external_controller_total{controller_name="example.com/other"}"#,
            1.0,
        ),
    ];
    for (name, value) in expected {
        let found = samples.get(&format!("job_controller_{name}"));
        assert_eq!(found, Some(&value), "{name} in\n{text}");
    }
    check_syncs(&samples);
    assert!(is_at_rest(&text, "job"), "{text}");
    controller.stop().await;
    cluster.shutdown().await;
}

/// A client deletes two Pods of a Job that replaces Pods at once, and two of one that waits until they have failed. All
/// of them run.
#[tokio::test(flavor = "multi_thread")]
async fn cached_objects_and_delays_are_measured() {
    let cluster = cluster(Duration::from_secs(3)).await;
    let client = client(&cluster).await;
    let controller = controller(&cluster.url()).await;
    let holds = async |expected: &[(&str, f64)]| {
        let expected = expected.to_vec();
        metrics_when(&controller, move |text| {
            let samples = samples(text);
            let found = |name: &str| samples.get(&format!("lakh_{name}")).copied();
            expected
                .iter()
                .all(|(name, value)| found(name) == Some(*value))
        })
        .await;
    };
    let mut foreign = indexed_job("foreign", 3, 3);
    foreign["spec"]["managedBy"] = json!("example.com/other");
    create(&client, &foreign).await;
    let mut waits = indexed_job("waits", 3, 3);
    waits["spec"]["suspend"] = json!(true);
    create(&client, &waits).await;
    create(&client, &indexed_job("good", 4, 4)).await;
    holds(&[
        (r#"jobs{state="at_work"}"#, 1.0),
        (r#"pods{state="active"}"#, 4.0),
        (r#"pods{state="ready"}"#, 4.0),
        (r#"pods{state="finalizer"}"#, 4.0),
    ])
    .await;
    job_when(&client, "good", |job| is(job, "Complete")).await;
    holds(&[
        (r#"jobs{state="at_work"}"#, 0.0),
        (r#"jobs{state="suspended"}"#, 1.0),
        (r#"jobs{state="finished"}"#, 1.0),
        (r#"jobs{state="other_manager"}"#, 1.0),
        (r#"pods{state="active"}"#, 0.0),
        (r#"pods{state="finalizer"}"#, 0.0),
        (r#"pods{state="known"}"#, 4.0),
        ("first_pod_delay_seconds_count", 1.0),
    ])
    .await;
    let told = samples(&metrics(&controller));
    let counted = told["lakh_count_delay_seconds_count"];
    // Four Pods, in at most four statuses.
    assert!((1.0..=4.0).contains(&counted), "{counted}");
    let gone = json!({"propagationPolicy": "Background"}).to_string();
    for name in ["good", "waits", "foreign"] {
        let path = format!("/apis/batch/v1/namespaces/default/jobs/{name}");
        let deleted = client.delete_with(&path, gone.clone().into_bytes());
        deleted.await.expect("it is there");
    }
    let mut none: Vec<_> = told.keys().collect();
    none.retain(|name| name.starts_with("lakh_jobs{") || name.starts_with("lakh_pods{"));
    let none = none.iter().filter_map(|name| name.strip_prefix("lakh_"));
    let none: Vec<_> = none.map(|name| (name, 0.0)).collect();
    assert_eq!(none.len(), 11);
    holds(&none).await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn creations_are_counted_by_reason() {
    let cluster = cluster(Duration::from_secs(3600)).await;
    let client = client(&cluster).await;
    let controller = controller(&cluster.url()).await;
    let made = |reason: &str| {
        let name = format!("job_pods_creation_total{{reason=\"{reason}\",status=\"succeeded\"}}");
        let text = metrics(&controller);
        let found = samples(&text)
            .get(&format!("job_controller_{name}"))
            .copied();
        found.unwrap_or_default()
    };
    for (policy, reason, new) in [
        ("TerminatingOrFailed", "recreate_terminating_or_failed", 2.0),
        ("Failed", "recreate_failed", 4.0),
    ] {
        let name = policy.to_lowercase();
        let mut job = indexed_job(&name, 2, 2);
        job["spec"]["podReplacementPolicy"] = policy.into();
        create(&client, &job).await;
        job_when(&client, &name, |job| job["status"]["ready"] == 2).await;
        for pod in support::pods(&client).await {
            let name = pod["metadata"]["name"].as_str().expect("a name");
            let path = format!("/api/v1/namespaces/default/pods/{name}");
            client.delete(&path).await.expect("it is there");
        }
        job_when(&client, &name, |job| {
            job["status"]["failed"] == 2 && job["status"]["ready"] == 2
        })
        .await;
        // This is checked before the Job is deleted: its Pods' events may come before its own, and then Pods are
        // replaced.
        assert_eq!((made("new"), made(reason)), (new, 2.0), "{policy}");
        let gone = json!({"propagationPolicy": "Background"});
        let path = format!("/apis/batch/v1/namespaces/default/jobs/{name}");
        let deleted = client.delete_with(&path, gone.to_string().into_bytes());
        deleted.await.expect("it is there");
        support::pods_when(&client, <[Value]>::is_empty).await;
    }
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_that_a_policy_decides_on_are_counted_once_each() {
    let cluster = cluster(Duration::from_secs(1)).await;
    let client = client(&cluster).await;
    let controller = controller(&cluster.url()).await;
    // Three Pods of each Job fail, or one that ends it. All run before the first fails: it would
    // delay the others; an ignored one is replaced after 10 s.
    for (action, count, backoff_limit) in [
        ("Count", 3, 2),
        ("FailIndex", 3, 6),
        ("FailJob", 1, 6),
        ("Ignore", 3, 6),
    ] {
        let mut job = indexed_job(&action.to_lowercase(), count, count);
        let spec = &mut job["spec"];
        spec["backoffLimit"] = json!(backoff_limit);
        spec["template"]["metadata"]["annotations"] = json!({"sim.lakh.dev/exit-code": "3"});
        spec["podFailurePolicy"] = json!({"rules": [{
            "action": action,
            "onExitCodes": {"operator": "In", "values": [3]},
        }]});
        if action == "FailIndex" {
            spec["backoffLimitPerIndex"] = json!(2);
        }
        create(&client, &job).await;
    }
    let expected = [
        ("Count", 3.0),
        ("FailIndex", 3.0),
        ("FailJob", 1.0),
        ("Ignore", 3.0),
    ];
    metrics_when(&controller, |text| {
        let samples = samples(text);
        let of = |action: &str| {
            let name = "job_controller_pod_failures_handled_by_failure_policy_total";
            samples
                .get(&format!(r#"{name}{{action="{action}"}}"#))
                .copied()
        };
        let mut expected = expected.iter();
        expected.all(|(action, count)| of(action) == Some(*count))
    })
    .await;
    controller.stop().await;
    cluster.shutdown().await;
}

fn check_syncs(samples: &BTreeMap<String, f64>) {
    let of = |name: &str, label: &str| -> f64 {
        let name = format!("job_controller_{name}{{");
        let found = samples.iter();
        let found = found.filter(|(key, _)| key.starts_with(&name) && key.contains(label));
        found.map(|(_, value)| value).sum()
    };
    let syncs = of("job_syncs_total", "");
    assert!(syncs >= 4.0, "{syncs}");
    assert_eq!(syncs, of("job_sync_duration_seconds_count", ""));
    assert_eq!(of("job_syncs_total", r#"result="error""#), 0.0);
    for action in ["pods_created", "tracking", "reconciling"] {
        let turns = of("job_syncs_total", &format!(r#"action="{action}""#));
        assert!(turns >= 1.0, "{action}");
    }
    let mut below = 0.0;
    for bound in ["0.004", "0.008", "0.016", "32.768", "65.536", "+Inf"] {
        let label = format!(r#"le="{bound}""#);
        let is_told = |key: &&String| key.contains("sync_duration") && key.contains(&label);
        assert!(samples.keys().any(|key| is_told(&key)), "no bucket {bound}");
        let within = of("job_sync_duration_seconds_bucket", &label);
        assert!((below..=syncs).contains(&within), "{bound}");
        below = within;
    }
    assert_eq!(below, syncs, "all are told of");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_combined_and_the_end_is_reported() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let controller = controller(&cluster.url()).await;
    create(&client, &indexed_job("many", 60, 60)).await;
    job_when(&client, "many", |job| is(job, "Complete")).await;
    controller.stop().await;
    let list = get(&client, "/api/v1/namespaces/default/events").await;
    let events = list["items"].as_array().expect("a list");
    let of = |reason: &str| -> Vec<&Value> {
        events
            .iter()
            .filter(|event| event["reason"] == reason)
            .collect()
    };
    let is_combined = |event: &&&Value| {
        let message = event["message"].as_str().unwrap_or_default();
        message.starts_with("(combined from similar events): Created pod: many-")
    };
    let created = of("SuccessfulCreate");
    assert_eq!(created.len(), 10, "{list:#}");
    let combined: Vec<_> = created.iter().filter(is_combined).collect();
    assert_eq!(combined.len(), 1);
    assert_eq!(
        combined[0]["count"], 6,
        "15 calls, of which 9 for single Pods"
    );
    assert_eq!(of("Completed").len(), 1);
    assert_eq!(of("Completed")[0]["message"], "Job completed");
    cluster.shutdown().await;
}

#[test]
fn every_metric_is_in_the_documentation() {
    let docs = std::fs::read_to_string(support::project("docs/metrics.md")).expect("it is there");
    for (name, kind) in NAMES {
        let end = if *kind == "counter" { "_total" } else { "" };
        assert!(docs.contains(&format!("`{name}{end}`")), "{name}{end}");
    }
}
