//! Runs the real kubectl.

#![allow(clippy::print_stdout, reason = "a test that was left out must say so")]

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use lakh::embedded::serve::{self, ServeOptions};

/// Returns true if kubectl is installed.
pub fn is_installed() -> bool {
    Command::new("kubectl")
        .args(["version", "--client"])
        .output()
        .is_ok()
}

/// Runs `session` against an API server of its own, if kubectl is installed.
pub async fn with_kubectl(session: fn(&Kubectl<'_>)) {
    if !is_installed() {
        println!("kubectl is not installed: skipped");
        return;
    }
    let server = serve::start(ServeOptions {
        seed: 1,
        ..ServeOptions::default()
    });
    let server = server.await.expect("a port is free");
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config");
    std::fs::write(&config, server.kubeconfig()).expect("a file");
    tokio::task::spawn_blocking(move || session(&Kubectl { config: &config }))
        .await
        .expect("the session ends well");
    server.shutdown().await;
}

/// kubectl with a kubeconfig.
pub struct Kubectl<'a> {
    /// Path of the kubeconfig.
    pub config: &'a Path,
}

impl Kubectl<'_> {
    /// Runs a command.
    pub fn run(&self, arguments: &str, input: &str) -> Output {
        let mut child = Command::new("kubectl")
            .args(arguments.split_whitespace())
            .env("KUBECONFIG", self.config)
            .env("HOME", self.config.parent().expect("a file is in a folder"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        child
            .stdin
            .take()
            .expect("it is piped")
            .write_all(input.as_bytes())
            .expect("kubectl reads its input");
        child.wait_with_output().expect("kubectl ends")
    }

    /// Runs a command that must succeed with all of `expected` in its output.
    #[track_caller]
    pub fn check(&self, arguments: &str, input: &str, expected: &[&str]) -> String {
        let output = self.run(arguments, input);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "kubectl {arguments}: {text}{errors}"
        );
        for part in expected {
            assert!(
                text.contains(part),
                "kubectl {arguments}: no {part:?} in:\n{text}{errors}"
            );
        }
        text
    }

    /// Runs a command that must fail with `expected` in its error output.
    #[track_caller]
    pub fn refuse(&self, arguments: &str, input: &str, expected: &str) {
        let output = self.run(arguments, input);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "kubectl {arguments} succeeded");
        assert!(errors.contains(expected), "kubectl {arguments}: {errors}");
    }

    /// Runs `kubectl diff`, which must find all of `expected`.
    #[track_caller]
    pub fn differs(&self, arguments: &str, input: &str, expected: &[&str]) {
        let output = self.run(arguments, input);
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}{errors}");
        for part in expected {
            assert!(text.contains(part), "no {part:?} in:\n{text}{errors}");
        }
    }
}
