//! Tests the outcome of each index after its Pods are gone, and the other features that a Job requests by annotations.
//! Over HTTP.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use lakh::{
    client::Client,
    runtime::{Controller, Options},
};
use serde_json::{Value, json};

use crate::support::{
    client, cluster, create, get, http_get, indexed_job, is, job_when, kubeconfig, listed,
    listening, metrics_when, pods_when, run, seen_when,
};

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Sends a GET. Returns the code and the body of the response.
fn asked(address: SocketAddr, path: &str) -> (u16, String) {
    let answer = http_get(address, path).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let is_chunked = head.contains("transfer-encoding: chunked");
    let body = match is_chunked {
        true => whole(body),
        false => body.to_owned(),
    };
    (code.expect("a code"), body)
}

/// Decodes a chunked body.
fn whole(mut chunked: &str) -> String {
    let mut text = String::new();
    loop {
        let (size, rest) = chunked.split_once("\r\n").expect("the size of a piece");
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            return text;
        }
        text.push_str(&rest[..size]);
        chunked = &rest[size + 2..];
    }
}

fn json_of(address: SocketAddr, path: &str) -> Value {
    let (code, body) = asked(address, path);
    assert_eq!(code, 200, "{path}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

/// Returns a Job of four indexes, of which the second fails twice.
fn failing_job(name: &str, annotations: &Value) -> Value {
    let mut job = indexed_job(name, 4, 4);
    job["metadata"]["annotations"] = annotations.clone();
    job["spec"]["backoffLimitPerIndex"] = json!(1);
    job["spec"]["template"]["metadata"]["annotations"] =
        json!({"sim.lakh.dev/fail-indexes": "1", "sim.lakh.dev/exit-code": "42"});
    job
}

async fn delete_pods(client: &Client) {
    let pods = pods_when(client, |_| true).await;
    for pod in pods {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        client.delete(&path).await.expect("it is deleted");
    }
    pods_when(client, <[Value]>::is_empty).await;
}

async fn start(client: &Client, options: Options) -> (Controller, SocketAddr) {
    let options = Options {
        limits: lakh::model::Limits {
            pod_failure_backoff: lakh::model::Exponential {
                base: Duration::from_millis(100),
                max: Duration::from_millis(100),
            },
            ..options.limits
        },
        ..options
    };
    let controller = Controller::start(client.clone(), listening(options)).await;
    let controller = controller.expect("it starts");
    let address = controller.listening().expect("it listens");
    (controller, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_outlives_pods_and_is_served_in_each_format() {
    for shards in [1, 2] {
        record_stays(shards).await;
    }
}

async fn record_stays(shards: usize) {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let (controller, address) = start(
        &client,
        Options {
            shards,
            ..Options::default()
        },
    )
    .await;
    let asks = json!({"lakh.dev/index-record": "true"});
    create(&client, &failing_job("a", &asks)).await;
    create(&client, &indexed_job("plain", 1, 1)).await;
    job_when(&client, "a", |job| is(job, "Failed")).await;
    job_when(&client, "plain", |job| is(job, "Complete")).await;
    delete_pods(&client).await;

    let told = json_of(address, "/debug/jobs/default/a/indexes");
    let rows = told["indexes"].as_array().expect("indexes");
    assert_eq!((rows.len(), &told["known"]), (4, &json!(4)), "{told:#}");
    let second = &rows[1];
    assert_eq!(
        (&second["state"], &second["tries"]),
        (&json!("failed"), &json!(2))
    );
    let last = &second["last"];
    assert_eq!(
        (&last["outcome"], &last["exitCode"]),
        (&json!("failed"), &json!(42))
    );
    let is_node = |node: &Value| {
        node.as_str()
            .is_some_and(|node| node.starts_with("hollow-"))
    };
    assert!(
        is_node(&last["node"]) && last["ended"].is_string() && last["started"].is_string(),
        "{told:#}"
    );
    for index in [0, 2, 3] {
        let row = &rows[index];
        let last = &row["last"];
        assert_eq!(
            (&row["state"], &row["tries"]),
            (&json!("succeeded"), &json!(1)),
            "{row:#}"
        );
        assert_eq!(
            (&last["outcome"], &last["exitCode"]),
            (&json!("succeeded"), &json!(0))
        );
        assert!(is_node(&last["node"]), "{row:#}");
    }
    let failed = json_of(address, "/debug/jobs/default/a/indexes?state=failed");
    assert_eq!(failed["indexes"], json!([second]));
    let pieces = json_of(address, "/debug/jobs/default/a/indexes?from=1&limit=2");
    assert_eq!(
        (&pieces["indexes"], &pieces["next"]),
        (&json!(rows[1..3]), &json!(3))
    );
    let one = json_of(address, "/debug/jobs/default/a/indexes?index=9");
    assert_eq!(one["indexes"], json!([]));
    let whole = json_of(address, "/debug/jobs/default/a");
    assert_eq!(whole["jobs"][0]["indexRecord"]["indexes"], 4);

    let (code, lines) = asked(address, "/debug/jobs/default/a/indexes.jsonl");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!((code, &json!(lines)), (200, &told["indexes"]));
    let (code, table) = asked(address, "/debug/jobs/default/a/indexes.csv");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!((code, lines.len()), (200, 5), "{table}");
    assert!(lines[0].starts_with("index,state,known,tries,outcome,exit_code,"));
    assert!(
        lines[2].starts_with("1,failed,true,2,failed,42,,hollow-"),
        "{table}"
    );

    let page = json_of(address, "/ui/jobs/default/a/indexes/1");
    assert_eq!((&page["pods"], &page["record"]), (&json!([]), second));

    let (code, why) = asked(address, "/debug/jobs/default/plain/indexes");
    assert_eq!(code, 404);
    assert!(why.contains("lakh.dev/index-record=true"), "{why}");
    let (code, _) = asked(address, "/debug/jobs/default/nobody/indexes.csv");
    assert_eq!(code, 404);
    let (code, why) = asked(address, "/debug/jobs/default/a/indexes?from=x");
    assert_eq!((code, why.as_str()), (400, "from=x: invalid number"));

    let (_folder, config) = kubeconfig(&cluster);
    let config = config.to_str().expect("a path");
    let url = format!("http://{address}");
    let status = |name: &str, more: &[&str]| {
        let fixed = ["status", name, "--kubeconfig", config, "--controller", &url];
        let output = run(&[&fixed[..], more].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let text = status("a", &[]);
    assert!(
        text.contains("  recorded   1 index (1): last exit code 42\n"),
        "{text}"
    );
    let wide = status("a", &["-o", "wide"]);
    let line = wide.lines().last().expect("a line");
    assert!(
        line.starts_with("1      failed  2      exit code 42  hollow-"),
        "{wide}"
    );
    let text = status("plain", &[]);
    assert!(
        text.contains("not seen   record of the indexes at http://127.0.0.1"),
        "{text}"
    );
    assert!(
        text.contains("annotate it with lakh.dev/index-record=true"),
        "{text}"
    );

    controller.stop().await;
    // A new controller reports the outcomes that it does not know.
    let (controller, address) = start(&client, Options::default()).await;
    let begun = || asked(address, "/debug/jobs/default/a/indexes").0 == 200;
    crate::support::wait_until("the Job is known", begun).await;
    let anew = json_of(address, "/debug/jobs/default/a/indexes");
    assert_eq!(anew["known"], 0);
    let unknown = json!({"index": 1, "state": "failed", "known": false});
    assert_eq!(anew["indexes"][1], unknown);
    assert!(anew["since"].as_str() >= told["since"].as_str());
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_recorded_failures_also_with_watch() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let (controller, address) = start(&client, Options::default()).await;
    let mut job = failing_job("whole", &json!({"lakh.dev/index-record": "true"}));
    job["spec"]["backoffLimitPerIndex"] = Value::Null;
    job["spec"]["backoffLimit"] = json!(2);
    create(&client, &job).await;
    let (_folder, config) = kubeconfig(&cluster);
    let config = config.to_str().expect("a path");
    let url = format!("http://{address}");
    let status = |more: &[&str]| {
        let fixed = ["status", "whole", "--kubeconfig", config];
        let asked = ["--controller", &url];
        let output = tokio::task::block_in_place(|| run(&[&fixed[..], &asked, more].concat()));
        let said = String::from_utf8(output.stdout).expect("text");
        (output.status.code(), said)
    };
    let (code, _) = status(&["--watch", "--timeout", "60s"]);
    assert_eq!(code, Some(1), "it failed");
    let (_, whole) = status(&[]);
    assert!(!whole.contains("last exit code"), "its Pods tell: {whole}");
    delete_pods(&client).await;
    let told = "  recorded   1 index (1): last exit code 42\n  recorded   since ";
    let (code, whole) = status(&["-o", "wide"]);
    assert!(code == Some(0) && whole.contains(told), "{whole}");
    let last = whole.lines().last().expect("a line");
    assert!(
        last.starts_with("1      unfinished  3      exit code 42  hollow-"),
        "{whole}"
    );
    let (code, watched) = status(&["--watch"]);
    assert!(code == Some(1) && watched.contains(told), "{watched}");
    let (_, lines) = status(&["--watch", "-o", "json"]);
    let line: Value = serde_json::from_str(&lines).expect("one line");
    let failure = &line["recorded"]["failures"][0];
    assert_eq!(
        (&failure["state"], &failure["exitCode"]),
        (&json!("unfinished"), &json!(42))
    );
    controller.stop().await;
    // An unreachable controller is reported, and does not block the Job's status.
    let (code, watched) = status(&["--watch"]);
    let unseen = "  not seen   record of the indexes at http://127.0.0.1";
    assert!(code == Some(1) && watched.contains(unseen), "{watched}");
    cluster.shutdown().await;
}

/// Begins an export and reads only the first line of the response. Returns the connection and that line.
fn begun_export(address: SocketAddr) -> (BufReader<TcpStream>, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let path = "/debug/jobs/default/a/indexes.jsonl";
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let (mut stream, mut line) = (BufReader::new(stream), String::new());
    stream.read_line(&mut line).expect("an answer");
    (stream, line)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_some_exports_are_sent_at_once() {
    /// The limit of concurrent exports (`EXPORTS`).
    const EXPORTS: usize = 8;
    let cluster = cluster(Duration::ZERO).await;
    let client = client(&cluster).await;
    let (controller, address) = start(&client, Options::default()).await;
    // Its export exceeds the socket buffers if the client does not read.
    let mut job = indexed_job("a", 1_000_000, 1);
    job["metadata"]["annotations"] = json!({"lakh.dev/index-record": "true"});
    job["spec"]["suspend"] = json!(true);
    create(&client, &job).await;
    let is_kept = || asked(address, "/debug/jobs/default/a/indexes").0 == 200;
    crate::support::wait_until("the record begins", is_kept).await;
    let (mut open, lines): (Vec<_>, Vec<_>) = (0..EXPORTS).map(|_| begun_export(address)).unzip();
    let are_sent = lines.iter().all(|line| line.contains(" 200 "));
    assert!(are_sent, "{lines:?}");
    let (code, why) = asked(address, "/debug/jobs/default/a/indexes.csv");
    let told = "8 exports are in progress; retry when one has finished";
    assert_eq!((code, why.as_str()), (503, told));
    assert!(is_kept(), "a page of JSON is no export");
    // A closed export makes room.
    open.pop();
    let has_room = || begun_export(address).1.contains(" 200 ");
    crate::support::wait_until("there is room", has_room).await;
    controller.stop().await;
    cluster.shutdown().await;
}

/// Returns the Events of a Job with this reason, once there are some.
async fn events_when(client: &Client, job: &str, reason: &str) -> Vec<Value> {
    let of = |list: &Value| {
        let events = listed(list).iter();
        let events = events
            .filter(|event| event["involvedObject"]["name"] == job && event["reason"] == reason);
        events.cloned().collect::<Vec<_>>()
    };
    of(&seen_when(client, EVENTS, |list| !of(list).is_empty()).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_summed_up_for_jobs_that_ask_or_for_all() {
    for for_all in [false, true] {
        let cluster = cluster(Duration::from_millis(50)).await;
        let client = client(&cluster).await;
        let options = Options {
            summarizes_failures: for_all,
            ..Options::default()
        };
        let (controller, _) = start(&client, options).await;
        let (own, other) = match for_all {
            false => (json!({"lakh.dev/failure-summary": "true"}), json!({})),
            true => (json!({}), json!({"lakh.dev/failure-summary": "false"})),
        };
        create(&client, &failing_job("other", &other)).await;
        job_when(&client, "other", |job| is(job, "Failed")).await;
        create(&client, &failing_job("own", &own)).await;
        let events = events_when(&client, "own", "FailureSummary").await;
        assert_eq!(events.len(), 1, "{events:#?}");
        assert_eq!(events[0]["message"], "2 Pods failed: 2 exit code 42");
        assert_eq!(
            (&events[0]["type"], &events[0]["count"]),
            (&json!("Warning"), &json!(1))
        );
        let all = get(&client, EVENTS).await;
        let others = listed(&all).iter();
        let mut others = others.filter(|event| event["involvedObject"]["name"] == "other");
        assert!(
            !others.any(|event| event["reason"] == "FailureSummary"),
            "{all:#}"
        );
        controller.stop().await;
        cluster.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_annotation_is_reported() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let (controller, _) = start(&client, Options::default()).await;
    create(
        &client,
        &failing_job("a", &json!({"lakh.dev/index-record": "on"})),
    )
    .await;
    let events = events_when(&client, "a", "InvalidAnnotation").await;
    assert_eq!(
        events[0]["message"],
        "annotation lakh.dev/index-record: \"on\" is neither \"true\" nor \"false\"; lakh treats it as \"false\""
    );
    job_when(&client, "a", |job| is(job, "Failed")).await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn per_job_metrics_exist_as_long_as_their_jobs() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let (controller, _) = start(&client, Options::default()).await;
    create(
        &client,
        &failing_job("a", &json!({"lakh.dev/job-metrics": "true"})),
    )
    .await;
    create(&client, &failing_job("b", &json!({}))).await;
    job_when(&client, "a", |job| is(job, "Failed")).await;
    let of = |name: &str, state: &str, count: u32| {
        format!("{name}{{job_namespace=\"default\",job_name=\"a\",state=\"{state}\"}} {count}\n")
    };
    let text = metrics_when(&controller, |text| {
        text.contains(&of("lakh_job_pods", "succeeded", 3))
            && text.contains(&of("lakh_job_indexes", "failed", 1))
    })
    .await;
    assert!(
        text.contains(&of("lakh_job_indexes", "completed", 3)),
        "{text}"
    );
    assert!(text.contains(&of("lakh_job_pods", "active", 0)), "{text}");
    assert!(!text.contains("job_name=\"b\""), "{text}");
    let path = "/apis/batch/v1/namespaces/default/jobs/a";
    let body = br#"{"propagationPolicy":"Background"}"#;
    client
        .delete_with(path, &body[..])
        .await
        .expect("it is deleted");
    metrics_when(&controller, |text| !text.contains("job_name=\"a\"")).await;
    controller.stop().await;
    cluster.shutdown().await;
}
