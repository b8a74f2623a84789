//! Tests owner references: validation, lookup of the owner, and Events about owners in another namespace.

use serde_json::{Value, json};

use super::{
    garbage::{owned, reference, running},
    *,
};

#[test]
fn owners_are_known_by_uid_and_reach() {
    let mut cluster = Cluster::new();
    let before = cluster.ok("POST", JOBS, &job("j"));
    cluster.delete(&format!("{JOBS}/j"), "Background");
    let now = cluster.ok("POST", JOBS, &job("j"));
    cluster.ok(
        "POST",
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "far"}}),
    );
    let far = cluster.ok("POST", "/apis/batch/v1/namespaces/far/jobs", &job("far"));
    for (name, owner) in [("old", &before), ("new", &now), ("far", &far)] {
        let pod = owned(running(name), &[reference(owner, "Job", true)]);
        cluster.ok("POST", PODS, &pod);
    }
    cluster.collect();
    assert!(
        cluster.is_going(&format!("{PODS}/old")),
        "of another Job of the name"
    );
    assert!(!cluster.is_going(&format!("{PODS}/new")));
    assert!(
        cluster.is_going(&format!("{PODS}/far")),
        "of another namespace"
    );
}

#[test]
fn references_are_whole_and_one_controls() {
    let mut cluster = Cluster::new();
    let owner = cluster.ok("POST", JOBS, &job("j"));
    let mut whole = reference(&owner, "Job", true);
    for field in ["apiVersion", "kind", "name", "uid"] {
        let mut part = whole.clone();
        part[field] = "".into();
        let (code, answer) = cluster.send("POST", PODS, &owned(pod("p"), &[part]));
        assert_eq!(code, 422, "{field}: {answer}");
    }
    whole["controller"] = true.into();
    let mut second = whole.clone();
    second["uid"] = "another".into();
    let (code, answer) = cluster.send("POST", PODS, &owned(pod("p"), &[whole, second]));
    assert_eq!(code, 422);
    let message = answer["message"].as_str().expect("a message");
    let want = "Only one reference can have Controller set to true. Found \"true\" in references for \
                Job/j and Job/j";
    assert!(message.contains(want), "{message}");
}

#[test]
fn an_owner_that_is_given_later_must_be_there() {
    let mut cluster = Cluster::new();
    for name in ["lost", "found", "kept"] {
        cluster.ok("POST", PODS, &running(name));
    }
    let owner = reference(&cluster.ok("POST", JOBS, &job("j")), "Job", true);
    let mut nobody = owner.clone();
    nobody["uid"] = "nobody".into();
    for (name, owners) in [
        ("lost", json!([nobody])),
        ("found", json!([owner])),
        ("kept", json!([nobody, owner])),
    ] {
        let patch = json!({"metadata": {"ownerReferences": owners}});
        cluster.ok("PATCH", &format!("{PODS}/{name}"), &patch);
    }
    cluster.collect();
    assert!(cluster.is_going(&format!("{PODS}/lost")));
    for name in ["found", "kept"] {
        let pod = cluster.get(&format!("{PODS}/{name}"));
        assert_eq!(pod["metadata"]["ownerReferences"], json!([owner]), "{name}");
        assert!(pod["metadata"].get("deletionTimestamp").is_none(), "{name}");
    }
}

#[test]
fn a_cluster_scoped_object_has_no_namespaced_owner() {
    let mut cluster = Cluster::new();
    let owner = cluster.ok("POST", JOBS, &job("j"));
    let lost = json!({"metadata": {"name": "lost", "uid": "lost"}});
    let node = |name: &str, owner: &Value, kind: &str, version: &str| {
        let mut owner = reference(owner, kind, true);
        owner["apiVersion"] = version.into();
        owned(json!({"metadata": {"name": name}}), &[owner])
    };
    let nodes = "/api/v1/nodes";
    cluster.ok("POST", nodes, &node("of-job", &owner, "Job", "batch/v1"));
    cluster.ok("POST", nodes, &node("of-none", &lost, "Job", "batch/v1"));
    cluster.ok("POST", nodes, &node("of-node", &lost, "Node", "v1"));
    cluster.delete(&format!("{JOBS}/j"), "Background");
    assert!(cluster.is_there(&format!("{nodes}/of-job")));
    assert!(cluster.is_there(&format!("{nodes}/of-none")));
    assert!(!cluster.is_there(&format!("{nodes}/of-node")));
}

