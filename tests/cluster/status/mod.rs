//! Runs `lakh status` and `lakh why` as processes against the embedded cluster. The exact texts are tested in
//! `crates/inspect/src/status/tests` and `crates/inspect/src/why/tests`.

mod causes;
mod counsel;
mod watch;

use std::{
    path::Path,
    process::Output,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    self, client, cluster, create, indexed_job, is, job_when, kubectl,
    proxy::{self, Fate, Proxy, refusal},
};

/// Longer than any test, so that no Pod ends by itself.
const LONG: Duration = Duration::from_secs(36_000);

/// Runs the binary with a kubeconfig.
async fn output(config: &Path, args: &[&str]) -> Output {
    let mut command = support::lakh(args);
    command.arg("--kubeconfig").arg(config);
    let ended = tokio::task::spawn_blocking(move || command.output());
    ended.await.expect("it ends").expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the output of `lakh status` or `lakh why` as JSON.
async fn said(config: &Path, command: &str, job: &str) -> Value {
    let output = output(config, &[command, job, "-n", "default", "-o", "json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Adds annotations for the hollow kubelet to the Pods of an Indexed Job.
fn playing(mut job: Value, plays: &Value) -> Value {
    let plays = plays.as_object().expect("members").iter();
    let plays = plays.map(|(key, value)| (format!("sim.lakh.dev/{key}"), value.clone()));
    job["spec"]["template"]["metadata"]["annotations"] = plays.collect();
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_indexes_are_shown_with_their_last_failure() {
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let controller = support::controller(&cluster).await;
    let mut job = playing(
        indexed_job("main", 6, 6),
        &json!({"fail-indexes": "1,3", "exit-code": "42"}),
    );
    job["spec"]["backoffLimitPerIndex"] = json!(1);
    create(&client, &job).await;
    job_when(&client, "main", |job| is(job, "Failed")).await;

    let status = said(&config, "status", "main").await;
    assert_eq!(status["state"], "failed", "{status:#}");
    assert_eq!(status["succeeded"], 4);
    assert_eq!(status["failedIndexes"], json!({"count": 2, "list": "1,3"}));
    assert_eq!(status["failedIndexesWithoutPods"]["count"], 0);
    let [cause] = status["causes"].as_array().expect("causes").as_slice() else {
        panic!("{status:#}");
    };
    assert_eq!(
        (
            &cause["exitCode"],
            &cause["pods"],
            &cause["indexes"]["list"]
        ),
        (&json!(42), &json!(4), &json!("1,3"))
    );
    let failures = status["failures"].as_array().expect("failures");
    let indexes: Vec<&Value> = failures.iter().map(|it| &it["index"]).collect();
    assert_eq!(indexes, [1, 3]);
    for failure in failures {
        assert_eq!(
            (&failure["state"], &failure["tries"]),
            (&json!("failed"), &json!(2))
        );
        let node = failure["node"].as_str().expect("a node");
        assert!(node.starts_with("hollow-"), "{failure:#}");
    }
    assert_eq!(status["unseen"], json!([]));

    let text = stdout(&output(&config, &["status", "job/main", "-o", "wide"]).await);
    for words in [
        "default/main: Failed after ",
        "4 of 6 succeeded (66 %)",
        "4 Pods of 2 indexes (1,3): exit code 42; last index ",
        "\nINDEX  STATE   TRIES  CAUSE         NODE",
        "\n3      failed  2      exit code 42  hollow-",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    let yaml = stdout(&output(&config, &["status", "main", "-o", "yaml"]).await);
    assert!(yaml.contains("\nstate: failed\n"), "{yaml}");
    assert_eq!(
        said(&config, "why", "main").await["cause"],
        "failed-indexes"
    );
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_read_than_is_needed() {
    let cluster = cluster(LONG).await;
    let client = client(&cluster).await;
    let controller = support::controller(&cluster).await;
    create(&client, &indexed_job("main", 1_200, 1_200)).await;
    job_when(&client, "main", |job| job["status"]["ready"] == 1_200).await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&calls);
    let told = Arc::clone(&calls);
    let server = cluster.url();
    let line = Proxy::start(&server, move |request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        told.lock().expect("nobody panicked").push(path.to_owned());
        Fate::Passed
    });
    let line = line.await;
    let (_folder, config) = support::kubeconfig_of(&line.url());
    let status = said(&config, "status", "main").await;
    assert_eq!(
        (&status["active"], &status["pending"]),
        (&json!(1_200), &json!(0))
    );
    let calls = std::mem::take(&mut *calls.lock().expect("nobody panicked"));
    // The Job, and the Pods that neither run nor have succeeded: one page.
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(calls[0], "/apis/batch/v1/namespaces/default/jobs/main");
    let phases = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DRunning&limit=500";
    assert!(calls[1].ends_with(phases), "{calls:?}");

    // For a Job with container restarts, each running Pod is read, page by page.
    let mut again = indexed_job("again", 1_200, 1_200);
    again["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    create(&client, &again).await;
    job_when(&client, "again", |job| job["status"]["ready"] == 1_200).await;
    said(&config, "status", "again").await;
    let calls = std::mem::take(&mut *heard.lock().expect("nobody panicked"));
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert!(
        calls[1].ends_with("status.phase%21%3DSucceeded&limit=500"),
        "{calls:?}"
    );
    assert!(calls[2].contains("&limit=2000&continue="), "{calls:?}");
    controller.stop().await;
    cluster.shutdown().await;
}

/// The server expires the continue token once for each list.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_expires_on_its_way_is_still_read() {
    let cluster = cluster(Duration::from_millis(20)).await;
    let client = client(&cluster).await;
    let controller = support::controller(&cluster).await;
    let mut job = playing(
        indexed_job("main", 1_200, 1_200),
        &json!({"fail-indexes": "0-1199", "exit-code": "42"}),
    );
    job["spec"]["backoffLimitPerIndex"] = json!(0);
    create(&client, &job).await;
    job_when(&client, "main", |job| is(job, "Failed")).await;

    // With a new continue token in the error, as servers send it, and without: then the list starts again.
    for says_where in [true, false] {
        let lists = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&lists);
        let server = cluster.url();
        let line = Proxy::start(&server, move |request| {
            let path = request.split(' ').nth(1).unwrap_or_default();
            if !path.contains("/pods?") {
                return Fate::Passed;
            }
            let token = path
                .split_once("&continue=")
                .map(|(_, token)| token.to_owned());
            let mut lists = told.lock().expect("nobody panicked");
            lists.push(token.clone());
            let before = lists.iter().filter(|token| token.is_some()).count();
            match token {
                Some(token) if before == 1 => {
                    let place = if says_where { token } else { String::new() };
                    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410,
                        "reason": "Expired", "metadata": {"continue": place},
                        "message": "The provided continue parameter is too old"});
                    Fate::Answered(proxy::answer(410, "", &body.to_string()))
                }
                _ => Fate::Passed,
            }
        });
        let line = line.await;
        let (_folder, config) = support::kubeconfig_of(&line.url());
        let status = said(&config, "status", "main").await;
        assert_eq!(status["unseen"], json!([]), "{status:#}");
        // Each Pod counts once, though some pages came twice.
        assert_eq!(status["failedPods"], 1_200);
        assert_eq!(status["causes"][0]["pods"], 1_200);
        let lists = std::mem::take(&mut *lists.lock().expect("nobody panicked"));
        let begun = lists.iter().filter(|token| token.is_none()).count();
        assert_eq!(begun, if says_where { 1 } else { 2 }, "{lists:?}");
    }

    // A list that never completes is not retried for ever.
    let server = cluster.url();
    let line = Proxy::start(&server, |request| {
        match request
            .split(' ')
            .nth(1)
            .is_some_and(|path| path.contains("&continue="))
        {
            true => Fate::Answered(refusal(410, "Expired", "too old")),
            false => Fate::Passed,
        }
    });
    let line = line.await;
    let (_folder, config) = support::kubeconfig_of(&line.url());
    let status = said(&config, "status", "main").await;
    assert_eq!(
        status["unseen"],
        json!([{"what": "Pods of namespace default", "why": "too old"}])
    );
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_reported() {
    let cluster = cluster(LONG).await;
    let client = client(&cluster).await;
    create(&client, &indexed_job("main", 2, 2)).await;
    let server = cluster.url();
    let line = Proxy::start(&server, |request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        match ["/pods?", "/events?", "/resourcequotas?"]
            .iter()
            .any(|kind| path.contains(kind))
        {
            true => Fate::Answered(refusal(403, "Forbidden", "User bob cannot list it")),
            false => Fate::Passed,
        }
    });
    let line = line.await;
    let (_folder, config) = support::kubeconfig_of(&line.url());
    let status = said(&config, "status", "main").await;
    assert_eq!(status["pending"], Value::Null, "{status:#}");
    assert_eq!(
        status["unseen"],
        json!([{"what": "Pods of namespace default", "why": "User bob cannot list it"}])
    );
    let why = said(&config, "why", "main").await;
    let unseen = why["unseen"].as_array().expect("a list");
    assert_eq!(unseen.len(), 3, "{why:#}");
    let text = stdout(&output(&config, &["why", "main"]).await);
    assert!(
        text.contains("\nnot seen: Events of the Job: User bob"),
        "{text}"
    );
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_seen_ends_with_2() {
    let cluster = cluster(LONG).await;
    let (folder, config) = support::kubeconfig(&cluster);
    let nobody = folder.path().join("nobody");
    support::write_kubeconfig(&nobody, "http://127.0.0.1:1");
    for (config, args, words) in [
        (
            &config,
            &["status", "main"][..],
            "Job default/main: not found on http://",
        ),
        (
            &config,
            &["status", "main", "--watch"],
            "Job default/main: not found on http://",
        ),
        (
            &config,
            &["why", "job/main", "-n", "ml"],
            "Job ml/main: not found on http://",
        ),
        (&config, &["why", "pod/main"], "must be NAME or job/NAME"),
        (
            &config,
            &["why", "main", "-n", "a/b"],
            "--namespace a/b: must be a valid object name",
        ),
        (&config, &["status", "main", "--timeout", "3s"], "--watch"),
        (
            &nobody,
            &["status", "main"],
            "Job default/main: API server http://127.0.0.1:1",
        ),
    ] {
        let output = output(config, args).await;
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(words),
            "{args:?}: {}",
            stderr(&output)
        );
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_a_plug_in_of_kubectl_with_the_contexts_namespace() {
    let cluster = cluster(LONG).await;
    let client = client(&cluster).await;
    let (folder, config) = support::kubeconfig(&cluster);
    let mut job = indexed_job("main", 2, 2);
    job["spec"]["suspend"] = json!(true);
    job["metadata"]["namespace"] = json!("kube-public");
    let path = "/apis/batch/v1/namespaces/kube-public/jobs";
    client
        .create(path, job.to_string())
        .await
        .expect("a good Job");
    let text = std::fs::read_to_string(&config).expect("it is there");
    let mut settings: Value = serde_saphyr::from_str(&text).expect("a kubeconfig");
    settings["contexts"][0]["context"]["namespace"] = json!("kube-public");
    std::fs::write(&config, settings.to_string()).expect("it can be written");
    let plug_in = folder.path().join("kubectl-lakh");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lakh"), &plug_in).expect("a link");

    let expected = "kube-public/main: It is suspended (spec.suspend, as lakh wrote it";
    // The Job's field manager is the name of the calling program here, too: both are this project's clients.
    let run = |program: &Path, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        command
            .args(args)
            .env("KUBECONFIG", &config)
            .env("HOME", folder.path());
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", folder.path().display()));
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let direct = run(&plug_in, &["why", "main"]);
    assert!(direct.starts_with(&expected[..50]), "{direct}");
    if kubectl::is_installed() {
        let by_kubectl = run(Path::new("kubectl"), &["lakh", "why", "main"]);
        assert_eq!(by_kubectl, direct);
    }
    cluster.shutdown().await;
}
