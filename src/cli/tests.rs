//! Checks how the process ends when a loop of the controller fails. The command line runs as a child process, in a
//! build that can inject the failure.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use clap::Parser as _;

use crate::{
    clock::instant,
    embedded::{ClusterOptions, EmbeddedCluster},
    runtime::poison,
};

use super::args::Args;

/// The arguments of the command line, one a line.
const ARGUMENTS: &str = "LAKH_ARGUMENTS";

const PATIENCE: Duration = Duration::from_secs(60);

/// The process that the tests here start: without arguments from them it does nothing.
#[test]
#[ignore = "for the tests beside it"]
fn as_a_process() {
    if let Ok(arguments) = std::env::var(ARGUMENTS) {
        let code = super::run(Args::parse_from(arguments.lines()));
        std::process::exit(code.into());
    }
}

fn start(arguments: &[&str], poison: &str) -> Child {
    let myself = std::env::current_exe().expect("a test is a binary");
    Command::new(myself)
        .args(["--exact", "cli::tests::as_a_process"])
        .args(["--ignored", "--nocapture"])
        .env(ARGUMENTS, format!("lakh\n{}", arguments.join("\n")))
        .env(poison::VARIABLE, poison)
        .env_remove("KUBECONFIG")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started")
}

/// Waits for its end; returns the exit code and the last line of standard error.
fn end(mut child: Child) -> (Option<i32>, String) {
    let started = instant();
    while child.try_wait().expect("it can be waited for").is_none() {
        if started.elapsed() > PATIENCE {
            child.kill().expect("it can be killed");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("it has ended");
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default().to_owned();
    (output.status.code(), last)
}

const PANICKED: &str =
    "lakh: poisoned loop panicked: it was poisoned; the controller cannot continue without it";
const ENDED: &str = "lakh: poisoned loop ended; the controller cannot continue without it";

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_with_a_loop_less_ends_with_1() {
    let cluster = EmbeddedCluster::start(ClusterOptions::default());
    let cluster = cluster.await.expect("a free port");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config");
    cluster.write_kubeconfig(&path).expect("it can be written");
    let config = path.display().to_string();
    let arguments = ["controller", "--kubeconfig", &config];
    let arguments = [&arguments[..], &["--listen", "127.0.0.1:0"]].concat();
    for (poison, said) in [("panics", PANICKED), ("ends", ENDED)] {
        let ended = tokio::task::block_in_place(|| end(start(&arguments, poison)));
        assert_eq!(ended, (Some(1), said.to_owned()));
    }
    cluster.shutdown().await;
}

#[test]
fn a_local_run_with_a_loop_less_ends_with_1() {
    for (poison, said) in [("panics", PANICKED), ("ends", ENDED)] {
        assert_eq!(end(start(&["local"], poison)), (Some(1), said.to_owned()));
    }
}

/// Returns the answer at a path, and true if its status is 200.
fn ask(address: &str, path: &str) -> Option<(bool, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: lakh\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some((answer.contains(" 200 OK"), answer))
}

/// Starts the command with a loop that gets stuck; returns it and its address for probes.
fn start_stuck(command: &str, config: &str) -> (Child, String) {
    // A port that was free just now.
    let port = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = port.local_addr().expect("it has an address").to_string();
    drop(port);
    let of_controller = ["--kubeconfig", config];
    let more = match command {
        "controller" => &of_controller[..],
        _ => &[],
    };
    let arguments = [&[command, "--listen", &address], more].concat();
    (start(&arguments, "is stuck"), address)
}

#[test]
fn a_loop_that_is_stuck_fails_livez_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config");
    // No server listens there, so the controller waits.
    let text = "{apiVersion: v1, kind: Config, current-context: x,
      clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}],
      contexts: [{name: x, context: {cluster: c, user: u}}]}";
    std::fs::write(&config, text).expect("it can be written");
    let config = config.display().to_string();
    // Both at once: it takes ten seconds until their loops count as stuck.
    let started = instant();
    let commands = ["local", "controller"].map(|command| (command, start_stuck(command, &config)));
    for (_, (_, address)) in &commands {
        let mut lives = None;
        while lives.is_none() && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(100));
            lives = ask(address, "/livez");
        }
        let (lives, said) = lives.expect("it answers");
        assert!(lives, "it was well at first: {said}");
    }
    for (command, (mut child, address)) in commands {
        let mut seen = Vec::new();
        let said = loop {
            match ask(&address, "/livez") {
                // The runtime's timers may stand still, too, and be noticed a look before the loop.
                Some((false, said)) if said.contains("poisoned loop is stuck") => break Some(said),
                _ if started.elapsed() > PATIENCE => break None,
                other => seen.extend(other),
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let said = said.unwrap_or_else(|| panic!("{command}: {seen:?}"));
        assert!(said.contains("[-]loops failed: "), "{said}");
    }
}
