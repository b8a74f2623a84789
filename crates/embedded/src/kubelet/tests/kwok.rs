//! Tests the selectors of kwok's objects along a Pod's life on a hollow node: at each moment the expected object
//! selects it, and no other. Without jq the test is skipped, as `tests/cluster/stages.rs` then reports.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::stage;
use crate::kubelet::{KubeletOptions, Stage, stages::kwok_stages};

/// Returns a jq program that prints the names of all objects that select a Pod, compared as in kwok.
fn meaning(objects: &[Value]) -> String {
    let objects = objects.iter().map(|object| {
        let expectations = object["spec"]["selector"]["matchExpressions"].as_array();
        let all = expectations.into_iter().flatten().map(|expectation| {
            let key = expectation["key"].as_str().expect("a key");
            let values = &expectation["values"];
            let found = format!("[{key} | select(. != null) | tostring]");
            match expectation["operator"].as_str() {
                Some("In") => format!("({found} | any(IN({values}[])))"),
                Some("NotIn") => format!("({found} | any(IN({values}[])) | not)"),
                Some("Exists") => format!("({found} | length > 0)"),
                other => {
                    assert_eq!(other, Some("DoesNotExist"));
                    format!("({found} | length == 0)")
                }
            }
        });
        let all: Vec<String> = all.collect();
        let name = &object["metadata"]["name"];
        let kind = &object["spec"]["resourceRef"]["kind"];
        format!(
            "(select({kind} == \"Pod\" and {}) | {name})",
            all.join(" and ")
        )
    });
    let objects: Vec<String> = objects.collect();
    format!("[{}] | join(\" \")", objects.join(", "))
}

/// Plays a script about the Pod `a` and checks the names of the kwok objects that select it, in order.
fn check(spec: Value, script: &str, want: &[&str]) {
    if Command::new("jq").arg("--version").output().is_err() {
        return;
    }
    let stage = Stage::read(&json!({
        "apiVersion": "sim.lakh.dev/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": "s"},
        "spec": spec,
    }));
    let stages = [stage.expect("a good stage")];
    let mut hollow = stage::Stage::new(KubeletOptions {
        stages: stages.clone().into(),
        ..KubeletOptions::with_nodes(1)
    });
    let mut jq = Command::new("jq")
        .args(["-r", &meaning(&kwok_stages(&stages, 1))])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("jq runs");
    let mut input = jq.stdin.take().expect("a pipe");
    for line in script.lines().map(str::trim) {
        hollow.command(line);
        hollow.drain();
        for pod in hollow.pods() {
            writeln!(input, "{pod}").expect("jq reads");
        }
    }
    drop(input);
    let output = jq.wait_with_output().expect("jq ends");
    assert!(output.status.success(), "jq refuses the expressions");
    let got = String::from_utf8(output.stdout).expect("text");
    let got: Vec<&str> = got.lines().collect();
    assert_eq!(got, want);
}

#[test]
fn one_object_at_a_time_means_a_pod_whose_init_containers_run() {
    check(
        json!({
            "start": {"delay": "1s"},
            "initContainers": [
                {"name": "i", "delay": "1s", "exitCode": 3, "failures": 2},
                {"delay": "1s"},
            ],
            "ready": {"delay": "1s"},
            "end": {"delay": "2s"},
        }),
        "pod a restart=OnFailure inits=t!,i,s!,k
         until 500ms
         until 1500ms
         until 2s
         until 2500ms
         until 3s
         until 12s
         until 13500ms
         until 14500ms
         until 15500ms
         until 16500ms
         until 18s",
        &[
            "lakh-pod-init-s",
            "lakh-pod-init-s",
            "lakh-pod-init-failed-s-0",
            // Its first restart was immediate.
            "lakh-pod-init-failed-s-0",
            "lakh-pod-init-failed-s-0",
            "lakh-pod-init-restarted",
            "lakh-pod-init-restarted",
            "lakh-pod-init-done-s-0",
            "lakh-pod-init-done-s-1",
            "lakh-pod-ready-s",
            "lakh-pod-ended-s",
            "",
        ],
    );
}

#[test]
fn a_pod_whose_init_container_fails_for_good_is_left_alone() {
    check(
        json!({"initContainers": [{"delay": "1s", "exitCode": 3}]}),
        "pod a inits=s!,i
         until 1s",
        &["lakh-pod-init-failed-s-0", ""],
    );
}

#[test]
fn a_pod_that_is_deleted_while_its_init_containers_run_is_stopped() {
    check(
        json!({"initContainers": [{"delay": "1m"}], "stop": {"delay": "1s"}}),
        "pod a inits=s!,i
         delete a 30
         until 2s",
        // Its sidecar takes as long to stop as its init container did. By then, the hollow node has deleted the Pod for
        // good.
        &["lakh-pod-init-done-s-0", "lakh-pod-stopped-s", ""],
    );
}

#[test]
fn sidecars_alone_are_no_init_containers_to_wait_for() {
    check(
        json!({"initContainers": [{"delay": "1m"}], "start": {"delay": "1s"}, "end": {"delay": "1m"}}),
        "pod a inits=s!
         until 1s",
        &["lakh-pod-running-s", "lakh-pod-ended-s"],
    );
}
