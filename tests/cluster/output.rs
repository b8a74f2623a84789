//! Tests closed and full outputs: without a reader, as in `lakh doctor | head -1`, each command ends quietly. A full
//! disk is reported.

use std::{
    fs::File,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use crate::support::{self, client, cluster, create, indexed_job, run};

/// The exit code that a shell shows for a command killed by SIGPIPE.
const CLOSED_PIPE: i32 = 128 + 13;

/// Returns the writing end of a pipe without a reader.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// Runs a command without a reader of its output, and of its errors if `is_deaf`.
fn run_unread(args: &[String], is_deaf: bool) -> Output {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut command = support::lakh(&args);
    command.stdin(Stdio::null()).stdout(closed_pipe());
    command.stderr(if is_deaf {
        closed_pipe()
    } else {
        Stdio::piped()
    });
    let child = command.spawn().expect("the binary runs");
    child.wait_with_output().expect("it ends")
}

/// Returns command lines, each with its exit code without a reader.
fn command_lines(config: &Path, folder: &Path) -> Vec<(Vec<String>, i32)> {
    let asking = |line: &str| format!("{line} --kubeconfig {}", config.display());
    let printing = [
        "--help".to_owned(),
        "help status".to_owned(),
        "--version".to_owned(),
        "version".to_owned(),
        asking("status main"),
        asking("status main -o wide"),
        asking("status main -o json"),
        asking("status main -o yaml"),
        asking("status main --watch"),
        asking("status main --watch -o json"),
        asking("why main"),
        asking("why main -o json"),
        asking("doctor --mode=replace"),
        asking("doctor --mode=replace -o json"),
        "cron next *|*|*|*|* --count 100000".to_owned(),
        "cron explain *|*|*|*|*".to_owned(),
        "completion bash".to_owned(),
        "local -f examples/pi.yaml --pod-duration 0s".to_owned(),
        "local -f examples/pi.yaml --pod-duration 0s -o json".to_owned(),
    ];
    let silent = [
        (format!("man {}", folder.join("man").display()), 0),
        // There is no terminal.
        (asking("top"), 2),
        ("controller --kubeconfig /nowhere/config".to_owned(), 2),
        ("local --timeout 1s".to_owned(), 0),
    ];
    let printing = printing.into_iter().map(|line| (line, CLOSED_PIPE));
    printing
        .chain(silent)
        .map(|(line, code)| {
            let words = line.split(' ').map(|word| word.replace('|', " "));
            (words.collect(), code)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_gone_ends_each_command_quietly() {
    let cluster = cluster(Duration::from_secs(36_000)).await;
    let client = client(&cluster).await;
    let (folder, config) = support::kubeconfig(&cluster);
    create(&client, &indexed_job("main", 3, 3)).await;
    let lines = command_lines(&config, folder.path());
    // No command is left out.
    let help = String::from_utf8(run(&["--help"]).stdout).expect("text");
    let (_, commands) = help.split_once("Commands:\n").expect("commands");
    let (commands, _) = commands.split_once("\n\n").expect("their end");
    let indented = commands.lines().filter_map(|line| line.strip_prefix("  "));
    for command in indented.filter_map(|line| line.split(' ').next()) {
        let is_tried = lines.iter().any(|(words, _)| words[0] == command);
        assert!(is_tried || command.is_empty(), "{command} is not tried");
    }
    for (words, code) in lines {
        for is_deaf in [false, true] {
            let tried = words.clone();
            let ended = tokio::task::spawn_blocking(move || run_unread(&tried, is_deaf));
            let ended = ended.await.expect("it runs");
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(ended.status.code(), Some(code), "{words:?}: {said}");
            assert!(!said.contains("panicked"), "{words:?}: {said}");
            assert!(!said.contains("Broken pipe"), "{words:?}: {said}");
        }
    }
    cluster.shutdown().await;
}

#[test]
fn a_full_disk_is_reported() {
    for line in [
        &["version"][..],
        &["completion", "zsh"],
        &["cron", "explain", "@daily"],
    ] {
        let full = File::options().write(true).open("/dev/full");
        let mut command = support::lakh(line);
        command
            .stdout(full.expect("Linux has it"))
            .stderr(Stdio::piped());
        let child = command.spawn().expect("the binary runs");
        let ended = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{line:?}: {said}");
        assert!(
            said.starts_with("lakh: standard output: No space left"),
            "{line:?}: {said}"
        );
    }
}
