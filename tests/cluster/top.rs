//! Runs `lakh top` as a process against the embedded cluster, with and without a terminal (tmux). The exact screens are
//! tested in `crates/inspect/src/top/tests`.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    self, client, cluster, create, indexed_job, is, job_when, kubectl,
    proxy::{Fate, Proxy, refusal},
    tmux::{self, Tmux},
};

/// Longer than any test, so that no Pod ends by itself.
const LONG: Duration = Duration::from_secs(36_000);

/// Returns an Indexed Job with this duration of its Pods.
fn lasting(name: &str, completions: u32, parallelism: u32, duration: &str) -> Value {
    let mut job = indexed_job(name, completions, parallelism);
    let plays = json!({"sim.lakh.dev/duration": duration});
    job["spec"]["template"]["metadata"]["annotations"] = plays;
    job
}

/// Returns true if a screen has foreground colours, by the parameters of `SGR` in ECMA-48.
fn has_colour(screen: &str) -> bool {
    let set = screen.split("\u{1b}[").skip(1);
    let set = set.filter_map(|rest| rest.split_once('m'));
    set.flat_map(|(set, _)| set.split(';'))
        .any(|one| matches!(one.parse(), Ok(30..=38_u8 | 90..=97)))
}

/// Checks that the terminal is restored, and that the view ended with this code.
async fn given_back(terminal: &Tmux, code: u8) {
    let screen = terminal.screen_with(&format!("ended with {code}")).await;
    assert!(screen.starts_with("on the shell\n"), "{screen}");
    assert!(!screen.contains("lakh top"), "{screen}");
    let modes = |screen: &str| screen.contains("icanon") && screen.contains("echo");
    terminal.screen_when("keys are echoed", modes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_seen_to_go_on() {
    if !tmux::is_installed() {
        return;
    }
    let cluster = cluster(LONG).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let controller = support::controller(&cluster).await;
    create(&client, &lasting("long", 40, 30, "10h")).await;
    job_when(&client, "long", |job| job["status"]["ready"] == 30).await;
    let terminal = Tmux::start(&tmux::script("", "top -A", &config), 80, 24);
    let screen = terminal.screen_with("> default/long").await;
    let lines: Vec<&str> = screen.lines().collect();
    assert!(
        lines[0].starts_with(" lakh top  all namespaces  http://"),
        "{screen}"
    );
    assert!(
        lines[1].starts_with("1 Job: 1 unfinished | by state"),
        "{screen}"
    );
    assert!(
        lines[5].contains(" running") && lines[5].contains(" 0/40 "),
        "{screen}"
    );
    assert!(lines[23].ends_with("q quit"), "{screen}");

    // A new Job appears at once, and so does its end.
    create(&client, &lasting("main", 30, 10, "4s")).await;
    terminal.screen_with("default/main").await;
    terminal.press(&["/", "m", "a", "i", "n", "Enter"]);
    terminal.screen_with("> default/main").await;
    terminal.press(&["Enter"]);
    let row = |letter: char| letter.to_string().repeat(10);
    let half = format!("{}{}", row('█'), row('▒'));
    let screen = terminal
        .screen_when("some indexes run", |screen| screen.contains(&half))
        .await;
    assert!(
        screen.starts_with(" lakh top  default/main  http://"),
        "{screen}"
    );
    let screen = terminal.screen_with("Complete after").await;
    assert!(screen.contains("30 of 30 succeeded (100 %)"), "{screen}");
    let all = format!("        0 {}", row('█').repeat(3));
    let screen = match screen.contains(&all) {
        true => screen,
        false => terminal.screen_with(&all).await,
    };
    assert!(
        screen.contains("one a cell | index 0: succeeded"),
        "{screen}"
    );
    terminal.screen_with("Completed: Job completed").await;

    // On a larger terminal the view shows more. Then back to all Jobs, and smaller again.
    terminal.resize(200, 60);
    let wide = |screen: &str| screen.lines().count() == 60 && screen.contains(&all);
    terminal
        .screen_when("it is as large as the terminal", wide)
        .await;
    // The view may be drawing just now.
    terminal.colours_when("it has colours", has_colour).await;
    terminal.press(&["Escape"]);
    let screen = terminal.screen_with("ENDED/S BY SECOND").await;
    assert_eq!(screen.lines().count(), 60, "{screen}");
    assert!(
        screen
            .lines()
            .nth(59)
            .is_some_and(|line| line.ends_with("q quit")),
        "{screen}"
    );
    terminal.resize(80, 24);
    // Until it is redrawn, the smaller terminal shows the last lines of the larger screen.
    let narrow = |screen: &str| {
        let last = screen.lines().nth(23);
        let is_whole = last.is_some_and(|line| line.ends_with("q quit"));
        is_whole && screen.starts_with(" lakh top  all namespaces")
    };
    let screen = terminal.screen_when("it is as small", narrow).await;
    assert!(!screen.contains("ENDED/S BY SECOND"), "{screen}");
    terminal.press(&["q"]);
    given_back(&terminal, 0).await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_shown_by_cause_without_colour() {
    if !tmux::is_installed() {
        return;
    }
    let cluster = cluster(Duration::from_millis(50)).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let controller = support::controller(&cluster).await;
    let mut job = lasting("bad", 500, 50, "50ms");
    let plays = &mut job["spec"]["template"]["metadata"]["annotations"];
    plays["sim.lakh.dev/fail-indexes"] = json!("7,123");
    plays["sim.lakh.dev/exit-code"] = json!("42");
    job["spec"]["backoffLimitPerIndex"] = json!(0);
    create(&client, &job).await;
    job_when(&client, "bad", |job| is(job, "Failed")).await;
    let script = tmux::script("NO_COLOR=1", "top", &config);
    let terminal = Tmux::start(&script, 80, 24);
    terminal.screen_with("> default/bad").await;
    terminal.press(&["Enter"]);
    let screen = terminal
        .screen_with("2 Pods of 2 indexes (7,123): exit code 42")
        .await;
    assert!(screen.contains("        0 ███████X██"), "{screen}");
    assert!(screen.contains("X 2 failed  █ 498 succeeded"), "{screen}");
    assert!(screen.contains("why       It is Failed"), "{screen}");
    terminal.press(&["x", "x"]);
    terminal.screen_with("index 123: failed").await;
    let colours = terminal.colours();
    assert!(!has_colour(&colours), "{colours}");
    // A signal ends it, and it restores the terminal, too.
    end(&config, "TERM");
    given_back(&terminal, 2).await;
    controller.stop().await;
    cluster.shutdown().await;
}

/// Sends a signal to the view with this kubeconfig.
fn end(config: &Path, signal: &str) {
    let pattern = format!("top --kubeconfig {}$", config.display());
    let found = Command::new("pgrep")
        .args(["-f", "-x", "--", &format!(".*lakh {pattern}")])
        .output();
    let found = String::from_utf8(found.expect("pgrep runs").stdout).expect("text");
    let pids: Vec<&str> = found.split_whitespace().collect();
    assert!(!pids.is_empty(), "no process: {pattern}");
    let status = Command::new("kill")
        .arg(format!("-{signal}"))
        .args(&pids)
        .status();
    assert!(status.expect("kill runs").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_and_missing_rights_are_shown_and_top_continues() {
    if !tmux::is_installed() {
        return;
    }
    let cluster = cluster(LONG).await;
    let client = client(&cluster).await;
    let is_allowed = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_allowed);
    let server = cluster.url();
    let line = Proxy::start(&server, move |_| match asked.load(Ordering::SeqCst) {
        true => Fate::Passed,
        false => Fate::Answered(refusal(403, "Forbidden", "User bob cannot list jobs")),
    });
    let line = line.await;
    let (_folder, config) = support::kubeconfig_of(&line.url());
    create(&client, &indexed_job("main", 2, 2)).await;
    let terminal = Tmux::start(&tmux::script("", "top", &config), 80, 24);
    let screen = terminal
        .screen_with("you may not list the Jobs of namespace default")
        .await;
    assert!(screen.contains("User bob cannot list jobs"), "{screen}");
    is_allowed.store(true, Ordering::SeqCst);
    let well = |screen: &str| screen.contains("> default/main") && !screen.contains("may not");
    terminal.screen_when("it is allowed by now", well).await;

    line.cut_while(async {
        let screen = terminal.screen_with("! no update since ").await;
        assert!(screen.contains("> default/main"), "{screen}");
        create(&client, &indexed_job("second", 2, 2)).await;
    })
    .await;
    let back = |screen: &str| screen.contains("default/second") && !screen.contains("no news");
    terminal.screen_when("it is back", back).await;
    terminal.press(&["C-c"]);
    given_back(&terminal, 0).await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn top_without_a_terminal_fails() {
    let cluster = cluster(LONG).await;
    let (folder, config) = support::kubeconfig(&cluster);
    let run = |mut command: Command| {
        let output = command.output().expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(output.stdout.is_empty());
        errors
    };
    let mut command = support::lakh(&["top", "--kubeconfig"]);
    command.arg(&config);
    assert!(run(command).contains("top needs a terminal"));
    let mut command = support::lakh(&["top", "-n", "a/b", "--kubeconfig"]);
    command.arg(&config);
    assert!(run(command).contains("--namespace a/b: must be a valid object name"));
    assert!(run(support::lakh(&["top", "-A", "-n", "a"])).contains("cannot be used with"));
    if kubectl::is_installed() {
        let plug_in = folder.path().join("kubectl-lakh");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lakh"), &plug_in).expect("a link");
        let mut command = Command::new("kubectl");
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", folder.path().display()));
        command.args(["lakh", "top"]).env("KUBECONFIG", &config);
        assert!(run(command).contains("top needs a terminal"));
    }
    cluster.shutdown().await;
}
