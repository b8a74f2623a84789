//! `lakh local` as a user meets it: the examples, the exit codes, and what it says of bad input.

use std::{fs, process::Output};

use serde_json::Value;

use crate::support::{self, run, run_with_input};

const ALWAYS: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: busybox}]
";

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a manifest and checks that it is refused: exit code 2, nothing printed, and each of the
/// words said.
fn check_refused(manifest: &str, words: &[&str]) {
    let output = run_with_input(&["local", "-f", "-", "--timeout", "20s"], manifest);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}\n{manifest}");
    assert!(output.stdout.is_empty(), "a summary of nothing");
    for word in words.iter().chain(&["standard input"]) {
        assert!(said.contains(word), "no {word:?} in\n{said}");
    }
}

/// The same Job with a line of its spec added or replaced.
fn with(spec: &str) -> String {
    ALWAYS.replace(
        "spec:\n  template:",
        &format!("spec:\n  {spec}\n  template:"),
    )
}

#[test]
fn every_example_ends_as_it_says() {
    let mut examples: Vec<_> = fs::read_dir(support::project("examples"))
        .expect("there are examples")
        .map(|entry| entry.expect("an entry can be read").path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    examples.sort();
    assert!(examples.len() >= 19);
    std::thread::scope(|scope| {
        for path in &examples {
            scope.spawn(move || {
                let text = fs::read_to_string(path).expect("an example can be read");
                let header = |what: &str| text.lines().find_map(|line| line.strip_prefix(what));
                let ends = header("# ends: ").expect("an example says how it ends");
                let flags = header("# with: ").unwrap_or_default();
                let path = path.display().to_string();
                // One that waits for somebody does not end.
                let timeout = if ends == "Suspended" { "3s" } else { "100s" };
                // Waits between failed Pods are shortened; all else is as a user would have it.
                let mut args = vec!["local", "-f", &path, "--output", "json"];
                args.extend(["--pod-duration", "100ms"]);
                args.extend(["--pod-failure-backoff-base", "200ms"]);
                args.extend(["--timeout", timeout]);
                args.extend(flags.split_whitespace());
                let output = run(&args);
                let said = stderr(&output);
                assert_eq!(
                    output.status.code(),
                    Some(i32::from(ends != "Complete")),
                    "{path}\n{said}"
                );
                let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
                let jobs = summary["jobs"].as_array().expect("a list of Jobs");
                assert!(!jobs.is_empty());
                for job in jobs {
                    if ends == "Suspended" {
                        assert_eq!(job["result"], "Unfinished", "{path}");
                        assert!(support::is(job, "Suspended"), "{path}");
                        continue;
                    }
                    assert_eq!(job["result"], ends, "{path}");
                    assert!(job["wallSeconds"].as_f64().is_some());
                    assert!(job["status"]["startTime"].is_string(), "the whole status");
                }
            });
        }
    });
}

#[test]
fn several_files_and_documents_are_one_run() {
    let two = format!(
        "{ALWAYS}---\n{}",
        ALWAYS.replace("{name: j}", "{name: k, namespace: ml}")
    );
    let output = run_with_input(
        &[
            "local",
            "-f",
            "-",
            "-f",
            "examples/pi.yaml",
            "--pod-duration",
            "0s",
            "--output",
            "json",
        ],
        &two,
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names: Vec<String> = summary["jobs"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|job| format!("{}/{}", job["namespace"], job["name"]).replace('"', ""))
        .collect();
    assert_eq!(names, ["default/j", "ml/k", "default/pi"]);
}

#[test]
fn a_failed_job_and_a_timeout_exit_with_1() {
    let failing = with("backoffLimit: 0");
    let output = run_with_input(
        &[
            "local",
            "-f",
            "-",
            "--pod-duration",
            "0s",
            "--pod-exit-code",
            "3",
        ],
        &failing,
    );
    assert_eq!(output.status.code(), Some(1));
    let summary = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        summary.contains("BackoffLimitExceeded: Job has reached the specified backoff limit"),
        "{summary}"
    );

    let output = run_with_input(
        &[
            "local",
            "-f",
            "-",
            "--pod-duration",
            "1h",
            "--timeout",
            "500ms",
        ],
        ALWAYS,
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the time ran out"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("Unfinished"));
}

#[test]
fn what_is_no_manifest_is_refused() {
    check_refused("a: [", &["document 1"]);
    check_refused("just words", &["document 1", "must be an object"]);
    check_refused(&format!("{ALWAYS}---\nkind: ["), &["document 2"]);
    check_refused("", &["there is no Job in it"]);
    check_refused(
        &ALWAYS.replace("kind: Job", "kind: Jobb"),
        &["document 1", "kind", "Jobb"],
    );
    check_refused(
        &ALWAYS.replace("batch/v1", "batch/v2"),
        &["document 1", "apiVersion", "batch/v2"],
    );
    check_refused(
        &ALWAYS.replace("metadata: {name: j}", ""),
        &["document 1", "metadata"],
    );
}

#[test]
fn a_bad_field_is_named() {
    let job = "Job j";
    check_refused(
        &with("parallelism: -1"),
        &[
            job,
            "spec.parallelism",
            "must be greater than or equal to 0",
        ],
    );
    check_refused(
        &ALWAYS.replace("Never", "Always"),
        &[
            job,
            "spec.template.spec.restartPolicy",
            "\"OnFailure\", \"Never\"",
        ],
    );
    check_refused(
        &with("completions: \"5\""),
        &[job, "spec.completions", "string"],
    );
    check_refused(
        &with("parallelsim: 5"),
        &[job, "unknown field", "spec.parallelsim"],
    );
    check_refused(
        &with("completionMode: Indexed\n  parallelism: 2"),
        &[
            job,
            "spec.completions",
            "Required value",
            "when completion mode is Indexed",
        ],
    );
    check_refused(
        &with("backoffLimitPerIndex: 1"),
        &[
            job,
            "spec.backoffLimitPerIndex",
            "requires indexed completion mode",
        ],
    );
    // A later document's mistake keeps the earlier ones from running.
    check_refused(
        &format!("{ALWAYS}---\n{}", with("parallelism: -1")),
        &["document 2", "spec.parallelism"],
    );
}

#[test]
fn files_and_contexts_that_are_not_there() {
    let output = run(&["local", "-f", "examples/nowhere.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("examples/nowhere.yaml"),
        "{}",
        stderr(&output)
    );

    let output = run(&["controller", "--kubeconfig", "/nowhere/config"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("/nowhere/config"),
        "{}",
        stderr(&output)
    );

    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let config = folder.path().join("config");
    fs::write(&config, KUBECONFIG_TO_NOWHERE).expect("it can be written");
    let config = config.display().to_string();
    let output = run(&["controller", "--kubeconfig", &config, "--context", "other"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("other"), "{}", stderr(&output));
}

#[test]
fn flags_that_make_no_sense_exit_with_2() {
    for args in [
        ["local", "--pod-duration", "soon"],
        ["local", "--pod-fail-rate", "2"],
        ["local", "--max-in-flight", "0"],
        ["local", "--terminated-pod-gc-threshold", "few"],
        ["controller", "--qps", "-1"],
        ["controller", "--mode", "both"],
        ["local", "--managed-by-name", "lakh"],
        ["local", "--managed-by-name", "kubernetes.io/job-controller"],
        // Without the mode, the name would be of no use and all other Jobs be taken.
        ["controller", "--managed-by-name", "lakh.dev/job-controller"],
    ] {
        let output = run(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(args[1]), "{args:?}");
    }
}

const KUBECONFIG_TO_NOWHERE: &str = "
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
";

#[test]
fn a_controller_that_is_none_is_named() {
    for command in ["local", "controller"] {
        let output = run(&[command, "--controllers", "job,*,-pod"]);
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        let want = "unknown controller \"-pod\"; there are job, cronjob, ttl";
        assert!(said.contains(want), "{said}");
    }
}
