//! Tests complete status patches, one for each kind of moment.

use serde_json::{Value, json};

use super::stage::Stage;
use crate::kubelet::{KubeletOptions, node_objects, parse_go_duration};

/// Returns the status of Pod `a` after the script, with container IDs cut to their scheme.
pub(super) fn status_after(script: &str) -> Value {
    let default_duration = parse_go_duration("2s").expect("a Go duration");
    let mut stage = Stage::new(KubeletOptions {
        default_duration,
        ..KubeletOptions::with_nodes(1)
    });
    for line in script.lines().map(str::trim) {
        stage.command(line);
        stage.drain();
    }
    let mut patch = stage.patches.remove("a").expect("a status was written");
    cut_ids(&mut patch);
    patch["status"].take()
}

fn cut_ids(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "containerID" {
                    let id = value.as_str().expect("an ID");
                    assert_eq!(id.len(), "containerd://".len() + 64, "{id}");
                    *value = json!("containerd://");
                }
                cut_ids(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(cut_ids),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Renders conditions as short texts: type, status, reason, message, time.
fn conditions(status: &Value) -> Vec<String> {
    let all = status["conditions"].as_array().expect("conditions").iter();
    let fields = ["type", "status", "reason", "message", "lastTransitionTime"];
    let text = |condition: &Value| {
        let words = fields
            .iter()
            .filter_map(|field| match condition.get(field)? {
                Value::Null => Some("null".to_owned()),
                value => Some(value.as_str()?.replace("1970-01-01T00:00:", "")),
            });
        words.collect::<Vec<_>>().join(" ")
    };
    all.map(text).collect()
}

#[test]
fn a_running_pod() {
    let mut status = status_after("pod a\nuntil 1s");
    let got = conditions(&status);
    let want = [
        "PodReadyToStartContainers True 00Z",
        "Initialized True 00Z",
        "Ready True 00Z",
        "ContainersReady True 00Z",
    ];
    assert_eq!(got, want);
    status["conditions"].take();
    let want = json!({
        "phase": "Running",
        "startTime": "1970-01-01T00:00:00Z",
        "hostIP": "172.18.0.2",
        "hostIPs": [{"ip": "172.18.0.2"}],
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": null,
        "containerStatuses": [{
            "name": "c",
            "image": "busybox",
            "imageID": "busybox",
            "containerID": "containerd://",
            "ready": true,
            "started": true,
            "restartCount": 0,
            "state": {"running": {"startedAt": "1970-01-01T00:00:00Z"}},
        }],
    });
    assert_eq!(status, want);
}

#[test]
fn a_pod_that_succeeded_or_failed() {
    let status = status_after("pod a node=hollow-0\nuntil 3s");
    let want = [
        "PodReadyToStartContainers False 02Z",
        "Initialized True PodCompleted 00Z",
        "Ready False PodCompleted 02Z",
        "ContainersReady False PodCompleted 02Z",
        "PodScheduled True 00Z",
    ];
    assert_eq!(conditions(&status), want);
    let want = json!([{
        "name": "c",
        "image": "busybox",
        "imageID": "busybox",
        "containerID": "containerd://",
        "ready": false,
        "started": false,
        "restartCount": 0,
        "state": {"terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": "1970-01-01T00:00:00Z",
            "finishedAt": "1970-01-01T00:00:02Z",
            "containerID": "containerd://",
        }},
    }]);
    assert_eq!(status["containerStatuses"], want);

    let status = status_after("pod a exit-code=3\nuntil 3s");
    let want = [
        "PodReadyToStartContainers False 02Z",
        "Initialized True 00Z",
        "Ready False PodFailed 02Z",
        "ContainersReady False PodFailed 02Z",
    ];
    assert_eq!(conditions(&status), want);
    assert_eq!(
        status["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        3
    );
    assert_eq!(
        status["containerStatuses"][0]["state"]["terminated"]["reason"],
        "Error"
    );
}

#[test]
fn a_pod_between_restarts_and_after_them() {
    let status = status_after("pod a restart=OnFailure exit-code=3\nuntil 5s");
    let want = [
        "PodReadyToStartContainers True 00Z",
        "Initialized True 00Z",
        "Ready False ContainersNotReady containers with unready status: [c] 04Z",
        "ContainersReady False ContainersNotReady containers with unready status: [c] 04Z",
    ];
    assert_eq!(conditions(&status), want);
    let waiting = &status["containerStatuses"][0]["state"]["waiting"];
    let message = "back-off 10s restarting failed container=c pod=a_ns(uid-a)";
    assert_eq!(
        *waiting,
        json!({"reason": "CrashLoopBackOff", "message": message})
    );

    // Texts of earlier conditions are cleared explicitly: the patch merges.
    let status = status_after("pod a restart=OnFailure fail-attempts=1\nuntil 3s");
    assert_eq!(conditions(&status)[2], "Ready True null null 02Z");
    let status = status_after("pod a restart=OnFailure fail-attempts=1\nuntil 5s");
    assert_eq!(conditions(&status)[2], "Ready False PodCompleted null 04Z");
}

#[test]
fn pods_that_end_for_other_reasons_say_so() {
    let status = status_after("pod a deadline=1\nuntil 5s");
    assert_eq!(status["reason"], "DeadlineExceeded");
    let message = "Pod was active on the node longer than the specified deadline";
    assert_eq!(status["message"], message);

    let status = status_after("pod a duration=soon");
    let message = "annotation sim.lakh.dev/duration: \"soon\" \
                   must be a duration such as 200ms or 1m30s";
    assert_eq!(status["message"], message);
    assert_eq!(status.get("containerStatuses"), None);

    let status = status_after("pod a inits=i,k init-exit-code=1");
    let want = "Initialized False ContainersNotInitialized \
                containers with incomplete status: [i k] 00Z";
    assert_eq!(conditions(&status)[1], want);
}

#[test]
fn nodes_are_ready_and_named_as_asked() {
    let options = KubeletOptions::with_nodes(300);
    let nodes = node_objects(&options, crate::model::Time::from_secs(0));
    assert_eq!(nodes.len(), 300);
    assert_eq!(nodes[299]["metadata"]["name"], "hollow-299");
    assert_eq!(
        nodes[299]["status"]["addresses"][0]["address"],
        "172.18.1.45"
    );
    let conditions = nodes[0]["status"]["conditions"]
        .as_array()
        .expect("conditions");
    assert!(
        conditions
            .iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    );
}
