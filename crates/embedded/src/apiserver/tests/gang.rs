//! Tests Workloads and PodGroups: creation, validation, and deletion with their owner.

use super::*;

const WORKLOADS: &str = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/workloads";
const POD_GROUPS: &str = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups";

fn workload() -> Value {
    json!({
        "metadata": {"name": "w"},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
            "podGroupTemplates": [{"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}],
        },
    })
}

fn pod_group() -> Value {
    json!({
        "metadata": {"name": "g"},
        "spec": {
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
            "schedulingPolicy": {"gang": {"minCount": 2}},
        },
    })
}

fn owner(object: &Value, kind: &str, controller: bool) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": kind, "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "controller": controller,
        "blockOwnerDeletion": controller,
    })
}

/// Creates a cluster with a Job of two Pods, its Workload and its PodGroup.
fn gang() -> Cluster {
    let mut cluster = Cluster::new();
    let spec = json!({"spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2}});
    let job = cluster.ok("POST", JOBS, &with(job("j"), &spec));
    let job = owner(&job, "Job", true);
    let owned = json!({"metadata": {"ownerReferences": [job]}});
    let workload = cluster.ok("POST", WORKLOADS, &with(workload(), &owned));
    let owners = json!([job, owner(&workload, "Workload", false)]);
    let owned = json!({"metadata": {"ownerReferences": owners}});
    cluster.ok("POST", POD_GROUPS, &with(pod_group(), &owned));
    cluster
}

#[test]
fn both_kinds_are_discovered_and_served() {
    let mut cluster = gang();
    let group = cluster.get("/apis/scheduling.k8s.io");
    assert_eq!(group["preferredVersion"]["version"], "v1alpha2");
    let found = cluster.get("/apis/scheduling.k8s.io/v1alpha2");
    let names = found["resources"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["podgroups", "podgroups/status", "workloads"]);
    let other = "/apis/scheduling.k8s.io/v1";
    let response = cluster.request("GET", other, "application/json", "");
    assert_eq!(response.status, 404);

    let list = cluster.get(WORKLOADS);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("WorkloadList"), &json!("scheduling.k8s.io/v1alpha2"),)
    );
    assert_eq!(list["items"][0]["spec"], workload()["spec"]);
    let group = cluster.get(&format!("{POD_GROUPS}/g"));
    assert_eq!(
        (&group["spec"], &group["status"]),
        (&pod_group()["spec"], &json!({}))
    );
    assert_eq!(cluster.history(Kind::PodGroup), ["Added g"]);
}

#[test]
fn contradictory_objects_are_refused() {
    let mut cluster = gang();
    let mut refused = |path: &str, good: Value, change: Value, field: &str| {
        let (status, answer) = cluster.send("POST", path, &with(good, &change));
        assert_eq!(status, 422, "{answer}");
        assert_eq!(answer["details"]["causes"][0]["field"], field, "{answer}");
    };
    let templates = "spec.podGroupTemplates";
    let template = |change: Value| {
        let good = workload()["spec"]["podGroupTemplates"][0].clone();
        json!({"metadata": {"name": "x"}, "spec": {"podGroupTemplates": [with(good, &change)]}})
    };
    let spec = |change: Value| json!({"metadata": {"name": "x"}, "spec": change});
    refused(
        WORKLOADS,
        workload(),
        spec(json!({"podGroupTemplates": []})),
        templates,
    );
    refused(
        WORKLOADS,
        workload(),
        spec(json!({"controllerRef": {"name": ""}})),
        "spec.controllerRef.name",
    );
    let first = format!("{templates}[0]");
    refused(
        WORKLOADS,
        workload(),
        template(json!({"name": "A"})),
        &format!("{first}.name"),
    );
    let policy = format!("{first}.schedulingPolicy");
    for change in [json!({"gang": null}), json!({"basic": {}})] {
        let change = template(json!({"schedulingPolicy": change}));
        refused(WORKLOADS, workload(), change, &policy);
    }
    let change = template(json!({"schedulingPolicy": {"gang": {"minCount": -1}}}));
    refused(
        WORKLOADS,
        workload(),
        change,
        &format!("{policy}.gang.minCount"),
    );
    refused(
        POD_GROUPS,
        pod_group(),
        spec(json!({"podGroupTemplateRef": {"workload": null}})),
        "spec.podGroupTemplateRef",
    );
    refused(
        POD_GROUPS,
        pod_group(),
        spec(json!({"schedulingPolicy": null})),
        "spec.schedulingPolicy",
    );
    let change = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}});
    let (status, answer) = cluster.send("PATCH", &format!("{POD_GROUPS}/g"), &change);
    assert_eq!(status, 422, "{answer}");
}

