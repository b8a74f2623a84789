//! Tests the responses to liveness and readiness probes.

use std::{
    fs::File,
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use lakh::{
    client,
    embedded::{ClusterOptions, EmbeddedCluster, ServeOptions},
    runtime::Controller,
};

use crate::support::{
    self, Running, http_get, listening, options,
    proxy::{Fate, Proxy},
};

/// Longest wait for a response, or for the end.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn it_lives_before_it_is_ready() {
    let cluster = support::cluster(Duration::ZERO).await;
    let proxy = Proxy::start(&cluster.url(), |_| Fate::Passed).await;
    let client = client::connect_url(&proxy.url())
        .await
        .expect("the line is good");
    proxy.freeze(true);
    let started = Controller::start(client, listening(options())).await;
    let controller = started.expect("a port");
    let address = controller.listening().expect("it listens");
    let status = |path: &str| {
        let answer = tokio::task::block_in_place(|| http_get(address, path)).expect("an answer");
        answer.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(status("/livez"), "HTTP/1.1 200 OK");
    assert_eq!(status("/readyz"), "HTTP/1.1 503 Service Unavailable");
    assert_eq!(status("/elsewhere"), "HTTP/1.1 404 Not Found");
    proxy.freeze(false);
    controller.ready().await;
    assert_eq!(status("/readyz"), "HTTP/1.1 200 OK");
    controller.stop().await;
    cluster.shutdown().await;
}

/// Returns an address that was free a moment ago.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it has an address")
}