#[test]
fn an_owner_must_match_its_reference() {
    let mut cluster = Cluster::new();
    let made = cluster.ok("POST", JOBS, &job("j"));
    let good = reference(&made, "Job", true);
    let but = |change: Value| with(good.clone(), &change);
    let lost = but(json!({"name": "lost", "uid": "lost"}));
    let foreign = but(json!({"apiVersion": "example.com/v1", "kind": "Foo", "uid": "foo"}));
    let newer = but(json!({"apiVersion": "batch/v2"}));
    let all = [
        ("good", vec![&good], true),
        ("name", vec![&but(json!({"name": "other"}))], false),
        ("kind", vec![&but(json!({"kind": "CronJob"}))], false),
        // The server cannot look up objects of an unknown kind.
        ("version", vec![&newer], true),
        ("foreign", vec![&foreign], true),
        ("foreign-lost", vec![&foreign, &lost], true),
        ("foreign-good", vec![&foreign, &good], true),
    ]
    .map(|(name, owners, stays)| {
        let owners: Vec<Value> = owners.into_iter().cloned().collect();
        cluster.ok("POST", PODS, &owned(running(name), &owners));
        (name, owners, stays)
    });
    cluster.collect();
    for (name, owners, stays) in all {
        let pod = cluster.get(&format!("{PODS}/{name}"));
        let metadata = &pod["metadata"];
        assert_eq!(metadata["ownerReferences"], json!(owners), "{name}");
        assert_eq!(metadata["deletionTimestamp"].is_null(), stays, "{name}");
    }
}

#[test]
fn a_namespaced_object_may_have_a_cluster_scoped_owner() {
    let mut cluster = Cluster::new();
    let node = cluster.ok("POST", "/api/v1/nodes", &json!({"metadata": {"name": "n"}}));
    let owner = with(reference(&node, "Node", true), &json!({"apiVersion": "v1"}));
    cluster.ok("POST", PODS, &owned(running("p"), &[owner]));
    cluster.collect();
    assert!(!cluster.is_going(&format!("{PODS}/p")));
    cluster.delete("/api/v1/nodes/n", "Background");
    assert!(cluster.is_going(&format!("{PODS}/p")));
}

#[test]
fn an_owner_in_another_namespace_causes_an_event() {
    let mut cluster = Cluster::new();
    let namespace = json!({"metadata": {"name": "far"}});
    cluster.ok("POST", "/api/v1/namespaces", &namespace);
    let far = cluster.ok("POST", "/apis/batch/v1/namespaces/far/jobs", &job("far"));
    let near = cluster.ok("POST", JOBS, &job("near"));
    let [far, near] = [far, near].map(|owner| reference(&owner, "Job", true));
    let lost = with(near.clone(), &json!({"name": "lost", "uid": "lost"}));
    let pod = owned(running("p"), &[near.clone(), far.clone()]);
    let made = cluster.ok("POST", PODS, &pod);
    cluster.ok("POST", PODS, &owned(running("other"), &[near, lost]));
    let node = owned(
        json!({"metadata": {"name": "n"}}),
        std::slice::from_ref(&far),
    );
    cluster.ok("POST", "/api/v1/nodes", &node);
    cluster.collect();
    // Each Event is recorded once.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    cluster.ok("PATCH", "/api/v1/nodes/n", &label);
    cluster.collect();
    let list = cluster.get("/api/v1/namespaces/default/events");
    let events = list["items"].as_array().expect("a list");
    let of = |kind: &str| -> Vec<&Value> {
        let about = |event: &&Value| event["involvedObject"]["kind"] == kind;
        events.iter().filter(about).collect()
    };
    let (pods, nodes) = (of("Pod"), of("Node"));
    assert_eq!((pods.len(), nodes.len(), events.len()), (1, 1, 2));
    let message = |namespace: &str| {
        let uid = far["uid"].as_str().expect("a UID");
        format!(
            "ownerRef [batch/v1/Job, namespace: {namespace}, name: far, uid: {uid}] does not exist in \
             namespace \"{namespace}\""
        )
    };
    let involved = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "namespace": "default",
        "uid": made["metadata"]["uid"],
    });
    assert_eq!(pods[0]["involvedObject"], involved);
    assert_eq!(pods[0]["message"], message("default"));
    assert_eq!(nodes[0]["message"], message(""));
    assert_eq!(nodes[0]["involvedObject"].get("namespace"), None);
    for event in events {
        assert_eq!(event["type"], "Warning");
        assert_eq!(event["reason"], "OwnerRefInvalidNamespace");
        let component = json!({"component": "garbage-collector-controller"});
        assert_eq!(event["source"], component);
        assert_eq!(event["reportingComponent"], component["component"]);
        assert_eq!(event["count"], 1);
    }
}
