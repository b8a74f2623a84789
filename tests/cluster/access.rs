//! Tests `lakh local` with tokens and an audit log, also with fault injection.

use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use http_body_util::{BodyExt as _, Full};
use hyper_util::{client::legacy::Client as HttpClient, rt::TokioExecutor};
use lakh::{
    client::{self, Client},
    embedded::{ClusterOptions, EmbeddedCluster, ServeOptions, Users},
};
use serde_json::{Value, json};

use crate::support;

const TOKENS: &str = "secret,ann,1,\"system:masters\"\nguest,bob,2,\"readers\"\n";

/// A process that is killed with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().expect("SIGKILL");
        self.0.wait().expect("it ends");
    }
}

fn start(folder: &Path) -> Running {
    let path = |name: &str| folder.join(name).display().to_string();
    fs::write(folder.join("tokens"), TOKENS).expect("the file can be written");
    let child = support::lakh(&[
        "local",
        "--token-file",
        &path("tokens"),
        "--audit-log",
        &path("audit"),
        "--kubeconfig-out",
        &path("config"),
        "--pod-duration",
        "1ms",
    ])
    // The cluster is in the process, so no proxy is used for it.
    .env("HTTPS_PROXY", "http://127.0.0.1:9")
    .stdout(Stdio::null())
    .spawn()
    .expect("the binary runs");
    let running = Running(child);
    let start = Instant::now();
    let is_whole = |text: String| text.contains("current-context");
    while !fs::read_to_string(folder.join("config")).is_ok_and(is_whole) {
        assert!(start.elapsed() < Duration::from_secs(60), "no kubeconfig");
        std::thread::sleep(Duration::from_millis(20));
    }
    running
}

/// Sends a POST. Returns the code and the body of the response.
async fn ask(client: &Client, path: &str, body: &Value) -> (u16, Value) {
    let answer = client.post(path, body.to_string().into_bytes()).await;
    let (code, answer) = answer.expect("an answer");
    (code, serde_json::from_slice(&answer).expect("JSON"))
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_decide_the_rights() {
    const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
    const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let folder = tempfile::tempdir().expect("a folder");
    let running = start(folder.path());
    let config = folder.path().join("config");
    let text = fs::read_to_string(&config).expect("it is there");
    let as_somebody = |name: &str, token: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text.replace("secret", token)).expect("the file can be written");
        path
    };
    let master = client::connect(Some(&config), None)
        .await
        .expect("a client");
    let guest = as_somebody("guest", "guest");
    let guest = client::connect(Some(&guest), None).await.expect("a client");
    let stranger = as_somebody("stranger", "other");
    let refused = client::connect(Some(&stranger), None).await;
    let refused = refused.expect_err("nobody knows the token").to_string();
    assert!(refused.contains("Unauthorized"), "{refused}");

    let job = support::indexed_job("demo", 2, 2);
    assert_eq!(ask(&master, JOBS, &job).await.0, 201);
    support::job_when(&guest, "demo", |job| support::is(job, "Complete")).await;
    let (code, status) = ask(&guest, JOBS, &job).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "jobs.batch is forbidden: User \"bob\" cannot create resource \"jobs\" in API group \"batch\" in \
         the namespace \"default\""
    );
    for (client, verb, allowed) in [
        (&guest, "list", true),
        (&guest, "create", false),
        (&master, "create", true),
    ] {
        let asked =
            json!({"namespace": "default", "verb": verb, "group": "batch", "resource": "jobs"});
        let review = json!({"spec": {"resourceAttributes": asked}});
        let (code, answer) = ask(client, REVIEWS, &review).await;
        assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(allowed)));
    }
    let deleted = guest.delete(&format!("{JOBS}/demo")).await;
    assert_eq!(deleted.err().map(|error| error.code), Some(403));
    drop(running);

    let log = fs::read_to_string(folder.path().join("audit")).expect("the log is there");
    let lines = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let lines: Vec<Value> = lines.collect();
    let refused: Vec<&Value> = lines
        .iter()
        .filter(|line| line["verb"] == "delete" && line["user"]["username"] == "bob")
        .collect();
    let [refused] = refused.as_slice() else {
        panic!("one deletion: {refused:?}")
    };
    assert_eq!(refused["responseStatus"]["code"], 403);
    assert_eq!(refused["stage"], "ResponseComplete");
    assert_eq!(refused["level"], "Metadata");
    assert_eq!(refused["objectRef"]["apiGroup"], "batch");
    assert_eq!(refused["objectRef"]["name"], "demo");
    assert_eq!(refused["user"]["groups"][0], "readers");
    let agent = refused["userAgent"].as_str().unwrap_or_default();
    assert!(agent.starts_with("cluster-"), "{agent}");
    let created = lines.iter().filter(|line| {
        let object = &line["objectRef"];
        line["verb"] == "create"
            && object["resource"] == "jobs"
            && line["user"]["username"] == "ann"
    });
    let codes: Vec<&Value> = created
        .map(|line| &line["responseStatus"]["code"])
        .collect();
    assert_eq!(codes, [201]);
    assert!(lines.iter().any(|line| line["stage"] == "ResponseStarted"));
    assert!(
        lines
            .iter()
            .any(|line| line["responseStatus"]["code"] == 401)
    );
    assert!(!log.contains("secret"), "tokens are nobody's business");
}

