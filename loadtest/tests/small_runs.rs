//! Runs the program end to end at small sizes: checks that its files exist and their content is right.
//!
//! lakh's binary must be in the same folder as this program, as after a build of the workspace.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

use lakh::embedded::{
    apiserver::Users,
    serve::{self, ServeOptions},
};
use serde_json::Value;
use tempfile::TempDir;

/// Runs a scenario; returns its report and the folder with all files.
fn run(args: &[&str]) -> (Value, TempDir) {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let output = program(&[args, &["--timeout", "60s", "--out", &text(folder.path())]].concat());
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {told}{complaint}");
    let page = fs::read_to_string(folder.path().join("report.html")).expect("there is a page");
    assert!(page.contains("</html>"));
    let report = fs::read(folder.path().join("report.json")).expect("there is a report");
    let report = serde_json::from_slice(&report).expect("it is JSON");
    (report, folder)
}

fn program(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lakh-loadtest"));
    command.args(args).output().expect("the program runs")
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Returns the number of calls of a kind, without refused ones.
fn calls(report: &Value, verb: &str, resource: &str) -> u64 {
    let calls = report["calls"].as_array().expect("a list").iter();
    let counts = calls
        .filter(|call| call["verb"] == verb && call["resource"] == resource)
        .filter(|call| call["refused"] == false)
        .filter_map(|call| call["count"].as_u64());
    counts.sum()
}

#[test]
fn a_small_run_writes_all_files_with_the_right_totals() {
    let (report, folder) = run(&["indexed", "--size", "300", "--sample-period", "50ms"]);
    let outcome = &report["outcome"];
    assert_eq!(outcome["jobsComplete"], 1);
    for count in ["podsCreated", "podsSucceeded", "podsCounted"] {
        assert_eq!(outcome[count], 300, "{count}");
    }
    assert_eq!(calls(&report, "create", "pods"), 300);
    assert_eq!(calls(&report, "patch", "pods"), 300);
    assert_eq!(report["finishedToCounted"]["count"], 300);
    assert_eq!(report["createdToFirstPod"]["count"], 1);
    let done = report["indexes"]["done"].as_array().expect("a list");
    assert_eq!(done.len(), 300);
    assert!(done.iter().all(Value::is_number));
    let last = report["samples"].as_array().and_then(|all| all.last());
    let last = last.expect("there are samples");
    assert_eq!(last["counted"], 300);
    assert!(last["writesPending"].is_number(), "{last}");
    for process in ["controller", "embedded cluster"] {
        let memory = last["processes"][process]["rssMib"].as_f64();
        assert!(memory.is_some_and(|memory| memory > 1.0), "{process}");
    }
    let history = fs::read_to_string(folder.path().join("history.jsonl")).expect("there is one");
    assert_eq!(history.lines().count(), 1);

    let report = text(&folder.path().join("report.json"));
    let compared = program(&["compare", &report, &report]);
    let compared = String::from_utf8_lossy(&compared.stdout).into_owned();
    let wall = compared.lines().find(|line| line.starts_with("wall time"));
    assert!(
        wall.is_some_and(|line| line.ends_with("1.00")),
        "{compared}"
    );
}

#[test]
fn failed_first_tries_are_tried_again() {
    let flag = "--controller-flag=--pod-failure-backoff-base=100ms";
    let (report, _folder) = run(&["per-index-failures", "--size", "50", flag]);
    let outcome = &report["outcome"];
    assert_eq!(outcome["podsFailed"], 5);
    assert_eq!(outcome["podsSucceeded"], 50);
    assert_eq!(outcome["podsCounted"], 55);
}

#[test]
fn a_full_job_is_suspended_and_resumed() {
    let (report, _folder) = run(&["suspend-resume", "--size", "100"]);
    assert_eq!(report["outcome"]["jobsComplete"], 1);
    assert_eq!(report["outcome"]["podsCreated"], 200);
    let phases = report["phases"].as_array().expect("a list").iter();
    let names: Vec<_> = phases.filter_map(|phase| phase["name"].as_str()).collect();
    assert_eq!(names, ["filling", "suspending", "to the end"]);
}

#[test]
fn a_full_job_is_deleted_and_leaves_nothing() {
    let (report, _folder) = run(&["delete-full-job", "--size", "100"]);
    let samples = report["samples"].as_array().expect("a list");
    assert_eq!(samples.last().expect("there are some")["active"], 0);
}

#[test]
fn storms_and_small_jobs_beside_a_giant_come_to_their_end() {
    let (storms, _folder) = run(&["relist-storms", "--size", "2000", "--parallelism", "50"]);
    assert_eq!(storms["outcome"]["podsSucceeded"], 2000);
    let (fairness, _folder) = run(&["fairness", "--size", "1000", "--parallelism", "20"]);
    let jobs = fairness["outcome"]["jobsComplete"]
        .as_u64()
        .expect("a count");
    assert!(jobs > 1, "{jobs} Jobs");
    assert_eq!(fairness["createdToFirstPod"]["count"], jobs);
    let (small, _folder) = run(&["small-jobs", "--size", "50"]);
    assert_eq!(small["outcome"]["jobsComplete"], 50);
}

#[test]
fn a_tenants_latencies_are_reported_alone_and_beside_a_giant() {
    let args = ["neighbours", "--size", "1000", "--parallelism", "20"];
    let (report, _folder) = run(&[&args[..], &["--alone", "2"]].concat());
    let waits = report["waits"].as_array().expect("a list");
    let told: Vec<_> = waits.iter().map(|waits| &waits["when"]).collect();
    assert_eq!(told, ["alone", "beside"]);
    assert_eq!(waits[0]["firstPod"]["count"], 2);
    for waits in waits {
        assert_eq!(waits["firstPod"]["count"], waits["end"]["count"], "{waits}");
        let wait = |until: &str| waits[until]["p50"].as_f64().expect("a number");
        assert!(
            wait("firstPod") > 0.0 && wait("firstPod") <= wait("end"),
            "{waits}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_neighbour_has_an_identity_of_his_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let audit_log = folder.path().join("audit.log");
    let names = ["owner", "tenant", "controller", "kubelet"];
    let tokens = names.map(|name| format!("{name}-token,{name},{name},system:masters\n"));
    let server = serve::start(ServeOptions {
        users: Some(Users::read(&tokens.concat()).expect("good tokens")),
        audit_log: Some(audit_log.clone()),
        ..ServeOptions::default()
    });
    let server = server.await.expect("a port");
    let kubeconfigs = names.map(|name| {
        let path = folder.path().join(name);
        let kubeconfig = server
            .kubeconfig()
            .replace("owner-token", &format!("{name}-token"));
        fs::write(&path, kubeconfig).expect("a file");
        text(&path)
    });
    let [owner, tenant, controller, kubelet] = kubeconfigs;
    let finished = tokio::task::spawn_blocking(move || {
        run(&[
            "neighbours",
            "--size",
            "20",
            "--alone",
            "1",
            "--keep",
            "--kubeconfig",
            &owner,
            "--tenant-kubeconfig",
            &tenant,
            "--controller-kubeconfig",
            &controller,
            "--kubelet-kubeconfig",
            &kubelet,
        ])
    });
    let (report, _folder) = finished.await.expect("a run");
    assert_eq!(report["outcome"]["jobsFailed"], 0);
    server.shutdown().await;

    let audit = fs::read_to_string(&audit_log).expect("there is a log");
    let calls: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let who = |wanted: &str, is_tenants: bool| -> BTreeSet<&str> {
        let calls = calls.iter().filter(|call| {
            let [verb, resource, subresource, namespace] = [
                "/verb",
                "/objectRef/resource",
                "/objectRef/subresource",
                "/objectRef/namespace",
            ]
            .map(|at| call.pointer(at).and_then(Value::as_str).unwrap_or_default());
            format!("{verb} {resource} {subresource}").trim_end() == wanted
                && namespace.ends_with("-tenant") == is_tenants
        });
        calls
            .filter_map(|call| call["user"]["username"].as_str())
            .collect()
    };
    assert_eq!(who("create jobs", false), ["owner"].into());
    assert_eq!(who("create jobs", true), ["tenant"].into());
    for is_tenants in [false, true] {
        assert_eq!(who("create pods", is_tenants), ["controller"].into());
        assert_eq!(who("patch pods status", is_tenants), ["kubelet"].into());
    }
}

#[test]
fn the_bare_writer_makes_the_calls_and_no_others() {
    let (report, _folder) = run(&["writer", "--size", "200"]);
    assert_eq!(calls(&report, "create", "pods"), 200);
    assert_eq!(calls(&report, "patch", "pods"), 200);
    assert_eq!(calls(&report, "patch", "jobs/status"), 0);
}

#[test]
fn a_slow_server_is_slow() {
    let (report, _folder) = run(&["slow-server", "--size", "20", "--call-latency", "50ms"]);
    // A Job's first Pod takes at least one call, and its end a few more.
    assert!(
        report["wallSeconds"]
            .as_f64()
            .is_some_and(|wall| wall > 0.15)
    );
    assert_eq!(report["settings"]["callLatencyMs"], 50);
}

#[test]
fn invalid_runs_are_refused() {
    let refused = program(&["relist-storms", "--kubeconfig", "/nowhere"]);
    assert_eq!(refused.status.code(), Some(2));
    let external = program(&["indexed", "--controller", "external"]);
    assert_eq!(external.status.code(), Some(2));
    let nobody = program(&["neighbours", "--kubeconfig", "/nowhere"]);
    let complaint = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(complaint.contains("--tenant-kubeconfig"), "{complaint}");
}
