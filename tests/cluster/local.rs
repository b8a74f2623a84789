//! Tests `lakh local` as a user runs it: the examples, the exit codes, and the errors about bad input.

use std::{fs, process::Output};

use serde_json::Value;

use crate::support::{self, http_get, run, run_with_input, serving::Serving};

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

/// Runs a manifest that must be refused: exit code 2, no output, and an error with each of the words.
fn check_refused(manifest: &str, words: &[&str]) {
    let output = run_with_input(&["local", "-f", "-", "--timeout", "20s"], manifest);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}\n{manifest}");
    assert!(output.stdout.is_empty(), "a summary of nothing");
    for word in words.iter().chain(&["standard input"]) {
        assert!(said.contains(word), "no {word:?} in\n{said}");
    }
}

/// Returns the same Job with a line of its spec added or replaced.
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
                // An example that waits for a user does not end.
                let timeout = if ends == "Suspended" { "3s" } else { "100s" };
                // Backoffs after failed Pods are shortened; other settings are a user's.
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
fn invalid_manifests_are_refused() {
    check_refused("a: [", &["document 1"]);
    check_refused("just words", &["document 1", "must be an object"]);
    check_refused(&format!("{ALWAYS}---\nkind: ["), &["document 2"]);
    check_refused("", &["no Job found"]);
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
    // An error in a later document keeps the earlier ones from running.
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
        ["local", "--managed-by-name", "lakh.dev/job-controller"],
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

/// Runs a manifest until the timeout. Returns its output and its errors.
fn run_out_of_time(manifest: &str, flags: &[&str]) -> (String, String) {
    let args = ["local", "-f", "-", "--timeout", "6s"];
    let output = run_with_input(&[&args, flags].concat(), manifest);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    (printed, stderr(&output))
}

#[test]
fn a_job_that_stands_still_says_why() {
    const QUOTA: &str = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, \
        spec: {hard: {pods: \"0\"}}}\n---";
    let check = |manifest: &str, flags: &[&str], words: &str| {
        let (printed, said) = run_out_of_time(manifest, flags);
        // Both during the run, and at its end.
        assert!(printed.contains(words), "no {words:?} in\n{printed}");
        assert!(said.contains(words), "no {words:?} in\n{said}");
        assert!(said.contains("the time ran out"), "{said}");
        assert!(
            !said.contains(" s left"),
            "an end that nobody knows: {said}"
        );
    };
    let big = ALWAYS.replace(
        "image: busybox",
        "image: busybox, resources: {requests: {cpu: 8}}",
    );
    let quota = format!("{QUOTA}{ALWAYS}");
    let fails = ["--pod-exit-code", "3", "--pod-duration", "0s"];
    std::thread::scope(|scope| {
        for (manifest, flags, words) in [
            (with("suspend: true"), &[][..], "suspended (spec.suspend)"),
            (
                ALWAYS.to_owned(),
                &["--controllers=-job"],
                "(--controllers)",
            ),
            (
                ALWAYS.to_owned(),
                &["--namespace", "other"],
                "(--namespace)",
            ),
            (big, &["--node-capacity", "cpu=1"], "Insufficient cpu"),
            (quota, &[], "exceeded quota: q"),
            (ALWAYS.to_owned(), &fails, "backoff until"),
        ] {
            scope.spawn(move || check(&manifest, flags, words));
        }
    });
}

#[test]
fn failed_indexes_are_listed_with_their_causes() {
    let spec = "completionMode: Indexed\n  completions: 4\n  parallelism: 4\n  \
                backoffLimitPerIndex: 0";
    let fails = "template:\n    metadata: {annotations: {sim.lakh.dev/fail-indexes: \"1,3\", \
                 sim.lakh.dev/exit-code: \"42\"}}";
    let manifest = with(spec).replace("template:", fails);
    let run = |flags: &[&str]| {
        let args = [
            "local",
            "-f",
            "-",
            "--pod-duration",
            "0s",
            "--timeout",
            "60s",
        ];
        let output = run_with_input(&[&args, flags].concat(), &manifest);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let printed = run(&[]);
    assert!(printed.contains("failed indexes: 1,3"), "{printed}");
    let ends = "2 Pods of index 1,3: exit code 42";
    assert!(printed.contains(ends), "{printed}");
    let summary: Value = serde_json::from_str(&run(&["-o", "json"])).expect("JSON");
    assert_eq!(summary["jobs"][0]["failures"], serde_json::json!([ends]));
}

#[test]
fn a_cron_job_alone_is_checked() {
    const CRON_JOB: &str = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: c}
spec:
  schedule: 30 2 * * *
  timeZone: America/New_York
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: busybox}]
";
    let output = run_with_input(&["local", "-f", "-"], CRON_JOB);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for words in [
        "CronJob default/c: at 02:30",
        "next at 2",
        "nothing was run",
    ] {
        assert!(said.contains(words), "no {words:?} in\n{said}");
    }
    check_refused(
        &CRON_JOB.replace("30 2 *", "61 2 *"),
        &["CronJob c", "spec.schedule", "61"],
    );
}

#[test]
fn serving_ends_when_its_time_is_up() {
    let mut child = support::lakh(&["local", "--timeout", "1s"])
        .spawn()
        .expect("the binary runs");
    let started = std::time::Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break Some(status);
        }
        if started.elapsed().as_secs() > 30 {
            child.kill().expect("it is ours");
            child.wait().expect("it ends");
            break None;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert_eq!(ended.expect("it serves for ever").code(), Some(0));
}

#[test]
fn one_page_has_the_metrics_of_server_and_controller() {
    let serving = Serving::start();
    let config = fs::read_to_string(serving.kubeconfig()).expect("it is there");
    let address = config
        .lines()
        .find_map(|line| line.trim().strip_prefix("server: http://"));
    let address = address.expect("a server").parse().expect("an address");
    let started = std::time::Instant::now();
    let names = [
        "lakh_turns_total",
        "lakh_watches_total",
        "apiserver_request_total{verb=\"LIST\",resource=\"jobs\"",
    ];
    loop {
        let page = http_get(address, "/metrics").expect("an answer");
        let (_, page) = page.split_once("\r\n\r\n").expect("a head");
        if names.iter().all(|name| page.contains(name)) {
            assert_eq!(page.matches("# EOF").count(), 1, "{page}");
            assert!(page.ends_with("# EOF\n"), "{page}");
            return;
        }
        assert!(started.elapsed().as_secs() < 60, "{page}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