/// Sends one request with this token, or with none. Returns the code and the body; `None` if the connection broke. It
/// never retries.
async fn call(
    cluster: &EmbeddedCluster,
    token: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Option<(u16, Value)> {
    let mut request = hyper::Request::builder()
        .method(method)
        .uri(format!("{}{path}", cluster.url()))
        .header("content-type", "application/json");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let body = Full::new(bytes::Bytes::from(body.to_string()));
    let request = request.body(body).expect("a good request");
    let client = HttpClient::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build_http();
    let response = client.request(request).await.ok()?;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.ok()?.to_bytes();
    Some((code, serde_json::from_slice(&bytes).unwrap_or_default()))
}

async fn guarded(audit_log: Option<&Path>) -> EmbeddedCluster {
    let options = ClusterOptions {
        server: ServeOptions {
            users: Some(Users::read(TOKENS).expect("good tokens")),
            audit_log: audit_log.map(Path::to_owned),
            ..ServeOptions::default()
        },
        ..ClusterOptions::default()
    };
    EmbeddedCluster::start(options).await.expect("a free port")
}

const FAULTS: &str = "/lakh/faults";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread")]
async fn only_administrators_may_inject_faults() {
    let cluster = guarded(None).await;
    let rules = json!({"seed": 5, "rules": [{"fault": "refuse", "code": 503, "verbs": ["list"]}]});
    for (token, expected) in [("other", 401), ("", 403), ("guest", 403)] {
        for method in ["GET", "PUT", "DELETE"] {
            let (code, status) = call(&cluster, token, method, FAULTS, &rules)
                .await
                .expect("an answer");
            assert_eq!(code, expected, "{token} {method}: {status}");
            assert_eq!(status["kind"], "Status");
        }
    }
    let (code, shown) = call(&cluster, "secret", "GET", FAULTS, &Value::Null)
        .await
        .expect("an answer");
    assert_eq!(
        (code, &shown["rules"]),
        (200, &json!([])),
        "nobody has set any"
    );
    let (code, _) = call(&cluster, "secret", "PUT", FAULTS, &rules)
        .await
        .expect("an answer");
    assert_eq!(code, 200);
    for (token, expected) in [("guest", 503), ("secret", 503)] {
        let (code, _) = call(&cluster, token, "GET", MAPS, &Value::Null)
            .await
            .expect("an answer");
        assert_eq!(code, expected, "{token}");
    }
    let (code, _) = call(&cluster, "guest", "DELETE", FAULTS, &Value::Null)
        .await
        .expect("an answer");
    assert_eq!(code, 403);
    let (code, _) = call(&cluster, "secret", "DELETE", FAULTS, &Value::Null)
        .await
        .expect("an answer");
    assert_eq!(code, 200);
    for (token, expected) in [("guest", 200), ("other", 401), ("", 403)] {
        for path in [MAPS, "/metrics"] {
            let (code, _) = call(&cluster, token, "GET", path, &Value::Null)
                .await
                .expect("an answer");
            assert_eq!(code, expected, "{token} {path}");
        }
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_do_not_open_the_gate_and_are_in_the_audit_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("audit");
    let cluster = guarded(Some(&log)).await;
    let map = |name: &str| json!({"metadata": {"name": name}});
    let (mut answers, mut refusals) = (Vec::new(), Vec::new());
    for (name, fault) in [
        ("refused", json!({"fault": "refuse", "code": 503})),
        ("late", json!({"fault": "timeout-after", "delay": "1ms"})),
        ("lost", json!({"fault": "drop-after"})),
        ("unheard", json!({"fault": "drop-before"})),
        ("slow", json!({"fault": "latency", "delay": "1ms"})),
    ] {
        let rules = json!({"seed": 5, "rules": [fault]});
        let (code, shown) = call(&cluster, "secret", "PUT", FAULTS, &rules)
            .await
            .expect("an answer");
        assert_eq!(code, 200, "{shown}");
        let answer = call(&cluster, "secret", "POST", MAPS, &map(name)).await;
        answers.push(answer.map(|(code, _)| code));
        let guest = call(&cluster, "guest", "POST", MAPS, &map("mine")).await;
        refusals.push(guest.map(|(code, _)| code));
    }
    assert_eq!(answers, [Some(503), Some(504), None, None, Some(201)]);
    assert_eq!(refusals, [Some(503), Some(504), None, None, Some(403)]);
    let (_, maps) = call(&cluster, "guest", "GET", MAPS, &Value::Null)
        .await
        .expect("an answer");
    let maps = maps["items"].as_array().expect("a list");
    let names: Vec<&str> = maps
        .iter()
        .filter_map(|map| map["metadata"]["name"].as_str())
        .collect();
    assert!(
        ["late", "lost", "slow"]
            .iter()
            .all(|name| names.contains(name)),
        "{names:?}"
    );
    assert!(
        !names.contains(&"mine") && !names.contains(&"unheard"),
        "{names:?}"
    );
    cluster.shutdown().await;

    let text = fs::read_to_string(&log).expect("the log is there");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let lines: Vec<Value> = lines.collect();
    let codes = |user: &str, uri: &str, verb: &str| -> Vec<u64> {
        let lines = lines.iter().filter(|line| {
            line["user"]["username"] == user && line["requestURI"] == uri && line["verb"] == verb
        });
        lines
            .filter_map(|line| line["responseStatus"]["code"].as_u64())
            .collect()
    };
    // The log has each executed request, even if its client got another response. It has no request that never arrived.
    assert_eq!(codes("ann", MAPS, "create"), [503, 201, 201, 201]);
    assert_eq!(codes("bob", MAPS, "create"), [503, 403, 403, 403]);
    assert_eq!(codes("ann", FAULTS, "put"), [200; 5]);
}

#[test]
fn a_bad_token_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens");
    let said = || {
        let output = support::run(&["local", "--token-file", &path.display().to_string()]);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let name = path.display().to_string();
    let missing = said();
    assert!(
        missing.contains(&name) && missing.contains("No such file"),
        "{missing}"
    );
    fs::write(&path, "a,b,c\nd\n").expect("the file can be written");
    let wrong = said();
    assert!(wrong.contains(&name) && wrong.contains("line 2"), "{wrong}");
}
