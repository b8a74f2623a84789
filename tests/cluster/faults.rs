//! Tests fault injection over HTTP, and a Job that survives all faults.

use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use lakh::{
    embedded::{
        ClusterOptions, EmbeddedCluster,
        apiserver::{Kind, Reply, Request},
    },
    runtime::Controller,
};
use serde_json::{Value, json};

use crate::support::{self, check_pods_of_complete_job, indexed_job, is, is_held};

type Body = Full<bytes::Bytes>;

/// A client without retries, with a user agent of its own.
struct Caller {
    client: HttpClient<HttpConnector, Body>,
    url: String,
}

impl Caller {
    fn new(cluster: &EmbeddedCluster) -> Self {
        Self {
            client: HttpClient::builder(TokioExecutor::new())
                .pool_max_idle_per_host(0)
                .build_http(),
            url: cluster.url(),
        }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Option<hyper::Response<hyper::body::Incoming>> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = hyper::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("user-agent", "caller/1")
            .header("content-type", "application/json")
            .body(Body::from(body))
            .expect("a good request");
        self.client.request(request).await.ok()
    }

    /// Returns status code and body; `None` if the connection broke.
    async fn call(&self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let response = self.send(method, path, body).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.ok()?.to_bytes();
        Some((code, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    async fn set(&self, rules: &[&str]) {
        let rules: Vec<Value> = rules.iter().map(|rule| rule_as_json(rule)).collect();
        let (code, shown) = self
            .call("PUT", FAULTS, &json!({"seed": 5, "rules": rules}))
            .await
            .expect("an answer");
        assert_eq!(code, 200, "{shown}");
    }

    /// Counts the rules without a hit. A partition holds requests and counts no hits, so it is skipped.
    async fn unmet_rules(&self) -> usize {
        let shown = self.call("GET", FAULTS, &Value::Null).await;
        let (_, shown) = shown.expect("an answer");
        let rules = shown["rules"].as_array().expect("a list").iter();
        rules
            .filter(|rule| rule["fault"] != "partition" && rule["hits"] == 0)
            .count()
    }
}

/// Converts a rule from its text form to JSON, as the server shows it.
fn rule_as_json(text: &str) -> Value {
    let rule: lakh::embedded::Rule = text.parse().expect(text);
    serde_json::to_value(rule).expect("rules are JSON")
}

const FAULTS: &str = "/lakh/faults";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

async fn cluster() -> EmbeddedCluster {
    EmbeddedCluster::start(ClusterOptions::default())
        .await
        .expect("a free port")
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_set_shown_and_taken_away() {
    let cluster = cluster().await;
    let caller = Caller::new(&cluster);
    let (code, shown) = caller
        .call("GET", FAULTS, &Value::Null)
        .await
        .expect("an answer");
    assert_eq!((code, shown), (200, json!({"seed": 1, "rules": []})));

    caller.set(&["refuse=503,verbs=list,times=2"]).await;
    for want in [503, 503, 200] {
        let (code, _) = caller
            .call("GET", MAPS, &Value::Null)
            .await
            .expect("an answer");
        assert_eq!(code, want);
    }
    let (_, shown) = caller
        .call("GET", FAULTS, &Value::Null)
        .await
        .expect("an answer");
    assert_eq!(shown["seed"], 5);
    let rule = json!({
        "fault": "refuse", "code": 503, "verbs": ["list"], "probability": 1.0, "times": 2, "hits": 2,
    });
    assert_eq!(shown["rules"], json!([rule]));

    let bad = json!({"rules": [{"fault": "refuse"}]});
    let (code, status) = caller.call("PUT", FAULTS, &bad).await.expect("an answer");
    assert_eq!(
        (code, &status["message"]),
        (400, &json!("rules[0].code: is missing"))
    );
    let (_, still) = caller
        .call("GET", FAULTS, &Value::Null)
        .await
        .expect("an answer");
    assert_eq!(still, shown, "what was refused has changed nothing");
    let (code, _) = caller.call("POST", FAULTS, &bad).await.expect("an answer");
    assert_eq!(code, 405);

    // Requests that set rules are not subject to them.
    caller.set(&["drop-before"]).await;
    assert!(caller.call("GET", MAPS, &Value::Null).await.is_none());
    let (code, shown) = caller
        .call("DELETE", FAULTS, &Value::Null)
        .await
        .expect("an answer");
    assert_eq!((code, &shown["rules"]), (200, &json!([])));
    assert!(caller.call("GET", MAPS, &Value::Null).await.is_some());
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_before_and_after_the_write_differ() {
    let cluster = cluster().await;
    let caller = Caller::new(&cluster);
    let api = cluster.server().api();
    let exists = |name: &str| api.get(Kind::ConfigMap, "default", name).is_some();
    for (fault, name, code, is_done) in [
        ("drop-before", "a", None, false),
        ("drop-after", "b", None, true),
        ("timeout-before=10ms", "c", Some(504), false),
        ("timeout-after=10ms", "d", Some(504), true),
        ("refuse=429", "e", Some(429), false),
        ("latency=10ms", "f", Some(201), true),
    ] {
        caller
            .set(&[&format!("{fault},verbs=create,client=caller/")])
            .await;
        let answer = caller.call("POST", MAPS, &map(name)).await;
        assert_eq!(
            answer.as_ref().map(|(code, _)| *code),
            code,
            "{fault}: {answer:?}"
        );
        assert_eq!(exists(name), is_done, "{fault}");
    }
    caller.set(&["refuse=429,retryAfter=3s"]).await;
    let refused = caller
        .send("GET", MAPS, &Value::Null)
        .await
        .expect("an answer");
    assert_eq!(refused.headers()["retry-after"], "3");
    caller.set(&["stale=1"]).await;
    let (_, list) = caller
        .call("GET", MAPS, &Value::Null)
        .await
        .expect("an answer");
    let names: Vec<&Value> = support::listed(&list)
        .iter()
        .map(|map| &map["metadata"]["name"])
        .collect();
    assert!(
        !names.contains(&&json!("f")) && names.contains(&&json!("d")),
        "{names:?}"
    );
    caller.set(&["latency=300ms,verbs=list"]).await;
    let started = Instant::now();
    caller
        .call("GET", MAPS, &Value::Null)
        .await
        .expect("an answer");
    assert!(started.elapsed() >= Duration::from_millis(300));
    cluster.shutdown().await;
}

/// Reads a watch until it ends, or is silent for a while. Returns its lines, and whether it ended.
async fn lines(response: hyper::Response<hyper::body::Incoming>) -> (Vec<Value>, bool) {
    let mut body = response.into_body();
    let mut text = Vec::new();
    let ended = loop {
        match tokio::time::timeout(Duration::from_millis(700), body.frame()).await {
            Ok(Some(Ok(frame))) => text.extend(frame.into_data().unwrap_or_default()),
            Ok(Some(Err(_)) | None) => break true,
            Err(_) => break false,
        }
    };
    let text = String::from_utf8(text).expect("text");
    let read = |line: &str| serde_json::from_str(line).expect("JSON");
    (text.lines().map(read).collect(), ended)
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_break_off_repeat_themselves_and_stand_still() {
    let cluster = cluster().await;
    let caller = Caller::new(&cluster);
    caller
        .call("POST", MAPS, &map("a"))
        .await
        .expect("an answer");
    let path = format!("{MAPS}?watch=1&resourceVersion=0");
    let mut seen = Vec::new();
    for (rules, want_ended) in [
        (&["duplicate-events"][..], false),
        (&["expire=200ms"], true),
        (&["close-watch=200ms"], true),
        (&["delay-events=300ms"], false),
    ] {
        caller.set(rules).await;
        let started = Instant::now();
        let watch = caller
            .send("GET", &path, &Value::Null)
            .await
            .expect("a watch");
        let (lines, ended) = lines(watch).await;
        assert_eq!(ended, want_ended, "{rules:?}: {lines:?}");
        assert!(started.elapsed() >= Duration::from_millis(200), "{rules:?}");
        let kinds: Vec<&str> = lines
            .iter()
            .filter_map(|line| line["type"].as_str())
            .collect();
        seen.push(kinds.join(" "));
    }
    // Each namespace has kube-root-ca.crt, too.
    assert_eq!(
        seen,
        [
            "ADDED ADDED ADDED ADDED",
            "ADDED ADDED ERROR",
            "ADDED ADDED",
            "ADDED ADDED"
        ]
    );

    // New rules, and their end, also apply to an open watch.
    caller.set(&[]).await;
    let watch = caller
        .send("GET", &path, &Value::Null)
        .await
        .expect("a watch");
    caller.set(&["partition,client=caller/,verbs=watch"]).await;
    caller
        .call("POST", MAPS, &map("b"))
        .await
        .expect("only the watch is cut off");
    let mut body = watch.into_body();
    let first = body.frame().await.expect("a frame").expect("no error");
    assert!(
        first
            .into_data()
            .is_ok_and(|data| data.starts_with(b"{\"type\":\"ADDED\""))
    );
    let silence = tokio::time::timeout(Duration::from_millis(300), body.frame()).await;
    assert!(silence.is_err(), "something got through");
    caller.set(&[]).await;
    let next = tokio::time::timeout(Duration::from_secs(10), body.frame()).await;
    let next = next
        .expect("it goes on")
        .expect("a frame")
        .expect("no error");
    let text = String::from_utf8(next.into_data().expect("data").to_vec()).expect("text");
    assert!(text.contains("\"name\":\"b\""), "{text}");
    caller.set(&["close-watch"]).await;
    let end = tokio::time::timeout(Duration::from_secs(10), body.frame()).await;
    assert!(end.expect("it ends").is_none());

    // A partitioned request is answered after the partition ends.
    caller.set(&["partition,for=400ms"]).await;
    let started = Instant::now();
    let (code, _) = caller
        .call("GET", MAPS, &Value::Null)
        .await
        .expect("an answer");
    assert_eq!(code, 200);
    assert!(
        started.elapsed() >= Duration::from_millis(350),
        "{:?}",
        started.elapsed()
    );
    cluster.shutdown().await;
}

/// All faults at once for the controller. Its user agent is the name of this binary. The faults end when each was hit
/// and [`AT_LEAST`] has passed. Stale lists are few: with repeated different old data a controller rightly backs off,
/// and would meet no other fault.
const EVERYTHING: &[&str] = &[
    "latency=20ms,probability=0.1,client=cluster-",
    "refuse=409,verbs=create+patch,probability=0.03,client=cluster-",
    "refuse=429,probability=0.01,times=5,client=cluster-",
    "refuse=500,probability=0.03,client=cluster-",
    "refuse=503,probability=0.03,client=cluster-",
    "timeout-before=20ms,probability=0.03,client=cluster-",
    "timeout-after=20ms,probability=0.03,client=cluster-",
    "drop-before,probability=0.03,client=cluster-",
    "drop-after,probability=0.03,client=cluster-",
    "close-watch=300ms,probability=0.2,client=cluster-",
    "expire=700ms,times=4,client=cluster-",
    "stale=60,verbs=list,times=3,client=cluster-",
    "duplicate-events,probability=0.3,client=cluster-",
    "delay-events=30ms,probability=0.2,client=cluster-",
    "partition,for=500ms,client=cluster-",
];

/// Without faults, the Job takes about a second.
const AT_LEAST: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_job_comes_through_all_faults_at_once() {
    let cluster = cluster().await;
    let api = cluster.server().api();
    let mut options = support::options();
    options.limits.retry_backoff.base = Duration::from_millis(50);
    options.limits.retry_backoff.max = Duration::from_millis(500);
    let controller = Controller::start(support::client(&cluster).await, options)
        .await
        .expect("nothing to listen on");
    let caller = Caller::new(&cluster);
    caller.set(EVERYTHING).await;
    let job = indexed_job("main", 500, 100).to_string();
    let created = api.handle(Request {
        method: "POST",
        path: "/apis/batch/v1/namespaces/default/jobs",
        query: "",
        accept: "application/json",
        user_agent: "",
        authorization: "",
        content_type: "application/json",
        body: job.as_bytes(),
    });
    assert!(matches!(created, Reply::Complete(response) if response.status == 201));

    // The final state is read past all faults.
    let read = |object: &lakh::embedded::apiserver::Stored| -> Value {
        serde_json::from_slice(object.bytes()).expect("JSON")
    };
    let started = Instant::now();
    let mut unmet = EVERYTHING.len();
    let job = loop {
        if unmet > 0 {
            unmet = caller.unmet_rules().await;
        } else if started.elapsed() > AT_LEAST {
            caller.set(&[]).await;
        }
        let (pods, _) = api.objects(Kind::Pod);
        let pods: Vec<Value> = pods.iter().map(|pod| read(pod)).collect();
        let is_live = |pod: &&Value| pod["status"]["phase"] != "Succeeded";
        let live = pods.iter().filter(is_live).count();
        assert!(live <= 100, "{live} Pods are active");
        let job = api.get(Kind::Job, "default", "main").expect("the Job");
        let job = read(&job);
        if is(&job, "Complete") && !pods.iter().any(is_held) {
            assert_eq!(pods.len(), 500, "a Pod too many or too few");
            check_pods_of_complete_job(&pods, 500);
            break job;
        }
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "{unmet} rules were not met: {job:#}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(job["status"]["succeeded"], 500);
    assert_eq!(job["status"]["completedIndexes"], "0-499");
    assert!(job["status"].get("failed").is_none(), "{job:#}");
    assert_eq!(unmet, 0, "the Job was too quick for some rules");
    controller.stop().await;
    cluster.shutdown().await;
}
