//! Tests deletion, owner garbage collection and terminating namespaces.

use super::*;

/// A Pod on a node, so that its deletion is graceful.
fn scheduled(cluster: &mut Cluster, name: &str, change: &Value) -> Value {
    let on_node = with(pod(name), &json!({"spec": {"nodeName": "n1"}}));
    cluster.ok("POST", PODS, &with(on_node, change))
}

#[test]
fn unscheduled_pods_go_at_once() {
    let mut cluster = Cluster::new();
    cluster.ok("POST", PODS, &pod("a"));
    let answer = cluster.ok("DELETE", &format!("{PODS}/a"), &Value::Null);
    assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(answer["metadata"]["generation"], 2);
    assert_eq!(
        cluster.history(Kind::Pod),
        ["Added a", "Modified a", "Deleted a"]
    );
}

#[test]
fn scheduled_pods_get_their_grace() {
    let mut cluster = Cluster::new();
    scheduled(&mut cluster, "a", &json!({}));
    let path = format!("{PODS}/a");
    let first = cluster.ok("DELETE", &path, &Value::Null);
    assert_eq!(
        first["metadata"]["deletionTimestamp"],
        "1970-01-12T13:47:10Z"
    );
    assert_eq!(first["metadata"]["deletionGracePeriodSeconds"], 30);
    cluster.now = cluster.now + std::time::Duration::from_secs(7);
    let again = cluster.ok("DELETE", &path, &json!({"gracePeriodSeconds": 60}));
    assert_eq!(
        again["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let shorter = cluster.ok("DELETE", &path, &json!({"gracePeriodSeconds": 10}));
    assert_eq!(
        shorter["metadata"]["deletionTimestamp"],
        "1970-01-12T13:46:50Z"
    );
    assert_eq!(
        shorter["metadata"]["generation"],
        first["metadata"]["generation"]
    );
    cluster.ok(
        "DELETE",
        &format!("{path}?gracePeriodSeconds=0"),
        &Value::Null,
    );
    let expected = [
        "Added a",
        "Modified a",
        "Modified a",
        "Modified a",
        "Deleted a",
    ];
    assert_eq!(cluster.history(Kind::Pod), expected);
}

#[test]
fn finalizers_hold_pods() {
    let mut cluster = Cluster::new();
    let held = json!({"metadata": {"finalizers": ["x.y/z"]}});
    scheduled(&mut cluster, "a", &held);
    let path = format!("{PODS}/a");
    cluster.ok("DELETE", &path, &json!({"gracePeriodSeconds": 0}));
    let (status, answer) = cluster.send(
        "PATCH",
        &path,
        &json!({"metadata": {"finalizers": ["x.y/z", "q.r/s"]}}),
    );
    assert_eq!(status, 422);
    assert!(answer["message"].as_str().unwrap().ends_with(
        "no new finalizers can be added if the object is being deleted, found new finalizers \
         []string{\"q.r/s\"}"
    ));
    cluster.ok("PATCH", &path, &json!({"metadata": {"finalizers": null}}));
    assert_eq!(
        cluster.history(Kind::Pod),
        ["Added a", "Modified a", "Deleted a"]
    );

    scheduled(&mut cluster, "b", &held);
    let path = format!("{PODS}/b");
    cluster.ok("DELETE", &path, &Value::Null);
    cluster.ok("PATCH", &path, &json!({"metadata": {"finalizers": null}}));
    assert_eq!(
        cluster.history(Kind::Pod)[3..],
        ["Added b", "Modified b", "Modified b"]
    );
}

/// Creates a Job with two Pods that it owns.
fn family(cluster: &mut Cluster) -> String {
    let job = cluster.ok("POST", JOBS, &job("j"));
    let uid = job["metadata"]["uid"].as_str().unwrap().to_owned();
    for name in ["p1", "p2"] {
        let owner = json!({"metadata": {"ownerReferences": [{
            "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }]}});
        scheduled(cluster, name, &owner);
    }
    cluster.collect();
    uid
}

#[test]
fn background_deletion() {
    let mut cluster = Cluster::new();
    family(&mut cluster);
    let answer = cluster.ok(
        "DELETE",
        &format!("{JOBS}/j?propagationPolicy=Background"),
        &Value::Null,
    );
    assert_eq!(answer["status"], "Success");
    assert_eq!(answer["details"]["kind"], "jobs");
    cluster.collect();
    assert_eq!(cluster.history(Kind::Job), ["Added j", "Deleted j"]);
    assert_eq!(
        cluster.history(Kind::Pod)[2..],
        ["Modified p1", "Modified p2"]
    );
    let pod = cluster.get(&format!("{PODS}/p1"));
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    assert!(pod["metadata"]["ownerReferences"].is_array());
}

#[test]
fn foreground_deletion() {
    let mut cluster = Cluster::new();
    family(&mut cluster);
    let path = format!("{JOBS}/j");
    let answer = cluster.ok("DELETE", &path, &json!({"propagationPolicy": "Foreground"}));
    assert_eq!(
        answer["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    cluster.collect();
    assert_eq!(cluster.history(Kind::Job), ["Added j", "Modified j"]);
    for name in ["p1", "p2"] {
        cluster.ok(
            "DELETE",
            &format!("{PODS}/{name}?gracePeriodSeconds=0"),
            &Value::Null,
        );
        cluster.collect();
    }
    assert_eq!(
        cluster.history(Kind::Job),
        ["Added j", "Modified j", "Deleted j"]
    );
}

#[test]
fn jobs_are_orphaning_by_default() {
    let mut cluster = Cluster::new();
    family(&mut cluster);
    let response = cluster.request("DELETE", &format!("{JOBS}/j"), "application/json", "");
    assert!(
        response.headers[0]
            .1
            .starts_with("299 - \"child pods are preserved by default")
    );
    let answer: Value = serde_json::from_slice(&response.into_bytes()).unwrap();
    assert_eq!(answer["metadata"]["finalizers"], json!(["orphan"]));
    cluster.collect();
    assert_eq!(
        cluster.history(Kind::Job),
        ["Added j", "Modified j", "Deleted j"]
    );
    let pod = cluster.get(&format!("{PODS}/p2"));
    assert!(pod["metadata"].get("ownerReferences").is_none());
    assert!(pod["metadata"].get("deletionTimestamp").is_none());
}

#[test]
fn changing_one_s_mind() {
    let mut cluster = Cluster::new();
    family(&mut cluster);
    let path = format!("{JOBS}/j");
    cluster.ok("DELETE", &path, &json!({"propagationPolicy": "Foreground"}));
    let answer = cluster.ok("DELETE", &path, &json!({"propagationPolicy": "Background"}));
    assert_eq!(answer["status"], "Success");
}

#[test]
fn dependents_without_owners_are_deleted() {
    let mut cluster = Cluster::new();
    let owner = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "never", "uid": "none"}]}});
    cluster.ok("POST", PODS, &with(pod("a"), &owner));
    cluster.collect();
    assert_eq!(
        cluster.history(Kind::Pod),
        ["Added a", "Modified a", "Deleted a"]
    );
}

#[test]
fn one_living_owner_is_enough() {
    let mut cluster = Cluster::new();
    let uid = family(&mut cluster);
    let other = cluster.ok("POST", JOBS, &job("k"));
    let patch = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "k", "uid": other["metadata"]["uid"]}]}});
    cluster.typed("PATCH", &format!("{PODS}/p1"), STRATEGIC, &patch);
    cluster.ok(
        "DELETE",
        &format!("{JOBS}/j?propagationPolicy=Background"),
        &Value::Null,
    );
    cluster.collect();
    let pod = cluster.get(&format!("{PODS}/p1"));
    let owners = pod["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1);
    assert_ne!(owners[0]["uid"], uid.as_str());
    assert!(pod["metadata"].get("deletionTimestamp").is_none());
}

