//! Tests `/debug/jobs`: a controller's view of its Jobs, and the reasons why they wait.

use std::time::Duration;

use lakh::runtime::Controller;
use serde_json::{Value, json};

use crate::support::{
    client, cluster, create, http_get, indexed_job, is, job_when, listening_controller, wait_until,
};

/// Returns the JSON of the response, or null for 404.
fn asked(controller: &Controller, path: &str) -> Value {
    let listen = controller.listening().expect("it listens");
    let answer = http_get(listen, path).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    if head.starts_with("HTTP/1.1 404 ") {
        return Value::Null;
    }
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    serde_json::from_str(body).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn it_shows_a_jobs_progress_and_waits() {
    for shards in [1, 2] {
        tells(shards).await;
    }
}

async fn tells(shards: usize) {
    let cluster = cluster(Duration::from_millis(100)).await;
    let client = client(&cluster).await;
    let controller = listening_controller(&client, shards).await;

    create(&client, &indexed_job("done", 3, 3)).await;
    job_when(&client, "done", |job| is(job, "Complete")).await;
    // Its first Pod fails, and the second waits for the backoff.
    let mut job = indexed_job("fails", 2, 1);
    job["spec"]["backoffLimitPerIndex"] = json!(3);
    job["spec"]["template"]["metadata"]["annotations"] = json!({"sim.lakh.dev/exit-code": "1"});
    create(&client, &job).await;
    let fails = || asked(&controller, "/debug/jobs/default/fails")["jobs"][0].clone();
    let waits = |job: &Value| job["waitsFor"] == "index backoff";
    wait_until("it waits", || waits(&fails())).await;
    let told = fails();
    let overview = &told["overview"];
    assert_eq!(told["state"], "at work");
    assert_eq!(overview["indexes"]["inBackoff"], "0", "{told:#}");
    assert_eq!(overview["indexes"]["withoutPod"], "0,1");
    assert_eq!(
        (&overview["pods"]["failed"], &overview["pods"]["active"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(overview["waits"][0]["for"], "index backoff");
    assert_eq!(told["until"], overview["waits"][0]["until"]);
    assert_eq!(told["heldUpBy"], json!([]));

    // Its Pods are refused. The reason is the same as in the Event.
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "default"},
        "spec": {"hard": {"pods": "0"}},
    });
    let path = "/api/v1/namespaces/default/resourcequotas";
    client
        .create(path, quota.to_string().into_bytes())
        .await
        .expect("a quota");
    create(&client, &indexed_job("refused", 2, 2)).await;
    let refused = || asked(&controller, "/debug/jobs/default/refused")["jobs"][0].clone();
    let is_refused = |job: &Value| {
        let message = job["warnings"][0]["message"].as_str();
        message.is_some_and(|message| message.contains("exceeded quota: few"))
    };
    wait_until("it is refused", || is_refused(&refused())).await;
    wait_until("it waits", || {
        refused()["waitsFor"] == "pod creation backoff"
    })
    .await;
    assert_eq!(refused()["overview"]["pods"]["missing"], 2);
    let blocked = &refused()["blocked"];
    assert_eq!(blocked["by"], "refusal", "{blocked:#}");
    let message = blocked["message"].as_str().unwrap_or_default();
    assert!(message.contains("exceeded quota: few"), "{message}");
    assert_eq!(fails()["blocked"]["by"], "index backoff");
    assert_eq!(fails()["blocked"]["message"], Value::Null);

    let all = asked(&controller, "/debug/jobs");
    let all = all["jobs"].as_array().expect("Jobs");
    let states = all
        .iter()
        .map(|job| (job["name"].as_str(), job["state"].as_str()));
    let expected = [
        ("done", "finished"),
        ("fails", "at work"),
        ("refused", "at work"),
    ];
    let expected = expected.map(|(name, state)| (Some(name), Some(state)));
    assert!(states.eq(expected), "{all:?}");
    assert_eq!(
        asked(&controller, "/debug/jobs/default/nobody"),
        Value::Null
    );
    controller.stop().await;
    cluster.shutdown().await;
}
