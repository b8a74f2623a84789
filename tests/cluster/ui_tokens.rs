//! `/ui` for who comes from elsewhere: with a token that the API server knows, and no more than that user may list.
//!
//! The embedded API server has no roles, so a proxy in front of it answers reviews of access as its authorizer would.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use lakh::{
    client::{self, Client},
    clock::Clock,
    runtime::{CertificateFiles, Controller, Options, UiOptions},
};
use parking_lot::Mutex;
use pem::Pem;
use rcgen::{CertificateParams, Issuer, KeyPair};
use serde_json::{Value, json};

use crate::support::{
    self, get, indexed_job,
    proxy::{Fate, Proxy, answer, refusal},
};

/// What is reviewed, and what each may: who may list what, as `user resource namespace`, all namespaces being `*`.
#[derive(Clone, Default)]
struct Authorizer {
    tokens: Arc<Mutex<Vec<(&'static str, &'static str)>>>,
    rights: Arc<Mutex<BTreeSet<&'static str>>>,
    reviews: Arc<Mutex<Vec<String>>>,
    is_forbidden: Arc<Mutex<bool>>,
}

impl Authorizer {
    fn new(tokens: &[(&'static str, &'static str)], rights: &[&'static str]) -> Self {
        let new = Self::default();
        *new.tokens.lock() = tokens.to_vec();
        *new.rights.lock() = rights.iter().copied().collect();
        new
    }

    /// The answer to a review, if this is one.
    fn judge(&self, piece: &str) -> Fate {
        let line = piece.lines().next().unwrap_or_default();
        if !line.starts_with("POST ") || !line.contains("reviews ") {
            return Fate::Passed;
        }
        if *self.is_forbidden.lock() {
            let why = "tokenreviews is forbidden: User lakh cannot create resource tokenreviews";
            return Fate::Answered(refusal(403, "Forbidden", why));
        }
        let (_, body) = piece
            .split_once("\r\n\r\n")
            .expect("head and body are one piece");
        let mut review: Value = serde_json::from_str(body).expect("a review");
        let spec = &review["spec"];
        review["status"] = if line.contains("tokenreviews") {
            self.reviews.lock().push("token".to_owned());
            let tokens = self.tokens.lock();
            let user = tokens.iter().find(|(token, _)| spec["token"] == *token);
            match user {
                Some((_, name)) => {
                    json!({"authenticated": true, "user": {"username": name, "groups": ["g"], "extra": {"e": ["x"]}}})
                }
                None => json!({"authenticated": false, "error": "invalid bearer token"}),
            }
        } else {
            assert_eq!(
                (&spec["groups"], &spec["extra"]),
                (&json!(["g"]), &json!({"e": ["x"]}))
            );
            let asked = &spec["resourceAttributes"];
            assert_eq!(asked["verb"], "list");
            let namespace = asked["namespace"].as_str().expect("a namespace or none");
            let namespace = if namespace.is_empty() { "*" } else { namespace };
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let right = format!(
                "{} {} {namespace}",
                text(&spec["user"]),
                text(&asked["resource"])
            );
            let allowed = self.rights.lock().contains(right.as_str());
            self.reviews.lock().push(right);
            json!({"allowed": allowed})
        };
        Fate::Answered(answer(201, "", &review.to_string()))
    }
}

/// A controller over such a line, with Jobs `a` in team-a and `b` in team-b, and its page for others.
struct World {
    controller: Controller,
    page: SocketAddr,
    client: Client,
}

impl World {
    async fn start(authorizer: &Authorizer) -> (Self, impl Sized) {
        let cluster = support::cluster(Duration::ZERO).await;
        let client = support::client(&cluster).await;
        for (namespace, job) in [("team-a", "a"), ("team-b", "b")] {
            let body = json!({"metadata": {"name": namespace}}).to_string();
            client
                .create("/api/v1/namespaces", body)
                .await
                .expect("it is made");
            let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
            let body = indexed_job(job, 2, 2).to_string();
            client.create(&path, body).await.expect("it is made");
        }
        let authorizer = authorizer.clone();
        let line = Proxy::start(&cluster.url(), move |piece| authorizer.judge(piece)).await;
        let over = client::connect_url(&line.url()).await.expect("a client");
        let controller = Controller::start(over, with_page(None)).await;
        let controller = controller.expect("it starts");
        controller.ready().await;
        let page = controller.showing().expect("it is shown");
        let world = Self {
            controller,
            page,
            client,
        };
        (world, (cluster, line))
    }
}

fn with_page(certificate: Option<CertificateFiles>) -> Options {
    Options {
        ui: Some(UiOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            certificate,
        }),
        ..Options::default()
    }
}

