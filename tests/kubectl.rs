//! A Job's life as its user sees it: kubectl against `lakh local`.

#![cfg(feature = "runtime")]
#![allow(
    clippy::print_stderr,
    reason = "whoever runs it learns that it was skipped"
)]

mod support;

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// `lakh local`, serving; ended when dropped.
struct Serving {
    child: Child,
    kubeconfig: PathBuf,
    _folder: tempfile::TempDir,
}

impl Serving {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let kubeconfig = folder.path().join("config");
        let path = kubeconfig.display().to_string();
        let child = support::lakh(&["local", "--kubeconfig-out", &path])
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let started = Instant::now();
        while !kubeconfig.exists() {
            assert!(started.elapsed() < Duration::from_secs(10), "no kubeconfig");
            thread::sleep(Duration::from_millis(20));
        }
        Self {
            child,
            kubeconfig,
            _folder: folder,
        }
    }

    /// Runs kubectl, which must succeed; what it printed.
    fn kubectl(&self, args: &[&str]) -> String {
        let output = kubectl(&self.kubeconfig, args)
            .output()
            .expect("kubectl runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {args:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kubectl(kubeconfig: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(kubeconfig).args(args);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

fn check(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in\n{text}");
    }
}

#[test]
fn a_job_from_apply_to_delete() {
    if Command::new("kubectl")
        .arg("version")
        .arg("--client")
        .output()
        .is_err()
    {
        eprintln!("skipped: there is no kubectl");
        return;
    }
    let cluster = Serving::start();
    check(
        &cluster.kubectl(&["apply", "-f", "examples/indexed.yaml"]),
        &["job.batch/indexed created"],
    );
    let watched = kubectl(
        &cluster.kubeconfig,
        &["get", "pods", "-w", "--request-timeout=3s"],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::null())
    .spawn()
    .expect("kubectl runs");
    cluster.kubectl(&[
        "wait",
        "--for=condition=complete",
        "job/indexed",
        "--timeout=30s",
    ]);
    check(
        &cluster.kubectl(&["get", "jobs"]),
        &["STATUS", "COMPLETIONS", "indexed", "Complete", "10/10"],
    );
    let pods = cluster.kubectl(&["get", "pods"]);
    assert_eq!(pods.matches("Completed").count(), 10, "{pods}");
    let described = cluster.kubectl(&["describe", "job", "indexed"]);
    check(
        &described,
        &[
            "Completed Indexes:  0-9",
            "10 Succeeded / 0 Failed",
            "SuccessfulCreate",
            "Job completed",
        ],
    );
    let watched = watched.wait_with_output().expect("it ends by itself");
    check(
        &String::from_utf8_lossy(&watched.stdout),
        &["indexed-0-", "indexed-9-", "Completed"],
    );

    check(
        &cluster.kubectl(&["delete", "job", "indexed"]),
        &["\"indexed\" deleted"],
    );
    let started = Instant::now();
    while !cluster.kubectl(&["get", "pods", "-o", "name"]).is_empty() {
        assert!(started.elapsed() < Duration::from_secs(10), "Pods are left");
        thread::sleep(Duration::from_millis(100));
    }
}
