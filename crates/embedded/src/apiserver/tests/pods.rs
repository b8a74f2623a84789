//! Tests creation, status and subresources of Pods.

use std::sync::Arc;

use super::*;

#[test]
fn a_new_pod_is_filled_in() {
    let mut cluster = Cluster::new();
    let status = json!({"status": {"phase": "Running"}});
    let created = cluster.ok("POST", PODS, &with(pod("a"), &status));
    assert_eq!(
        created["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"})
    );
    let spec = &created["spec"];
    assert_eq!(spec["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(spec["priority"], 0);
    assert_eq!(spec["preemptionPolicy"], "PreemptLowerPriority");
    assert_eq!(spec["enableServiceLinks"], true);
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
}

#[test]
fn quality_of_service() {
    let check = |name: &str, resources: Value, expected: &str| {
        let mut cluster = Cluster::new();
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["resources"] = resources;
        let created = cluster.ok("POST", PODS, &pod);
        assert_eq!(created["status"]["qosClass"], expected);
    };
    check("a", json!({"requests": {"cpu": "1"}}), "Burstable");
    check(
        "b",
        json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
        "Guaranteed",
    );
    check("c", json!({"limits": {"cpu": 1}}), "Burstable");
}

#[test]
fn status_merges_by_type() {
    let mut cluster = Cluster::new();
    cluster.ok("POST", PODS, &pod("a"));
    let path = format!("{PODS}/a/status");
    let patch = |condition: &str| {
        json!({"status": {"phase": "Running", "podIP": "10.0.0.1",
                          "conditions": [{"type": condition, "status": "True"}]}})
    };
    cluster.typed("PATCH", &path, STRATEGIC, &patch("A"));
    let (_, answer) = cluster.typed("PATCH", &path, STRATEGIC, &patch("B"));
    assert_eq!(answer["status"]["conditions"].as_array().unwrap().len(), 2);
    assert_eq!(answer["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
    assert_eq!(answer["status"]["qosClass"], "BestEffort");
    let wrong = json!({"metadata": {"uid": "zzz"}, "status": {"phase": "Failed"}});
    let (status, answer) = cluster.typed("PATCH", &path, STRATEGIC, &wrong);
    assert_eq!(status, 422);
    assert_eq!(
        answer["message"],
        "Pod \"a\" is invalid: metadata.uid: Invalid value: \"zzz\": field is immutable"
    );
    assert_eq!(answer["details"]["causes"].as_array().unwrap().len(), 2);
}

#[test]
fn a_terminated_container_stays_terminated() {
    let mut cluster = Cluster::new();
    cluster.ok("POST", PODS, &pod("a"));
    let path = format!("{PODS}/a/status");
    let state =
        |state: Value| json!({"status": {"containerStatuses": [{"name": "c", "state": state}]}});
    cluster.ok(
        "PATCH",
        &path,
        &state(json!({"terminated": {"exitCode": 1}})),
    );
    let (status, answer) = cluster.send("PATCH", &path, &state(json!({"running": {}})));
    assert_eq!(status, 422, "{answer}");
    let text = "status.containerStatuses[0].state: Forbidden: may not be transitioned to \
                non-terminated state";
    assert!(answer["message"].as_str().unwrap().contains(text));
}

#[test]
fn the_spec_is_nearly_immutable() {
    let mut cluster = Cluster::new();
    cluster.ok("POST", PODS, &pod("a"));
    let path = format!("{PODS}/a");
    let (status, _) = cluster.send("PATCH", &path, &json!({"spec": {"hostNetwork": true}}));
    assert_eq!(status, 422);
    let image = json!({"spec": {"containers": [{"name": "c", "image": "i:2"}]}});
    let (status, answer) = cluster.typed("PATCH", &path, STRATEGIC, &image);
    assert_eq!(
        (status, &answer["metadata"]["generation"]),
        (200, &json!(2)),
        "{answer}"
    );
}

#[test]
fn a_log_has_the_output_of_the_containers() {
    let mut cluster = Cluster::new();
    cluster.ok(
        "POST",
        "/api/v1/nodes",
        &json!({"metadata": {"name": "n1"}}),
    );
    cluster.ok("POST", PODS, &pod("a"));
    let log = format!("{PODS}/a/log");
    let output = PodOutput(Arc::new(|pod, container, previous| {
        let pod: Value = serde_json::from_slice(pod).expect("JSON");
        let node = pod["spec"]["nodeName"].as_str()?;
        (container != "d").then(|| format!("{node}\n{container}\n{previous}\n"))
    }));
    cluster.server.set_pod_output(Some(output));
    let bytes = |cluster: &mut Cluster, query: &str| {
        let response = cluster.request("GET", &format!("{log}?{query}"), "", "");
        assert_eq!(response.status, 200, "{query}");
        String::from_utf8(response.into_bytes().to_vec()).expect("text")
    };
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    cluster.ok("POST", &format!("{PODS}/a/binding"), &binding);
    for (query, want) in [
        ("container=c", "n1\nc\nfalse\n"),
        ("previous=true", "n1\n\ntrue\n"),
        ("container=c&tailLines=2", "c\nfalse\n"),
        ("container=c&tailLines=1", "false\n"),
        ("container=c&tailLines=9", "n1\nc\nfalse\n"),
        ("container=c&tailLines=0", ""),
        ("container=c&limitBytes=4", "n1\nc"),
    ] {
        assert_eq!(bytes(&mut cluster, query), want, "{query}");
    }
    cluster.server.set_pod_output(None);
    let hollow = "default/a ran on n1, a hollow node without output\n";
    assert_eq!(bytes(&mut cluster, "container=c"), hollow);
}

#[test]
fn binding_and_eviction() {
    let mut cluster = Cluster::new();
    let node = json!({"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z"}}});
    cluster.ok("POST", "/api/v1/nodes", &node);
    cluster.ok("POST", PODS, &pod("a"));
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    let path = format!("{PODS}/a/binding");
    let answer = cluster.ok("POST", &path, &binding);
    assert_eq!(answer["status"], "Success");
    let bound = cluster.get(&format!("{PODS}/a"));
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(
        bound["metadata"]["labels"]["topology.kubernetes.io/zone"],
        "z"
    );
    let (status, answer) = cluster.send("POST", &path, &binding);
    assert_eq!(status, 409);
    assert_eq!(
        answer["message"],
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \
         \"n1\""
    );
    cluster.ok(
        "POST",
        &format!("{PODS}/a/eviction"),
        &json!({"metadata": {"name": "a"}}),
    );
    let evicted = cluster.get(&format!("{PODS}/a"));
    assert_eq!(
        evicted["status"]["conditions"][1]["reason"],
        "EvictionByEvictionAPI"
    );
    assert_eq!(evicted["metadata"]["deletionGracePeriodSeconds"], 30);
}

#[test]
fn patches_keep_other_fields() {
    let mut cluster = Cluster::new();
    let created = cluster.ok("POST", PODS, &pod("a"));
    let path = format!("{PODS}/a");
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    cluster.typed("PATCH", &path, STRATEGIC, &label);
    let phase = json!([{"op": "replace", "path": "/status/phase", "value": "Running"}]);
    let status = format!("{path}/status");
    cluster.typed("PATCH", &status, "application/json-patch+json", &phase);
    let (code, _) = cluster.typed("PATCH", &status, MERGE, &json!({"spec": {"priority": 7}}));
    assert_eq!(code, 200);
    let now = cluster.get(&path);
    assert_eq!(now["spec"], created["spec"]);
    assert_eq!(
        now["status"],
        json!({"phase": "Running", "qosClass": "BestEffort"})
    );
    assert_eq!(now["metadata"]["labels"], json!({"x": "y"}));
    assert_eq!(now["metadata"]["generation"], 1);
}
