//! Tests that a command without a cluster prints one line: where it looked, and how to name a cluster.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{
    self, Running, cluster, kubeconfig_of,
    proxy::{Fate, Proxy, refusal},
};

/// Commands that query a cluster.
const ASKING: [&[&str]; 3] = [&["status", "main"], &["why", "main"], &["doctor"]];

/// Returns the only line of an error.
#[track_caller]
fn line(command: &mut Command) -> String {
    let ended = command.output().expect("the binary runs");
    let said = String::from_utf8(ended.stderr).expect("text");
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

fn without_files(args: &[&str], home: &Path) -> Command {
    let mut command = support::lakh(args);
    command.env("HOME", home);
    command.env_remove("KUBERNETES_SERVICE_HOST");
    command
}

#[test]
fn a_kubeconfig_that_is_not_there_or_is_none() {
    let home = tempfile::tempdir().expect("a folder");
    let garbage = home.path().join("garbage");
    fs::write(&garbage, "hello: [\n  world\nmore\n").expect("it can be written");
    let empty = home.path().join("empty");
    fs::write(&empty, "apiVersion: v1\nkind: Config\n").expect("it can be written");
    let garbage = garbage.display().to_string();
    let empty = empty.display().to_string();
    for args in ASKING {
        let said = line(&mut without_files(args, home.path()));
        let usual = home.path().join(".kube/config").display().to_string();
        for words in [
            "KUBECONFIG is not set",
            usual.as_str(),
            "export KUBECONFIG=FILE",
            "lakh local",
        ] {
            assert!(said.contains(words), "no {words:?} in {said}");
        }
        for (file, words) in [
            ("/nowhere/config", "there is no such file"),
            (garbage.as_str(), "it is no kubeconfig"),
            (empty.as_str(), "it has no current-context"),
        ] {
            let said = line(without_files(args, home.path()).env("KUBECONFIG", file));
            let named = format!("kubeconfig {file} (of KUBECONFIG): ");
            for words in [named.as_str(), words, "export KUBECONFIG=FILE"] {
                assert!(said.contains(words), "no {words:?} in {said}");
            }
        }
        let named = [args, &["--kubeconfig", "/nowhere/config"]].concat();
        let said = line(&mut without_files(&named, home.path()));
        let words = "kubeconfig /nowhere/config: No such file or directory";
        assert!(said.contains(words), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_the_server_does_not_know() {
    let cluster = cluster(std::time::Duration::from_secs(1)).await;
    let url = cluster.url();
    let refusing = Proxy::start(&url, |_| {
        Fate::Answered(refusal(401, "Unauthorized", "Unauthorized"))
    });
    let refusing = refusing.await;
    let (_folder, config) = kubeconfig_of(&refusing.url());
    for args in ASKING {
        let mut command = support::lakh(args);
        command.arg("--kubeconfig").arg(&config);
        let said = tokio::task::block_in_place(|| line(&mut command));
        for words in [
            "Unauthorized; the API server does not accept these credentials",
            "renew the token",
            "--context",
        ] {
            assert!(said.contains(words), "no {words:?} in {said}");
        }
    }
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_is_reported_while_it_is_waited_for() {
    let cluster = cluster(std::time::Duration::from_secs(1)).await;
    let silent = Proxy::start(&cluster.url(), |_| Fate::Held).await;
    let (_folder, config) = kubeconfig_of(&silent.url());
    for args in ASKING {
        let mut command = support::lakh(args);
        command.arg("--kubeconfig").arg(&config);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut asking = Running(command.spawn().expect("the binary runs"));
        let errors = asking.0.stderr.take().expect("it is piped");
        let mut said = String::new();
        tokio::task::block_in_place(|| BufReader::new(errors).read_line(&mut said)).expect("text");
        let words = "for 5s; still waiting";
        assert!(said.contains(words), "{said}");
    }
    cluster.shutdown().await;
}
