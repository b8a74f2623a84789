//! Tests `lakh status --watch`: lines as the Job goes on, and exit codes at its end.

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};

use crate::support::{
    self, client, cluster, create, indexed_job, job_when,
    proxy::{Fate, Proxy, refusal},
    tmux::{self, Tmux},
};

use super::{LONG, output, playing, stderr, stdout};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_followed_to_its_end() {
    let cluster = cluster(Duration::from_millis(700)).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let controller = support::controller(&cluster).await;
    create(&client, &indexed_job("good", 6, 2)).await;
    let mut bad = playing(
        indexed_job("bad", 4, 2),
        &json!({"fail-indexes": "1", "exit-code": "7"}),
    );
    bad["spec"]["backoffLimitPerIndex"] = json!(0);
    create(&client, &bad).await;
    let args = |job| ["status", job, "--watch", "--timeout", "100s"];
    let (good_args, bad_args) = (args("good"), args("bad"));
    let (good, bad) = tokio::join!(output(&config, &good_args), output(&config, &bad_args));

    assert_eq!(good.status.code(), Some(0), "{}", stderr(&good));
    let text = stdout(&good);
    let progress: Vec<u32> = text
        .lines()
        .filter_map(|line| line.strip_prefix("default/good: "))
        .filter_map(|line| line.split_once(" of 6 succeeded"))
        .filter_map(|(succeeded, _)| succeeded.parse().ok())
        .collect();
    assert!(progress.len() >= 2 && progress.is_sorted(), "{text}");
    assert!(text.contains("default/good: Complete after "), "{text}");
    assert!(!text.contains('\x1b'), "{text}");

    assert_eq!(bad.status.code(), Some(1), "{}", stderr(&bad));
    let text = stdout(&bad);
    assert!(text.contains("1 Pod of 1 index (1): exit code 7"), "{text}");

    // A finished Job is reported at once.
    let ended = output(&config, &["status", "good", "--watch", "-o", "json"]).await;
    assert_eq!(ended.status.code(), Some(0));
    let lines: Vec<Value> = stdout(&ended)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["state"], "complete");
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_may_run_out_and_the_job_be_deleted() {
    let cluster = cluster(LONG).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    create(&client, &indexed_job("main", 1, 1)).await;
    let ended = output(
        &config,
        &["status", "main", "--watch", "--timeout", "300ms"],
    )
    .await;
    assert_eq!(ended.status.code(), Some(124), "{}", stderr(&ended));
    assert!(stderr(&ended).contains("Job default/main did not finish within 300ms"));

    let mut command = support::lakh(&["status", "main", "--watch", "-o", "json"]);
    command.arg("--kubeconfig").arg(&config);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the binary runs");
    // Wait for the watch to start: a Job that was deleted before is reported as not found.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let path = "/apis/batch/v1/namespaces/default/jobs/main";
    client.delete(path).await.expect("it is there");
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output());
    let ended = ended.await.expect("no panic").expect("it ends");
    assert_eq!(ended.status.code(), Some(1), "{}", stderr(&ended));
    assert!(
        stderr(&ended).contains("was deleted before it finished"),
        "{}",
        stderr(&ended)
    );
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_watch_status_polls() {
    let cluster = cluster(Duration::from_secs(1)).await;
    let client = client(&cluster).await;
    let controller = support::controller(&cluster).await;
    let server = cluster.url();
    let line = Proxy::start(&server, |request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        match path.contains("watch=true") {
            true => Fate::Answered(refusal(403, "Forbidden", "User bob cannot watch it")),
            false => Fate::Passed,
        }
    });
    let line = line.await;
    let (_folder, config) = support::kubeconfig_of(&line.url());
    create(&client, &indexed_job("main", 2, 1)).await;
    job_when(&client, "main", |job| job["status"]["active"] == 1).await;
    let ended = output(&config, &["status", "main", "-w", "--timeout", "100s"]).await;
    assert_eq!(ended.status.code(), Some(0), "{}", stderr(&ended));
    assert!(
        stdout(&ended).contains("2 of 2 succeeded"),
        "{}",
        stdout(&ended)
    );
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_it_is_redrawn_in_place() {
    if !tmux::is_installed() {
        return;
    }
    let cluster = cluster(Duration::from_millis(1_500)).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let controller = support::controller(&cluster).await;
    create(&client, &indexed_job("main", 9, 3)).await;
    // On the second terminal the lines are too long: they are cut, and still redrawn in place.
    let start = |width| Tmux::start(&tmux::script("", "status main --watch", &config), width, 24);
    let terminals = [start(80), start(30)];
    let times = |screen: &str| screen.matches("default/main: ").count();
    let some = |screen: &str| {
        let mut counts = (1..9).map(|count| format!(" {count} of 9 succeeded"));
        counts.any(|words| screen.contains(&words))
    };
    let screen = terminals[0].screen_when("some of it has succeeded", some);
    let screen = screen.await;
    let begin = "on the shell\ndefault/main: running";
    assert!(screen.starts_with(begin), "{screen}");
    assert_eq!(times(&screen), 1, "{screen}");
    assert!(screen.contains("\n  Pods       3 active"), "{screen}");
    for terminal in terminals {
        let screen = terminal.screen_with("ended with 0").await;
        let end = "on the shell\ndefault/main: Complete after ";
        assert!(screen.starts_with(end), "{screen}");
        assert_eq!(times(&screen), 1, "{screen}");
        let screen = terminal.screen_with("icanon").await;
        assert!(screen.contains("echo"), "{screen}");
    }
    controller.stop().await;
    cluster.shutdown().await;
}