/// Returns the response at a path with its headers, if it comes in time.
fn ask(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: lakh\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Repeats a request until the condition holds of the response.
fn ask_until(address: SocketAddr, path: &str, holds: impl Fn(&str) -> bool) -> String {
    let started = Instant::now();
    loop {
        let answer = ask(address, path).unwrap_or_default();
        if holds(&answer) {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "{path}: {answer}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn is_ok(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ")
}

/// Starts a controller as a process by a shell, after the words `before`. Its log is lost.
fn start(before: &str, kubeconfig: &Path, address: SocketAddr) -> Running {
    let child = Command::new("sh")
        .args(["-c", &format!("{before} exec \"$0\" \"$@\"")])
        .arg(env!("CARGO_BIN_EXE_lakh"))
        .args(["controller", "--mode=replace", "--kubeconfig"])
        .arg(kubeconfig)
        .args(["--listen", &address.to_string()])
        .stderr(File::create("/dev/full").expect("this is Linux"))
        .spawn();
    Running(child.expect("there is a shell"))
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_do_not_block_others() {
    const HALF_OPEN: usize = 1100;
    let cluster = support::cluster(Duration::from_millis(50)).await;
    let (_folder, kubeconfig) = support::kubeconfig(&cluster);
    let client = support::client(&cluster).await;
    let address = free_address();
    let _running = start("ulimit -n 512;", &kubeconfig, address);
    tokio::task::block_in_place(|| ask_until(address, "/readyz", is_ok));
    let silent = tokio::task::block_in_place(|| {
        let opened = (0..HALF_OPEN).filter_map(|_| {
            let mut stream =
                TcpStream::connect_timeout(&address, Duration::from_millis(100)).ok()?;
            stream.write_all(b"GET /livez HT").ok()?;
            Some(stream)
        });
        let silent: Vec<TcpStream> = opened.collect();
        let answer = ask(address, "/livez").unwrap_or_default();
        assert!(is_ok(&answer), "{answer}");
        silent
    });
    support::create(&client, &support::indexed_job("few", 20, 20)).await;
    support::job_when(&client, "few", |job| support::is(job, "Complete")).await;
    tokio::task::block_in_place(|| {
        let answer = ask(address, "/livez").unwrap_or_default();
        assert!(is_ok(&answer), "{answer}");
        // In the end no connection is left.
        for mut stream in silent {
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            match stream.read(&mut [0; 512]) {
                Ok(0) => {}
                Ok(_) => panic!("nobody asked for anything"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
            }
        }
    });
    cluster.shutdown().await;
}

/// Probes are answered all the time, and all Pods are counted and released.
#[tokio::test(flavor = "multi_thread")]
async fn few_descriptors_stop_neither_probes_nor_writes() {
    let cluster = support::cluster(Duration::from_millis(50)).await;
    let (_folder, kubeconfig) = support::kubeconfig(&cluster);
    let client = support::client(&cluster).await;
    let address = free_address();
    let running = start("ulimit -n 64;", &kubeconfig, address);
    tokio::task::block_in_place(|| ask_until(address, "/readyz", is_ok));
    let is_over = Arc::new(AtomicBool::new(false));
    let prober = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let mut answered = 0;
            while !is_over.load(Ordering::SeqCst) {
                let answer = ask(address, "/livez").unwrap_or_default();
                assert!(is_ok(&answer), "{answer}");
                answered += 1;
                thread::sleep(Duration::from_millis(20));
            }
            answered
        }
    });
    support::create(&client, &support::indexed_job("wide", 600, 200)).await;
    support::job_when(&client, "wide", |job| support::is(job, "Complete")).await;
    loop {
        let pods = support::pods(&client).await;
        if !pods.iter().any(support::is_held) {
            support::check_pods_of_complete_job(&pods, 600);
            break;
        }
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", running.0.id())).expect("it runs");
    assert!(open.count() < 64);
    is_over.store(true, Ordering::SeqCst);
    let answered = prober.join().expect("each probe was answered");
    assert!(answered > 0);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_on_open_files_is_raised() {
    let cluster = support::cluster(Duration::ZERO).await;
    let (_folder, kubeconfig) = support::kubeconfig(&cluster);
    let address = free_address();
    let running = start("ulimit -Sn 300;", &kubeconfig, address);
    tokio::task::block_in_place(|| ask_until(address, "/readyz", is_ok));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.0.id()));
    let limits = limits.expect("this is Linux");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let words: Vec<&str> = line.expect("a limit").split_whitespace().collect();
    assert_eq!(words[3], words[4], "soft and hard");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_yet_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("config");
    let server = free_address();
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: x,
          clusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}], users: [{{name: u, user: {{}}}}],
          contexts: [{{name: x, context: {{cluster: c, user: u}}}}]}}"
    );
    std::fs::write(&kubeconfig, text).expect("it can be written");
    let address = free_address();
    let mut running = start("", &kubeconfig, address);
    tokio::task::block_in_place(|| {
        ask_until(address, "/livez", is_ok);
        let why = format!(
            "[-]caches failed: no complete list of cronjobs, jobs, pods: API server http://{server}/: "
        );
        let answer = ask_until(address, "/readyz", |answer| answer.contains(&why));
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("refused"), "{answer}");
    });
    let options = ClusterOptions {
        server: ServeOptions {
            port: server.port(),
            ..ServeOptions::default()
        },
        ..ClusterOptions::default()
    };
    let cluster = EmbeddedCluster::start(options).await.expect("it is free");
    tokio::task::block_in_place(|| ask_until(address, "/readyz", is_ok));
    let ended = running.0.try_wait().expect("it can be waited for");
    assert_eq!(ended, None);
    cluster.shutdown().await;
}

/// Errors that waiting cannot cure are reported at once.
#[test]
fn invalid_files_fail_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing");
    let missing = missing.display();
    for (cluster, user) in [
        ("", format!("tokenFile: {missing}")),
        (
            "",
            format!("client-certificate: {missing}, client-key: {missing}"),
        ),
        (
            "",
            format!(
                "exec: {{apiVersion: client.authentication.k8s.io/v1, command: {missing}, interactiveMode: Never}}"
            ),
        ),
        (", certificate-authority: missing", String::new()),
        ("nonsense", String::new()),
    ] {
        let kubeconfig = folder.path().join("config");
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: x,
              clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'{cluster}}}}}],
              users: [{{name: u, user: {{{user}}}}}],
              contexts: [{{name: x, context: {{cluster: c, user: u}}}}]}}"
        );
        std::fs::write(&kubeconfig, text).expect("it can be written");
        let kubeconfig = kubeconfig.display().to_string();
        let args = ["controller", "--kubeconfig", &kubeconfig];
        let output = support::run(&[&args[..], &["--listen", "127.0.0.1:0"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(cluster == "nonsense" || said.contains("missing"), "{said}");
    }
}
