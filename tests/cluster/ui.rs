//! `/ui`: the page of a controller. What it is told over HTTP, whom it is for; and the whole of it in a browser.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

use lakh::runtime::{Controller, Options};
use serde_json::{Value, json};

use crate::support::{
    self, client, cluster, create, http_get, indexed_job, listening, python::python,
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
async fn a_page_hears_of_jobs_and_indexes_as_they_change() {
    for shards in [1, 2] {
        let cluster = cluster(Duration::from_secs(1)).await;
        let client = client(&cluster).await;
        let options = listening(Options {
            shards,
            ..Options::default()
        });
        let controller = Controller::start(client.clone(), options);
        let controller = controller.await.expect("it starts");
        let address = controller.listening().expect("it listens");
        let mut jobs = Events::of(address, "/ui/jobs");
        assert_eq!(jobs.next("jobs"), json!({"jobs": [], "gone": []}));
        let mut one = Events::of(address, "/ui/jobs/default/a");
        assert_eq!(one.next("gone"), Value::Null);

        create(&client, &indexed_job("a", 4, 2)).await;
        let told = jobs.next("jobs");
        assert_eq!(told["jobs"][0]["name"], "a", "{told:#}");
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
async fn nobody_may_frame_it_or_ask_from_another_page() {
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
    for path in ["/ui", "/ui/page.js", "/ui/page.css", "/ui/jobs"] {
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

/// What `tests/python/ui.py` checks; it prints figures, and puts pictures into `docs/ui` if `LAKH_PICTURES` is set.
#[test]
#[ignore = "needs Chromium and a package index"]
fn in_a_browser() {
    let browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
    let Some(browser) = browsers.into_iter().find(|path| Path::new(path).exists()) else {
        println!("skipped: there is no {}", browsers.join(" or "));
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