#[test]
fn preconditions() {
    let mut cluster = Cluster::new();
    let created = cluster.ok("POST", JOBS, &job("a"));
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let mut check = |preconditions: Value, expected: &str| {
        let body = json!({"preconditions": preconditions, "propagationPolicy": "Background"});
        let (status, answer) = cluster.send("DELETE", &format!("{JOBS}/a"), &body);
        assert_eq!(
            (status, answer["message"].as_str().unwrap()),
            (409, expected)
        );
        assert_eq!(answer["details"]["kind"], "Job");
    };
    check(
        json!({"uid": "zz"}),
        &format!(
            "Operation cannot be fulfilled on Job.batch \"a\": the UID in the precondition (zz) \
             does not match the UID in record ({uid}). The object might have been deleted and \
             then recreated"
        ),
    );
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    check(
        json!({"resourceVersion": "1"}),
        &format!(
            "Operation cannot be fulfilled on Job.batch \"a\": the ResourceVersion in the \
             precondition (1) does not match the ResourceVersion in record ({version}). The \
             object might have been modified"
        ),
    );
}

#[test]
fn a_namespace_takes_its_objects_with_it() {
    let mut cluster = Cluster::new();
    cluster.ok(
        "POST",
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "nt"}}),
    );
    let pods = "/api/v1/namespaces/nt/pods";
    let held = json!({"metadata": {"finalizers": ["x.y/z"]}});
    cluster.ok("POST", pods, &with(pod("a"), &held));
    cluster.ok("POST", "/apis/batch/v1/namespaces/nt/jobs", &job("j"));
    let answer = cluster.ok("DELETE", "/api/v1/namespaces/nt", &Value::Null);
    assert_eq!(answer["status"]["phase"], "Terminating");
    cluster.collect();
    assert_eq!(cluster.history(Kind::Job), ["Added j", "Deleted j"]);
    let (status, answer) = cluster.send("POST", pods, &pod("b"));
    assert_eq!(status, 403);
    assert_eq!(
        answer["message"],
        "pods \"b\" is forbidden: unable to create new content in namespace nt because it is \
         being terminated"
    );
    assert_eq!(
        answer["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );
    cluster.ok(
        "PATCH",
        &format!("{pods}/a"),
        &json!({"metadata": {"finalizers": null}}),
    );
    cluster.collect();
    assert_eq!(
        cluster.send("GET", "/api/v1/namespaces/nt", &Value::Null).0,
        404
    );
    let (status, answer) = cluster.send("POST", pods, &pod("b"));
    assert_eq!(
        (status, answer["message"].as_str().unwrap()),
        (404, "namespaces \"nt\" not found")
    );
}

#[test]
fn collections() {
    let mut cluster = Cluster::new();
    for name in ["a", "b", "c"] {
        let label = json!({"metadata": {"labels": {"x": name}}});
        cluster.ok("POST", PODS, &with(pod(name), &label));
    }
    let answer = cluster.ok(
        "DELETE",
        &format!("{PODS}?labelSelector=x!%3Db"),
        &Value::Null,
    );
    assert_eq!(answer["items"].as_array().unwrap().len(), 2);
    let left = cluster.get(PODS);
    assert_eq!(left["items"][0]["metadata"]["name"], "b");
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}
