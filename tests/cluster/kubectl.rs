//! Tests a Job's life as its user sees it: kubectl against `lakh local`.

use std::{
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::support::{self, serving::Serving};

/// Returns a kubectl command for a cluster, in the project's folder.
fn command(cluster: &Serving, args: &[&str]) -> Command {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(cluster.kubeconfig());
    command.args(args);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// Runs kubectl, which must succeed. Returns its output.
fn kubectl(cluster: &Serving, args: &[&str]) -> String {
    let output = command(cluster, args).output().expect("kubectl runs");
    succeeded(args, &output)
}

fn succeeded(args: &[&str], output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "kubectl {args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn check(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in\n{text}");
    }
}

/// Waits until the condition holds of the number of Pods.
fn pods_when(cluster: &Serving, args: &[&str], holds: impl Fn(usize) -> bool) {
    let started = Instant::now();
    let args = [&["get", "pods", "-o", "name"], args].concat();
    loop {
        let pods = kubectl(cluster, &args);
        if holds(pods.lines().count()) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{pods}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_job_from_apply_to_delete() {
    if !support::kubectl::is_installed() {
        return;
    }
    let cluster = Serving::start();
    check(
        &kubectl(&cluster, &["apply", "-f", "examples/indexed.yaml"]),
        &["job.batch/indexed created"],
    );
    let watched = command(&cluster, &["get", "pods", "-w", "--request-timeout=3s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("kubectl runs");
    kubectl(
        &cluster,
        &[
            "wait",
            "--for=condition=complete",
            "job/indexed",
            "--timeout=30s",
        ],
    );
    check(
        &kubectl(&cluster, &["get", "jobs"]),
        &["STATUS", "COMPLETIONS", "indexed", "Complete", "10/10"],
    );
    let pods = kubectl(&cluster, &["get", "pods"]);
    assert_eq!(pods.matches("Completed").count(), 10, "{pods}");
    let described = kubectl(&cluster, &["describe", "job", "indexed"]);
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
        &kubectl(&cluster, &["delete", "job", "indexed"]),
        &["\"indexed\" deleted"],
    );
    pods_when(&cluster, &[], |pods| pods == 0);
}

#[test]
fn a_job_is_changed_while_it_runs() {
    if !support::kubectl::is_installed() {
        return;
    }
    let cluster = Serving::start();
    let run = |args: &[&str]| kubectl(&cluster, args);
    run(&["create", "-f", "tests/fixtures/long-job.yaml"]);
    pods_when(
        &cluster,
        &["--field-selector=status.phase=Running"],
        |pods| pods == 2,
    );
    check(
        &run(&["get", "pods", "-o", "wide"]),
        &["NODE", "1/1", "Running"],
    );
    let logs = run(&["logs", "job/long"]);
    check(&logs, &["ran on"]);
    check(
        &run(&["logs", "-l", "job-name=long", "--prefix"]),
        &["[pod/long-", "ran on"],
    );

    // Jobs have no scale subresource: users patch or edit them.
    run(&[
        "patch",
        "job",
        "long",
        "-p",
        r#"{"spec":{"parallelism":4}}"#,
    ]);
    pods_when(
        &cluster,
        &["--field-selector=status.phase=Running"],
        |pods| pods == 4,
    );
    let mut edit = command(&cluster, &["edit", "job", "long"]);
    edit.env("KUBE_EDITOR", "sed -i 's/parallelism: 4/parallelism: 1/'");
    let edited = edit.output().expect("kubectl runs");
    check(&succeeded(&["edit"], &edited), &["job.batch/long edited"]);
    pods_when(
        &cluster,
        &["--field-selector=status.phase=Running"],
        |pods| pods == 1,
    );
    run(&[
        "patch",
        "job",
        "long",
        "--type=merge",
        "-p",
        r#"{"spec":{"suspend":true}}"#,
    ]);
    run(&[
        "wait",
        "--for=condition=suspended",
        "job/long",
        "--timeout=20s",
    ]);
    pods_when(&cluster, &[], |pods| pods == 0);
    check(&run(&["get", "jobs"]), &["long", "Suspended", "0/8"]);

    run(&[
        "patch",
        "job",
        "long",
        "--type=json",
        "-p",
        r#"[{"op":"replace","path":"/spec/suspend","value":false}]"#,
    ]);
    pods_when(&cluster, &[], |pods| pods == 1);
    run(&["delete", "job", "long", "--cascade=orphan"]);
    pods_when(&cluster, &[], |pods| pods == 1);
    run(&["delete", "pods", "--all", "--now"]);
    for cascade in ["background", "foreground"] {
        run(&["create", "-f", "tests/fixtures/long-job.yaml"]);
        pods_when(&cluster, &[], |pods| pods == 2);
        run(&["delete", "job", "long", &format!("--cascade={cascade}")]);
        if cascade == "foreground" {
            // The Job existed until its Pods had gone.
            assert_eq!(run(&["get", "pods", "-o", "name"]), "");
        }
        pods_when(&cluster, &[], |pods| pods == 0);
    }
    check(&run(&["events"]), &["SuccessfulCreate", "Job/long"]);
}