#[test]
fn a_pod_group_needs_its_workload() {
    let mut cluster = gang();
    let refers = |workload: &str, template: &str| {
        let reference = json!({"workloadName": workload, "podGroupTemplateName": template});
        let spec = json!({"podGroupTemplateRef": {"workload": reference}});
        with(
            pod_group(),
            &json!({"metadata": {"name": "x"}, "spec": spec}),
        )
    };
    for (group, why) in [
        (refers("none", "t"), "Workload \"none\" not found"),
        (
            refers("w", "none"),
            "PodGroupTemplate \"none\" not found in Workload \"w\"",
        ),
    ] {
        let (status, answer) = cluster.send("POST", POD_GROUPS, &group);
        assert_eq!(status, 403);
        let message = answer["message"].as_str().unwrap();
        assert!(
            message.contains(&format!("PodGroup rejected: {why}")),
            "{message}"
        );
    }
}

#[test]
fn the_size_of_a_gang_stays() {
    let mut cluster = gang();
    let job = format!("{JOBS}/j");
    let smaller = json!({"spec": {"parallelism": 1}});
    let (status, answer) = cluster.send("PATCH", &job, &smaller);
    assert_eq!(status, 403);
    assert_eq!(
        answer["message"],
        "jobs.batch \"j\" is forbidden: cannot change parallelism for a Job referencing \
         gang-scheduled PodGroup \"g\""
    );
    cluster.ok("PATCH", &job, &json!({"spec": {"suspend": true}}));
    cluster.ok("DELETE", &format!("{POD_GROUPS}/g"), &Value::Null);
    cluster.ok("PATCH", &job, &smaller);

    let group = with(pod_group(), &json!({"spec": {"podGroupTemplateRef": null}}));
    cluster.ok("POST", POD_GROUPS, &group);
    let template = json!({"spec": {"schedulingGroup": {"podGroupName": "g"}}});
    let own = with(self::job("own"), &json!({"spec": {"template": template}}));
    cluster.ok("POST", JOBS, &own);
    let (status, _) = cluster.send(
        "PATCH",
        &format!("{JOBS}/own"),
        &json!({"spec": {"parallelism": 3}}),
    );
    assert_eq!(status, 403, "also for a group that the Job chose itself");
}

#[test]
fn a_gang_goes_with_its_job() {
    let mut cluster = gang();
    cluster.ok("DELETE", &format!("{WORKLOADS}/w"), &Value::Null);
    cluster.collect();
    let owners = cluster.get(&format!("{POD_GROUPS}/g"))["metadata"]["ownerReferences"].clone();
    assert_eq!(owners.as_array().map(Vec::len), Some(1), "the Job is left");
    cluster.ok("POST", WORKLOADS, &workload());
    let background = json!({"propagationPolicy": "Background"});
    cluster.ok("DELETE", &format!("{JOBS}/j"), &background);
    cluster.collect();
    assert_eq!(
        cluster
            .send("GET", &format!("{POD_GROUPS}/g"), &Value::Null)
            .0,
        404
    );
    cluster.ok("GET", &format!("{WORKLOADS}/w"), &Value::Null);
}
