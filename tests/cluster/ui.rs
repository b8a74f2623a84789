//! `/ui`: the page of a controller. What it is told over HTTP, whom it is for; and the whole of it in a browser.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    process::Command,
    time::Duration,
};

use lakh::{
    client::Patch,
    runtime::{Controller, Options},
};
use serde_json::{Value, json};

use crate::support::{
    self, client, cluster, create, http_get, indexed_job, listening, listening_controller,
    python::{chromium, python},
};

/// Events as a browser hears them.
struct Events(BufReader<TcpStream>);

impl Events {
    fn of(address: SocketAddr, path: &str) -> Self {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).expect("it can be set");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it is sent");
        Self(BufReader::new(stream))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("more comes");
        line.trim_end().to_owned()
    }

    /// The next event of this name.
    fn next(&mut self, name: &str) -> Value {
        loop {
            if self.line() == format!("event: {name}") {
                let data = self.line();
                let data = data.strip_prefix("data: ").expect("data");
                return serde_json::from_str(data).expect("JSON");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_receives_changes_of_jobs_and_indexes() {
    for shards in [1, 2] {
        let cluster = cluster(Duration::from_secs(1)).await;
        let client = client(&cluster).await;
        let controller = listening_controller(&client, shards).await;
        let address = controller.listening().expect("it listens");
        let mut jobs = Events::of(address, "/ui/jobs");
        let seen = json!({"jobs": null, "cronJobs": null});
        assert_eq!(jobs.next("seen"), seen);
        let nothing = json!({"new": [], "gone": [], "more": false});
        assert_eq!(jobs.next("jobs"), nothing);
        assert_eq!(jobs.next("cronjobs"), nothing);
        let mut one = Events::of(address, "/ui/jobs/default/a");
        assert_eq!(one.next("gone"), Value::Null);

        create(&client, &indexed_job("a", 4, 2)).await;
        let told = jobs.next("jobs");
        assert_eq!(told["new"][0]["name"], "a", "{told:#}");
        let told = one.next("job");
        assert_eq!(
            (&told["completions"], &told["anew"]),
            (&json!(4), &json!(true))
        );
        // Whatever came in between, at last all have succeeded.
        let mut succeeded = Vec::new();
        loop {
            let told = one.next("job");
            assert_eq!(told["anew"], false, "{told:#}");
            succeeded.extend(told["came"]["succeeded"].as_str().map(str::to_owned));
            if told["job"]["result"] == "Complete" {
                break;
            }
        }
        assert!(!succeeded.is_empty());
        let tries = http_get(address, "/ui/jobs/default/a/indexes/3").expect("an answer");
        let (_, tries) = tries.split_once("\r\n\r\n").expect("a body");
        let tries: Value = serde_json::from_str(tries).expect("JSON");
        assert_eq!(tries["pods"].as_array().map(Vec::len), Some(1), "{tries:#}");
        let pod = &tries["pods"][0];
        assert_eq!(
            (&pod["phase"], &pod["containers"][0]["exitCode"]),
            (&json!("Succeeded"), &json!(0))
        );
        controller.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn framing_and_cross_site_requests_are_refused() {
    let cluster = cluster(Duration::ZERO).await;
    let controller = Controller::start(client(&cluster).await, listening(Options::default()));
    let controller = controller.await.expect("it starts");
    let address = controller.listening().expect("it listens");
    let ask = |path: &str, header: &str| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\n{header}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        head.join("\n")
    };
    let host = format!("Host: {address}");
    for path in [
        "/ui",
        "/ui/page.js",
        "/ui/page.css",
        "/ui/viewer",
        "/ui/jobs",
    ] {
        let head = ask(path, &host);
        assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
        let is_there = |text: &str| assert!(head.contains(text), "{path}: {head}");
        is_there("frame-ancestors 'none'");
        is_there("default-src 'none'; script-src 'self';");
        is_there("x-content-type-options: nosniff");
        let rebound = ask(path, "Host: evil.example:8080");
        assert!(rebound.starts_with("HTTP/1.1 403 "), "{path}: {rebound}");
        let other = ask(path, &format!("{host}\r\nSec-Fetch-Site: cross-site"));
        assert!(other.starts_with("HTTP/1.1 403 "), "{path}: {other}");
    }
    assert!(ask("/ui/nothing", &host).starts_with("HTTP/1.1 404 "));
    assert!(ask("/uix", &host).starts_with("HTTP/1.1 404 "));
}

/// The body of an answer, as JSON.
fn json_of(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_grouped_by_cause_on_request() {
    let cluster = cluster(Duration::ZERO).await;
    let client = client(&cluster).await;
    let controller = Controller::start(client.clone(), listening(Options::default()));
    let controller = controller.await.expect("it starts");
    let address = controller.listening().expect("it listens");
    let mut job = indexed_job("a", 12, 12);
    job["spec"]["backoffLimitPerIndex"] = json!(0);
    let fails = json!({"sim.lakh.dev/fail-indexes": "2-4,7"});
    job["spec"]["template"]["metadata"] = json!({"annotations": fails});
    create(&client, &job).await;
    support::job_when(&client, "a", |job| support::is(job, "Failed")).await;
    let path = "/ui/jobs/default/a/failures";
    let told = json_of(&http_get(address, path).expect("an answer"));
    assert_eq!(
        (&told["pods"], &told["counted"], &told["continue"]),
        (&json!(4), &json!(4), &json!(""))
    );
    let causes = told["causes"].as_array().expect("causes");
    assert_eq!(causes.len(), 1, "{told:#}");
    assert_eq!(causes[0]["cause"], "exit code 1");
    assert_eq!(
        (&causes[0]["pods"], &causes[0]["indexes"]),
        (&json!(4), &json!("2-4,7"))
    );
    // What is gone is told of by nobody, but is missed.
    let pods = support::pods(&client).await;
    let index = |pod: &Value| {
        let labels = &pod["metadata"]["labels"];
        labels["batch.kubernetes.io/job-completion-index"].clone()
    };
    let pod = pods.iter().find(|pod| index(pod) == "7").expect("its Pod");
    let name = pod["metadata"]["name"].as_str().expect("a name");
    let path_of_pod = format!("/api/v1/namespaces/default/pods/{name}");
    client.delete(&path_of_pod).await.expect("it is deleted");
    let told = json_of(&http_get(address, path).expect("an answer"));
    assert_eq!(
        (&told["pods"], &told["counted"]),
        (&json!(3), &json!(4)),
        "{told:#}"
    );
    let nobodys = http_get(address, "/ui/jobs/default/b/failures").expect("an answer");
    assert!(nobodys.contains("not found"), "{nobodys}");
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_comes_with_its_facts() {
    let cluster = cluster(Duration::ZERO).await;
    let client = client(&cluster).await;
    let controller = listening_controller(&client, 1).await;
    let address = controller.listening().expect("it listens");
    let mut job = indexed_job("a", 12, 5);
    job["metadata"]["labels"] = json!({"kueue.x-k8s.io/queue-name": "batch"});
    job["spec"]["backoffLimitPerIndex"] = json!(0);
    job["spec"]["activeDeadlineSeconds"] = json!(600);
    let fails = json!({"sim.lakh.dev/fail-indexes": "2-4,7"});
    job["spec"]["template"]["metadata"] = json!({"annotations": fails});
    create(&client, &job).await;
    let stored = support::job_when(&client, "a", |job| support::is(job, "Failed")).await;
    let image = &stored["spec"]["template"]["spec"]["containers"][0]["image"];

    // The list, and the Job's own stream.
    let in_list = first_event_with(address, "/ui/jobs", "jobs", |told| {
        let job = told["new"].get(0)?;
        (job["result"] == "Failed").then(|| job.clone())
    });
    let alone = first_event_with(address, "/ui/jobs/default/a", "job", |told| {
        (told["job"]["result"] == "Failed").then(|| told["job"].clone())
    });
    for job in [&in_list, &alone] {
        assert_eq!(job["created"], stored["metadata"]["creationTimestamp"]);
        assert_eq!(job["started"], stored["status"]["startTime"]);
        assert!(job["ended"].is_string(), "{job:#}");
        assert_eq!(
            (&job["reason"], &job["verdict"]),
            (&json!("FailedIndexes"), &json!("Failed"))
        );
        assert_eq!(
            (&job["parallelism"], &job["indexed"], &job["perIndex"]),
            (&json!(5), &json!(true), &json!(true))
        );
        assert_eq!(job["failedIndexes"], 4, "{job:#}");
        assert_eq!(job["deleting"], false);
    }
    let conditions = alone["conditions"].as_array().expect("conditions");
    let failed = conditions.iter().find(|it| it["type"] == "Failed");
    let failed = failed.expect("it has failed");
    assert_eq!(failed["reason"], "FailedIndexes", "{failed:#}");
    assert!(failed["message"].is_string() && failed["since"].is_string());
    assert_eq!(alone["activeDeadlineSeconds"], 600);

    // Facts that only the API server has.
    let object = json_of(&http_get(address, "/ui/jobs/default/a/object").expect("an answer"));
    assert_eq!(&object["images"][0]["image"], image, "{object:#}");
    assert_eq!(
        (&object["queue"], &object["backoffLimitPerIndex"]),
        (&json!("batch"), &json!(0))
    );
    let cluster = json_of(&http_get(address, "/ui/cluster").expect("an answer"));
    assert!(
        cluster["version"].is_string() && cluster["now"].is_string(),
        "{cluster:#}"
    );
    assert_eq!(cluster["server"], client.url());
    controller.stop().await;
}

/// The first event of that name in which something is found.
fn first_event_with(
    address: SocketAddr,
    path: &str,
    name: &str,
    find: impl Fn(&Value) -> Option<Value>,
) -> Value {
    let mut events = Events::of(address, path);
    loop {
        if let Some(found) = find(&events.next(name)) {
            return found;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_job_without_indexes_are_listed_failed_first() {
    let cluster = cluster(Duration::ZERO).await;
    let client = client(&cluster).await;
    let controller = listening_controller(&client, 1).await;
    let address = controller.listening().expect("it listens");
    let mut failing = indexed_job("failing", 300, 300);
    failing["spec"]["completionMode"] = json!("NonIndexed");
    failing["spec"]["backoffLimit"] = json!(1_000);
    failing["spec"]["backoffLimitPerIndex"] = Value::Null;
    // They end together: once some have failed, new ones wait.
    let exits = json!({"sim.lakh.dev/exit-code": "3", "sim.lakh.dev/duration": "5s"});
    failing["spec"]["template"]["metadata"] = json!({"annotations": exits});
    let mut other = indexed_job("other", 3, 3);
    other["spec"]["completionMode"] = json!("NonIndexed");
    other["spec"]["template"]["metadata"] = json!({"annotations": {"sim.lakh.dev/duration": "1h"}});
    create(&client, &failing).await;
    create(&client, &other).await;
    let many_failed = |job: &Value| job["status"]["failed"].as_u64() > Some(100);
    support::job_when(&client, "failing", many_failed).await;
    support::job_when(&client, "other", |job| job["status"]["ready"] == 3).await;
    let read = |name: &str| {
        let path = format!("/ui/jobs/default/{name}/pods");
        let told = json_of(&http_get(address, &path).expect("an answer"));
        told["groups"].as_array().expect("groups").clone()
    };
    let groups = read("failing");
    let failed = &groups[0];
    assert_eq!(
        (&failed["name"], &failed["more"]),
        (&json!("failed"), &json!(true))
    );
    assert_eq!(failed["pods"].as_array().map(Vec::len), Some(100));
    let pod = &failed["pods"][0];
    assert_eq!(pod["containers"][0]["exitCode"], 3, "{pod:#}");
    let others = read("other");
    let names = others
        .iter()
        .flat_map(|group| group["pods"].as_array().expect("Pods"))
        .map(|pod| pod["name"].as_str().unwrap_or_default().to_owned());
    let names: Vec<String> = names.collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("other-")));
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cron_jobs_are_sent_with_their_next_runs() {
    for shards in [1, 2] {
        let cluster = cluster(Duration::ZERO).await;
        let client = client(&cluster).await;
        let controller = listening_controller(&client, shards).await;
        let address = controller.listening().expect("it listens");
        let mut told = Events::of(address, "/ui/jobs");
        assert_eq!(told.next("cronjobs")["new"], json!([]));
        let spec = json!({"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"});
        let cron_job = support::cron_job("nightly", [&spec, &json!({})]);
        let path = "/apis/batch/v1/namespaces/default/cronjobs";
        let made = client.create(path, cron_job.to_string()).await;
        made.expect("it is made");
        let seen = told.next("cronjobs");
        let seen = &seen["new"][0];
        assert_eq!(
            (&seen["name"], &seen["suspend"]),
            (&json!("nightly"), &json!(false))
        );
        assert_eq!(
            (&seen["concurrencyPolicy"], &seen["lastJob"]),
            (&json!("Allow"), &Value::Null)
        );
        assert!(seen["created"].is_string(), "{seen:#}");
        let runs = seen["next"].as_array().expect("runs");
        assert_eq!(runs.len(), 5, "{seen:#}");
        for run in runs {
            let run = run.as_str().expect("a time");
            assert!(
                run.ends_with("T00:30:00Z") || run.ends_with("T01:30:00Z"),
                "{run}"
            );
        }
        // A Job of it, and how it ends.
        let mut job = indexed_job("nightly-1", 1, 1);
        job["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly",
            "uid": seen["uid"], "controller": true,
        }]);
        create(&client, &job).await;
        loop {
            let seen = told.next("cronjobs");
            let last = &seen["new"][0]["lastJob"];
            assert_eq!(last["name"], "nightly-1", "{seen:#}");
            if last["result"] == "Complete" {
                break;
            }
        }
        let suspend = json!({"spec": {"suspend": true}}).to_string();
        let path = format!("{path}/nightly");
        let patched = client
            .patch(&path, Patch::Merge, suspend.into_bytes())
            .await;
        patched.expect("it is suspended");
        let seen = told.next("cronjobs");
        assert_eq!(
            (&seen["new"][0]["suspend"], &seen["new"][0]["next"]),
            (&json!(true), &json!([]))
        );
        client.delete(&path).await.expect("it is deleted");
        let seen = told.next("cronjobs");
        assert_eq!(seen["gone"].as_array().map(Vec::len), Some(1), "{seen:#}");
        controller.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_keep_probes_from_nothing() {
    /// As many as there may be of who asks from this machine (`STREAMS_HERE`).
    const PAGES: usize = 32;
    let cluster = cluster(Duration::ZERO).await;
    let client = client(&cluster).await;
    let controller = Controller::start(client.clone(), listening(Options::default()));
    let controller = controller.await.expect("it starts");
    controller.ready().await;
    let address = controller.listening().expect("it listens");
    tokio::task::block_in_place(|| {
        let mut pages: Vec<Events> = (0..PAGES)
            .map(|_| Events::of(address, "/ui/jobs"))
            .collect();
        for page in &mut pages {
            page.next("jobs");
        }
        let one_more = http_get(address, "/ui/jobs").expect("an answer");
        assert!(one_more.starts_with("HTTP/1.1 503 "), "{one_more}");
        // Twice as many as all connections that a probe may have to share.
        for path in ["/livez", "/readyz", "/metrics"].iter().cycle().take(130) {
            let begun = std::time::Instant::now();
            let answer = http_get(address, path).expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
            // What a kubelet waits if nothing else is set.
            assert!(begun.elapsed() < Duration::from_secs(1), "{path}");
        }
        // Nor do connections that say nothing take a page's place, or a probe's.
        let silent: Vec<TcpStream> = (0..70)
            .filter_map(|_| TcpStream::connect(address).ok())
            .collect();
        assert!(
            http_get(address, "/livez")
                .expect("an answer")
                .ends_with("ok")
        );
        drop(silent);
        let rt = tokio::runtime::Handle::current();
        rt.block_on(create(&client, &indexed_job("a", 1, 1)));
        for page in &mut pages {
            assert_eq!(page.next("jobs")["new"][0]["name"], "a");
        }
        // Whoever goes makes room.
        drop(pages);
        let begun = std::time::Instant::now();
        while !Events::of(address, "/ui/jobs").line().contains(" 200 ") {
            assert!(begun.elapsed() < Duration::from_secs(60), "no room again");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    controller.stop().await;
}

/// What `tests/python/ui.py` checks; it prints figures, and puts pictures into `docs/ui` if `LAKH_PICTURES` is set.
#[test]
#[ignore = "needs Chromium and a package index"]
fn in_a_browser() {
    let Some(browser) = chromium() else {
        return;
    };
    let Some(python) = python("ui-requirements.txt") else {
        return;
    };
    let output = Command::new(python)
        .arg(support::project("tests/python/ui.py"))
        .args([env!("CARGO_BIN_EXE_lakh"), browser])
        .output()
        .expect("Python runs");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
