//! Tests the output of containers, by stages and annotations.

use serde_json::{Value, json};

use crate::kubelet::{KubeletOptions, OUTPUT, Stage, container_output};

/// Returns options with a stage of this spec.
fn options(spec: &Value) -> KubeletOptions {
    let stage = json!({
        "apiVersion": "sim.lakh.dev/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": "s"},
        "spec": spec,
    });
    KubeletOptions {
        stages: [Stage::read(&stage).expect("a good stage")].into(),
        ..KubeletOptions::default()
    }
}

/// Returns a Pod with index 7 whose containers are in these states.
fn pod(states: &[(&str, Value)]) -> Value {
    let statuses: Vec<Value> = states
        .iter()
        .map(|(name, status)| {
            let mut status = status.clone();
            status["name"] = json!(name);
            status
        })
        .collect();
    json!({
        "metadata": {
            "name": "p", "namespace": "n", "uid": "u",
            "annotations": {"batch.kubernetes.io/job-completion-index": "7"},
        },
        "spec": {
            "nodeName": "hollow-0",
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "c"}, {"name": "d"}],
        },
        "status": {"containerStatuses": statuses},
    })
}

fn running(restarts: u32) -> Value {
    json!({"restartCount": restarts, "state": {"running": {}}})
}

fn ended(code: i32) -> Value {
    json!({"state": {"terminated": {"exitCode": code}}})
}

fn output(options: &KubeletOptions, pod: &Value, container: &str) -> Option<String> {
    container_output(options, pod.to_string().as_bytes(), container, false)
}

#[test]
fn placeholders_are_replaced_and_the_exit_code_comes_at_the_end() {
    let text = "{pod} of {namespace} on {node}: {container} does {index}, restart {restarts}\n\
                ended with {exitCode}\n{other}";
    let options = options(&json!({"output": text}));
    let lines = "p of n on hollow-0: c does 7, restart 0\n";
    let got = output(&options, &pod(&[("c", running(0))]), "c");
    assert_eq!(got, Some(format!("{lines}{{other}}\n")));
    let got = output(&options, &pod(&[("c", ended(3))]), "");
    assert_eq!(got, Some(format!("{lines}ended with 3\n{{other}}\n")));
    // The container has not run yet; others print nothing.
    let waits = json!({"state": {"waiting": {}}});
    assert_eq!(output(&options, &pod(&[("c", waits)]), "c"), None);
    assert_eq!(output(&options, &pod(&[("d", ended(0))]), "d"), None);
}

#[test]
fn each_container_has_its_output_and_the_stage_goes_before_the_annotation() {
    let spec = json!({
        "pods": {"restarts": "1"},
        "output": "first",
        "containers": [{"name": "d", "output": "second"}],
        "initContainers": [{"output": "init"}],
        "sidecars": [{"name": "s", "output": "side"}],
    });
    let options = options(&spec);
    let mut pod = pod(&[
        ("c", running(1)),
        ("d", ended(0)),
        ("i", ended(0)),
        ("s", running(0)),
    ]);
    pod["metadata"]["annotations"][OUTPUT] = json!("by annotation {restarts}");
    for (container, want) in [
        ("c", "first"),
        ("d", "second"),
        ("i", "init"),
        ("s", "side"),
    ] {
        assert_eq!(output(&options, &pod, container), Some(format!("{want}\n")));
    }
    // The stage did not apply to the first try.
    pod["status"]["containerStatuses"][0]["lastState"] = ended(1)["state"].clone();
    let json = pod.to_string();
    let before = container_output(&options, json.as_bytes(), "c", true);
    assert_eq!(before.as_deref(), Some("by annotation 0\n"));
    pod["status"]["containerStatuses"][0]["restartCount"] = json!(0);
    assert_eq!(
        output(&options, &pod, "c").as_deref(),
        Some("by annotation 0\n")
    );
    assert_eq!(output(&options, &pod, "d"), None);
}

#[test]
fn output_is_bounded() {
    let long = "x".repeat(16 * 1024 + 1);
    let stage = json!({
        "apiVersion": "sim.lakh.dev/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": "s"},
        "spec": {"output": long},
    });
    let error = Stage::read(&stage).expect_err("too long").to_string();
    assert_eq!(error, "spec.output: must be at most 16 KiB of output");
    let many = "{pod}\n".repeat(2_000);
    let mut pod = pod(&[("c", running(0))]);
    pod["metadata"]["name"] = json!("p".repeat(253));
    let got = output(&options(&json!({"output": many})), &pod, "c").expect("output");
    assert!(
        got.len() <= 64 * 1024 && got.ends_with("p\n"),
        "{}",
        got.len()
    );
}