/// Asks, with these headers; the answer, head and body.
fn ask(page: SocketAddr, line: &str, headers: &[&str], body: &str) -> (String, String) {
    tokio::task::block_in_place(|| {
        let mut stream = begin(page, line, headers, body);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
        (head.to_owned(), body.to_owned())
    })
}

fn begin(page: SocketAddr, line: &str, headers: &[&str], body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(page).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("it can be set");
    let headers: String = headers
        .iter()
        .map(|header| format!("{header}\r\n"))
        .collect();
    let length = body.len();
    // No name of this machine: the page is for others.
    let request = format!(
        "{line} HTTP/1.1\r\nHost: lakh.example\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("it is sent");
    stream
}

fn status(page: SocketAddr, path: &str, headers: &[&str]) -> u16 {
    let (head, _) = ask(page, &format!("GET {path}"), headers, "");
    let code = head.split(' ').nth(1).expect("a code");
    code.parse().expect("a number")
}

/// Events until this one; its data.
fn event(lines: &mut impl Iterator<Item = String>, name: &str) -> Value {
    let line = lines.find(|line| *line == format!("event: {name}"));
    assert!(line.is_some(), "no {name}");
    let data = lines.next().expect("data");
    serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON")
}

const ANN: &str = "Authorization: Bearer anns";
const OPS: &str = "Authorization: Bearer operators";

fn authorizer() -> Authorizer {
    Authorizer::new(
        &[("anns", "ann"), ("operators", "ops")],
        &[
            "ann jobs team-a",
            "ops jobs *",
            "ops pods *",
            "ops cronjobs *",
            "ops events *",
        ],
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn users_see_only_namespaces_they_may_list() {
    let authorizer = authorizer();
    let (world, _kept) = World::start(&authorizer).await;
    let page = world.page;
    for (path, stranger, ann, ops) in [
        ("/ui/viewer", 401, 200, 200),
        ("/ui/cluster", 401, 200, 200),
        ("/ui/jobs/team-a/a/object", 401, 200, 200),
        ("/ui/jobs/team-b/b/object", 401, 403, 200),
        ("/ui/jobs/team-a/a/pods", 401, 403, 200),
        ("/ui/jobs/team-b/b", 401, 403, 200),
        ("/ui/jobs/team-a/a/failures", 401, 403, 200),
        ("/ui/jobs/team-a/a/indexes/0", 401, 403, 200),
        ("/ui/jobs/team-b/b/failures", 401, 403, 200),
        ("/ui/nothing", 404, 404, 404),
    ] {
        assert_eq!(status(page, path, &[]), stranger, "{path}");
        assert_eq!(
            status(page, path, &["Authorization: Bearer nobodys"]),
            stranger,
            "{path}"
        );
        if path == "/ui/jobs/team-b/b" {
            // One that goes on does not end.
            assert_eq!(status(page, path, &[ANN]), ann, "{path}");
            continue;
        }
        assert_eq!(status(page, path, &[ANN]), ann, "{path}");
        assert_eq!(status(page, path, &[OPS]), ops, "{path}");
    }
    // The page itself has nothing of the cluster.
    assert_eq!(status(page, "/ui", &[]), 200);
    assert_eq!(
        status(page, "/metrics", &[OPS]),
        404,
        "it is no port for probes"
    );

    let names = |told: &Value| -> Vec<String> {
        let jobs = told["new"].as_array().expect("Jobs").iter();
        let mut names: Vec<String> = jobs
            .map(|job| job["name"].as_str().unwrap_or_default().to_owned())
            .collect();
        names.sort();
        names
    };
    let (of_ann, of_ops) = tokio::task::block_in_place(|| {
        let listen = |header: &str| {
            let stream = begin(page, "GET /ui/jobs", &[header], "");
            let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
            (event(&mut lines, "seen"), names(&event(&mut lines, "jobs")))
        };
        (listen(ANN), listen(OPS))
    });
    let seen = json!({"namespaces": ["team-a"], "areMany": false});
    assert_eq!((&of_ann.0["jobs"], of_ann.1), (&seen, vec!["a".to_owned()]));
    assert_eq!(
        (&of_ops.0["jobs"], of_ops.1),
        (&Value::Null, vec!["a".to_owned(), "b".to_owned()])
    );
    // Answers are kept for a while: none of all that was asked twice.
    let reviews = authorizer.reviews.lock().clone();
    let asked = |what: &str| reviews.iter().filter(|it| *it == what).count();
    assert!(
        asked("ops jobs *") <= 2 && asked("ann jobs team-b") <= 1,
        "{reviews:?}"
    );
    world.controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn event_texts_need_the_right_to_list_events() {
    let authorizer = authorizer();
    let (world, _kept) = World::start(&authorizer).await;
    let page = world.page;
    let warnings = |header: &'static str| {
        tokio::task::block_in_place(|| {
            let stream = begin(page, "GET /ui/jobs/team-a/a", &[header], "");
            let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
            event(&mut lines, "job")["job"]["warnings"].is_array()
        })
    };
    assert!(!warnings(ANN));
    assert!(warnings(OPS));
    // Nor does a refusal come with its message, in the list and alone.
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
        "spec": {"hard": {"pods": "0"}},
    });
    let namespace = "namespaces/team-a";
    let path = format!("/api/v1/{namespace}/resourcequotas");
    let made = world.client.create(&path, quota.to_string()).await;
    made.expect("a quota");
    let path = format!("/apis/batch/v1/{namespace}/jobs");
    let refused = indexed_job("refused", 2, 2).to_string();
    world.client.create(&path, refused).await.expect("a Job");
    let message = |path: &'static str, name: &'static str, header: &'static str| {
        tokio::task::block_in_place(|| {
            let stream = begin(page, path, &[header], "");
            let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
            loop {
                let told = event(&mut lines, name);
                let new = told["new"].as_array().into_iter().flatten();
                let mut jobs = new.chain([&told["job"]]);
                let of_it = jobs.find(|job| job["name"] == "refused");
                let blocked = of_it.map(|job| &job["blocked"]);
                if let Some(blocked) = blocked.filter(|it| it["by"] == "refusal") {
                    return blocked["message"].clone();
                }
            }
        })
    };
    for (path, name) in [
        ("GET /ui/jobs", "jobs"),
        ("GET /ui/jobs/team-a/refused", "job"),
    ] {
        assert_eq!(message(path, name, ANN), Value::Null, "{path}");
        let of_ops = message(path, name, OPS);
        let of_ops = of_ops.as_str().unwrap_or_default();
        assert!(of_ops.contains("exceeded quota: none"), "{path}: {of_ops}");
    }
    world.controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_right_or_token_ends_the_stream() {
    let authorizer = authorizer();
    let (world, _kept) = World::start(&authorizer).await;
    let page = world.page;
    tokio::task::block_in_place(|| {
        let follow = |path: &str, header: &str| {
            let stream = begin(page, &format!("GET {path}"), &[header], "");
            BufReader::new(stream).lines().map_while(Result::ok)
        };
        let mut of_ann = follow("/ui/jobs/team-a/a", ANN);
        let mut of_ops = follow("/ui/jobs", OPS);
        event(&mut of_ann, "job");
        event(&mut of_ops, "jobs");
        let begun = Instant::now();
        authorizer.rights.lock().remove("ann jobs team-a");
        authorizer
            .tokens
            .lock()
            .retain(|(token, _)| *token != "operators");
        let why = event(&mut of_ann, "refused");
        assert_eq!(why, "you may not list jobs.batch in namespace team-a");
        let why = event(&mut of_ops, "refused");
        assert!(
            why.as_str().is_some_and(|why| why.contains("token")),
            "{why}"
        );
        // What is believed is believed for 10 s, and looked at every second.
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert_eq!(
            of_ann.find(|line| line.starts_with("event")),
            None,
            "that is the end"
        );
    });
    assert_eq!(status(page, "/ui/viewer", &[OPS]), 401);
    world.controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_keeps_the_token_where_no_script_and_no_other_page_has_it() {
    let authorizer = authorizer();
    let (world, _kept) = World::start(&authorizer).await;
    let page = world.page;
    let json = "Content-Type: application/json";
    let log_in = |headers: &[&str], token: &str| {
        let body = json!({"token": token}).to_string();
        ask(page, "POST /ui/login", headers, &body)
    };
    let code = |answer: &(String, String)| answer.0.split(' ').nth(1).map(str::to_owned);
    let good = log_in(&[json, "Sec-Fetch-Site: same-origin"], "anns");
    assert_eq!(code(&good).as_deref(), Some("200"), "{good:?}");
    assert_eq!(good.1, r#"{"user":"ann"}"#);
    let cookie = "set-cookie: __Host-lakh-token=anns; Path=/; Secure; HttpOnly; SameSite=Strict";
    assert!(good.0.contains(cookie), "{good:?}");
    assert_eq!(
        status(page, "/ui/viewer", &["Cookie: __Host-lakh-token=anns"]),
        200
    );
    let (head, _) = ask(page, "POST /ui/logout", &[json], "{}");
    assert!(
        head.contains("__Host-lakh-token=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0"),
        "{head}"
    );

    for (headers, token, expected) in [
        (&[json][..], "nobodys", "401"),
        (&[json], "a b", "400"),
        (&[json], "a\r\nSet-Cookie: x=y", "400"),
        (&["Content-Type: text/plain"], "anns", "400"),
        (&[json, "Sec-Fetch-Site: cross-site"], "anns", "403"),
        (&[json, "Sec-Fetch-Site: same-site"], "anns", "403"),
    ] {
        let refused = log_in(headers, token);
        assert_eq!(
            code(&refused).as_deref(),
            Some(expected),
            "{headers:?} {token}: {refused:?}"
        );
        assert!(!refused.0.contains("set-cookie"), "{refused:?}");
    }
    assert_eq!(
        code(&log_in(&[json], &"x".repeat(5_000))).as_deref(),
        Some("400")
    );
    // Another page gets nothing, cookie or not; a link to the page works.
    let of_other = [
        "Cookie: __Host-lakh-token=anns",
        "Sec-Fetch-Site: cross-site",
    ];
    assert_eq!(status(page, "/ui/viewer", &of_other), 403);
    assert_eq!(status(page, "/ui", &of_other), 403);
    let visit = [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Mode: navigate",
        "Sec-Fetch-Dest: document",
    ];
    assert_eq!(status(page, "/ui", &visit), 200);
    assert_eq!(
        status(page, "/ui/viewer", &[&visit[..], &of_other[..1]].concat()),
        403
    );
    let (head, _) = ask(page, "GET /ui", &[], "");
    for header in [
        "frame-ancestors 'none'",
        "form-action 'none'",
        "x-frame-options: DENY",
        "nosniff",
        "no-store",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    world.controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_tokens_does_not_load_the_api_server() {
    let authorizer = authorizer();
    let (world, _kept) = World::start(&authorizer).await;
    let page = world.page;
    assert_eq!(status(page, "/ui/viewer", &[ANN]), 200);
    let before = authorizer.reviews.lock().len();
    let begun = Instant::now();
    let guesses = (0..200).map(|guess| {
        let header = format!("Authorization: Bearer guess-{guess}");
        status(page, "/ui/viewer", &[&header])
    });
    let guesses: Vec<u16> = guesses.collect();
    let seconds = begun.elapsed().as_secs() as usize + 1;
    let asked = authorizer.reviews.lock().len() - before;
    // As many as in each second that it took (`STRANGERS`).
    assert!(asked <= 20 * (seconds + 1), "{asked} in {seconds} s");
    assert!(
        guesses.iter().all(|code| [401, 429].contains(code)),
        "{guesses:?}"
    );
    assert!(seconds > 5 || guesses.contains(&429));
    // Who is known is not in their way, though its token may be asked about again.
    assert_eq!(status(page, "/ui/viewer", &[ANN]), 200);
    world.controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_ask_it_says_so() {
    let authorizer = authorizer();
    let (world, _kept) = World::start(&authorizer).await;
    *authorizer.is_forbidden.lock() = true;
    let (head, why) = ask(world.page, "GET /ui/viewer", &[ANN], "");
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    assert!(
        why.contains("lakh lacks the right to create tokenreviews"),
        "{why}"
    );
    // Nobody is shown anything for want of an answer.
    let job = get(&world.client, "/apis/batch/v1/namespaces/team-a/jobs/a").await;
    assert_eq!(job["metadata"]["name"], "a");
    assert_eq!(status(world.page, "/ui/jobs/team-a/a", &[ANN]), 502);
    world.controller.stop().await;
}

fn pem_of(kind: &str, der: &[u8]) -> String {
    pem::encode(&Pem::new(kind, der.to_vec()))
}

/// Writes a certificate for 127.0.0.1 and its key; the authority's, in PEM.
fn certify(folder: &Path) -> String {
    let authority_key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("good names");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).expect("it is signed");
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("good names");
    let certificate = params.signed_by(&key, &issuer).expect("it is signed");
    fs::write(
        folder.join("tls.crt"),
        pem_of("CERTIFICATE", certificate.der()),
    )
    .expect("it can be written");
    fs::write(
        folder.join("tls.key"),
        pem_of("PRIVATE KEY", &key.serialize_der()),
    )
    .expect("it can be written");
    pem_of("CERTIFICATE", authority.der())
}

fn ann() -> Value {
    json!({"user": "ann"})
}

/// As whom Ann is known at a page that must have a certificate of this authority; none if it has another.
async fn viewer(page: SocketAddr, authority: &str) -> Option<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config");
    fs::write(folder.path().join("ca.crt"), authority).expect("it can be written");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: x,
          clusters: [{{name: c, cluster: {{server: 'https://{page}', certificate-authority: ca.crt}}}}],
          users: [{{name: u, user: {{token: anns}}}}],
          contexts: [{{name: x, context: {{cluster: c, user: u}}}}]}}"
    );
    fs::write(&config, text).expect("it can be written");
    let browser = client::configure(Some(&config), None)
        .await
        .expect("a client");
    match browser.get("/ui/viewer").await {
        Ok(told) => Some(serde_json::from_slice(&told).expect("JSON")),
        Err(error) => {
            assert!(error.to_string().contains("certificate"), "{error}");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_used_for_new_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = certify(folder.path());
    let cluster = support::cluster(Duration::ZERO).await;
    let judge = authorizer();
    let line = Proxy::start(&cluster.url(), move |piece| judge.judge(piece)).await;
    let over = client::connect_url(&line.url()).await.expect("a client");
    let files = CertificateFiles {
        certificate: folder.path().join("tls.crt"),
        key: folder.path().join("tls.key"),
    };
    let clock = Clock::default();
    let options = Options {
        clock: clock.clone(),
        ..with_page(Some(files))
    };
    let controller = Controller::start(over, options).await;
    let controller = controller.expect("it starts");
    let page = controller.showing().expect("it is shown");
    // The files are read again once a minute (`READ_AGAIN`).
    let a_minute_passes = || clock.move_on_to(clock.now().wall + Duration::from_secs(61));
    assert_eq!(viewer(page, &first).await, Some(ann()));
    let second = certify(folder.path());
    a_minute_passes();
    assert_eq!(viewer(page, &second).await, Some(ann()));
    assert_eq!(viewer(page, &first).await, None);
    // What cannot be used, such as half of a pair, takes nothing away.
    fs::write(folder.path().join("tls.key"), "nothing").expect("it can be written");
    a_minute_passes();
    assert_eq!(viewer(page, &second).await, Some(ann()));
    let third = certify(folder.path());
    a_minute_passes();
    assert_eq!(viewer(page, &third).await, Some(ann()));
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_own_certificate_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = certify(folder.path());
    let cluster = support::cluster(Duration::ZERO).await;
    let authorizer = authorizer();
    let judge = authorizer.clone();
    let line = Proxy::start(&cluster.url(), move |piece| judge.judge(piece)).await;
    let over = client::connect_url(&line.url()).await.expect("a client");
    let files = CertificateFiles {
        certificate: folder.path().join("tls.crt"),
        key: folder.path().join("tls.key"),
    };
    let controller = Controller::start(over.clone(), with_page(Some(files))).await;
    let controller = controller.expect("it starts");
    let page = controller.showing().expect("it is shown");
    assert_eq!(viewer(page, &authority).await, Some(ann()));
    // Plain text is not answered.
    let spoken = tokio::task::block_in_place(|| {
        let mut stream = begin(page, "GET /ui", &[], "");
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        String::from_utf8_lossy(&answer).into_owned()
    });
    assert!(!spoken.contains("<html"), "{spoken}");
    controller.stop().await;
    fs::write(folder.path().join("tls.key"), "nothing").expect("it can be written");
    let files = CertificateFiles {
        certificate: folder.path().join("tls.crt"),
        key: folder.path().join("tls.key"),
    };
    let refused = Controller::start(over, with_page(Some(files))).await;
    let refused = refused.expect_err("it has no key").to_string();
    assert!(
        refused.contains("--ui-tls-private-key-file") && refused.contains("tls.key"),
        "{refused}"
    );
}

#[test]
fn tokens_do_not_go_over_the_network_in_plain_text_by_mistake() {
    let refuse = |more: &[&str]| {
        let args = [
            &[
                "controller",
                "--listen=127.0.0.1:0",
                "--ui-listen=127.0.0.1:0",
            ][..],
            more,
        ];
        let output = support::run(&args.concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refuse(&[]);
    assert!(said.contains("--ui-plain-http"), "{said}");
    let said = refuse(&["--ui-tls-cert-file=x"]);
    assert!(said.contains("--ui-tls-private-key-file"), "{said}");
}
