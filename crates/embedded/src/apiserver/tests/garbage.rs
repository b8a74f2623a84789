//! Tests each rule about dependents (docs/rules/ttl-and-garbage.md, 3).

use super::*;

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";

/// An owner reference.
pub(super) fn reference(owner: &Value, kind: &str, blocks: bool) -> Value {
    let metadata = &owner["metadata"];
    json!({
        "apiVersion": "batch/v1",
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "blockOwnerDeletion": blocks,
    })
}

pub(super) fn owned(object: Value, owners: &[Value]) -> Value {
    with(object, &json!({"metadata": {"ownerReferences": owners}}))
}

pub(super) fn held(object: Value, finalizers: &[&str]) -> Value {
    with(object, &json!({"metadata": {"finalizers": finalizers}}))
}

/// A Pod on a node: it is removed only when its kubelet confirms.
pub(super) fn running(name: &str) -> Value {
    with(pod(name), &json!({"spec": {"nodeName": "n1"}}))
}

fn cron_job() -> Value {
    json!({
        "metadata": {"name": "c"},
        "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": job("t")["spec"]}},
    })
}

impl Cluster {
    pub(super) fn delete(&mut self, path: &str, propagation: &str) -> Value {
        let options = json!({"propagationPolicy": propagation});
        let answer = self.ok("DELETE", path, &options);
        self.collect();
        answer
    }

    /// Removes a terminating Pod, as its kubelet does.
    pub(super) fn stopped(&mut self, name: &str) {
        self.ok(
            "DELETE",
            &format!("{PODS}/{name}?gracePeriodSeconds=0"),
            &Value::Null,
        );
        self.collect();
    }

    pub(super) fn is_there(&mut self, path: &str) -> bool {
        self.request("GET", path, "", "").status == 200
    }

    pub(super) fn is_going(&mut self, path: &str) -> bool {
        self.get(path)["metadata"]["deletionTimestamp"].is_string()
    }
}

#[test]
fn a_chain_goes_from_its_end() {
    let mut cluster = Cluster::new();
    let cron_job = cluster.ok("POST", CRON_JOBS, &cron_job());
    let owner = reference(&cron_job, "CronJob", true);
    let made = cluster.ok("POST", JOBS, &owned(job("j"), &[owner]));
    let owner = reference(&made, "Job", true);
    cluster.ok("POST", PODS, &owned(running("p"), &[owner]));
    let answer = cluster.delete(&format!("{CRON_JOBS}/c"), "Foreground");
    let waits = json!(["foregroundDeletion"]);
    assert_eq!(answer["metadata"]["finalizers"], waits);
    assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(answer["metadata"]["generation"], 2);
    // The Job has dependents of its own and waits for them.
    let waiting = cluster.get(&format!("{JOBS}/j"));
    assert_eq!(waiting["metadata"]["finalizers"], waits);
    assert!(cluster.is_going(&format!("{PODS}/p")));
    // It is still readable and can be changed.
    let suspend = json!({"spec": {"suspend": true}});
    cluster.ok("PATCH", &format!("{CRON_JOBS}/c"), &suspend);
    let more = json!({"metadata": {"finalizers": ["foregroundDeletion", "x.y/z"]}});
    let (code, answer) = cluster.send("PATCH", &format!("{CRON_JOBS}/c"), &more);
    assert_eq!(code, 422, "{answer}");
    cluster.stopped("p");
    assert!(!cluster.is_there(&format!("{JOBS}/j")));
    assert!(!cluster.is_there(&format!("{CRON_JOBS}/c")));
}

#[test]
fn a_pod_counts_until_it_is_really_gone() {
    let mut cluster = Cluster::new();
    let owner = cluster.ok("POST", JOBS, &job("j"));
    let reference = reference(&owner, "Job", true);
    let pod = held(
        owned(running("p"), &[reference]),
        &["batch.kubernetes.io/job-tracking"],
    );
    cluster.ok("POST", PODS, &pod);
    let path = format!("{JOBS}/j");
    cluster.delete(&path, "Foreground");
    cluster.stopped("p");
    assert!(cluster.is_there(&path), "the finalizer holds both");
    cluster.ok(
        "PATCH",
        &format!("{PODS}/p"),
        &json!({"metadata": {"finalizers": null}}),
    );
    cluster.collect();
    assert!(!cluster.is_there(&path));
}

#[test]
fn non_blocking_dependents_are_deleted_without_waiting() {
    let mut cluster = Cluster::new();
    let owner = cluster.ok("POST", JOBS, &job("j"));
    let pod = owned(running("p"), &[reference(&owner, "Job", false)]);
    cluster.ok("POST", PODS, &pod);
    cluster.delete(&format!("{JOBS}/j"), "Foreground");
    assert!(!cluster.is_there(&format!("{JOBS}/j")));
    assert!(cluster.is_going(&format!("{PODS}/p")));
}

#[test]
fn an_owner_on_its_way_out_is_no_reason_to_stay() {
    let mut cluster = Cluster::new();
    let going = cluster.ok("POST", JOBS, &job("going"));
    let stays = cluster.ok("POST", JOBS, &job("stays"));
    let lost = json!({"metadata": {"name": "lost", "uid": "lost"}});
    let owners = [&going, &stays, &lost].map(|owner| reference(owner, "Job", true));
    cluster.ok("POST", PODS, &owned(running("p"), &owners));
    cluster.collect();
    cluster.delete(&format!("{JOBS}/going"), "Foreground");
    let pod = cluster.get(&format!("{PODS}/p"));
    let left = &pod["metadata"]["ownerReferences"];
    assert_eq!(left[0]["name"], "stays");
    assert_eq!(left.as_array().map(Vec::len), Some(1));
    assert!(!cluster.is_there(&format!("{JOBS}/going")));
    assert!(!cluster.is_going(&format!("{PODS}/p")));
}

#[test]
fn finalizers_of_a_dependent_say_how_it_goes() {
    let mut cluster = Cluster::new();
    let owner = cluster.ok("POST", CRON_JOBS, &cron_job());
    let owner = reference(&owner, "CronJob", true);
    for (name, finalizers) in [
        ("orphaning", &["orphan"][..]),
        ("waiting", &["foregroundDeletion"]),
        ("plain", &[]),
    ] {
        let object = owned(job(name), std::slice::from_ref(&owner));
        let made = cluster.ok("POST", JOBS, &held(object, finalizers));
        let pod = owned(
            running(&format!("of-{name}")),
            &[reference(&made, "Job", true)],
        );
        cluster.ok("POST", PODS, &pod);
    }
    cluster.delete(&format!("{CRON_JOBS}/c"), "Background");
    let pods = |cluster: &mut Cluster, name: &str| cluster.get(&format!("{PODS}/of-{name}"));
    let free = pods(&mut cluster, "orphaning");
    assert!(free["metadata"].get("ownerReferences").is_none());
    assert!(free["metadata"].get("deletionTimestamp").is_none());
    assert!(!cluster.is_there(&format!("{JOBS}/orphaning")));
    assert!(cluster.is_there(&format!("{JOBS}/waiting")));
    assert!(!cluster.is_there(&format!("{JOBS}/plain")));
    for name in ["waiting", "plain"] {
        let going = pods(&mut cluster, name);
        assert!(going["metadata"]["deletionTimestamp"].is_string(), "{name}");
        assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 30);
        assert!(going["metadata"]["ownerReferences"].is_array());
    }
}

#[test]
fn objects_being_deleted_are_left_alone() {
    let mut cluster = Cluster::new();
    let owner = cluster.ok("POST", JOBS, &job("j"));
    let pod = owned(running("p"), &[reference(&owner, "Job", true)]);
    cluster.ok("POST", PODS, &pod);
    cluster.ok("POST", PODS, &running("nobodys"));
    cluster.ok(
        "DELETE",
        &format!("{PODS}/p?gracePeriodSeconds=60"),
        &Value::Null,
    );
    cluster.delete(&format!("{JOBS}/j"), "Background");
    let pod = cluster.get(&format!("{PODS}/p"));
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 60);
    let history = cluster.history(Kind::Pod);
    assert_eq!(history, ["Added p", "Added nobodys", "Modified p"]);
}

#[test]
fn a_requested_propagation_policy_overrides_existing_finalizers() {
    let mut cluster = Cluster::new();
    let path = format!("{JOBS}/j");
    let finalizers = |answer: &Value| answer["metadata"]["finalizers"].clone();
    // The object's finalizer determines the propagation, unless the request does.
    cluster.ok(
        "POST",
        JOBS,
        &held(job("j"), &["foregroundDeletion", "x.y/z"]),
    );
    let answer = cluster.ok("DELETE", &path, &Value::Null);
    assert_eq!(finalizers(&answer), json!(["foregroundDeletion", "x.y/z"]));
    let answer = cluster.ok("DELETE", &path, &json!({"orphanDependents": true}));
    assert_eq!(finalizers(&answer), json!(["x.y/z", "orphan"]));
    let answer = cluster.ok("DELETE", &path, &json!({"orphanDependents": false}));
    assert_eq!(finalizers(&answer), json!(["x.y/z"]));
}

#[test]
fn no_object_is_deleted_in_two_ways() {
    let mut cluster = Cluster::new();
    let both = held(job("j"), &["orphan", "foregroundDeletion"]);
    let (code, answer) = cluster.send("POST", JOBS, &both);
    assert_eq!(code, 422);
    let message = answer["message"].as_str().expect("a message");
    let want = "finalizer orphan and foregroundDeletion cannot be both set";
    assert!(message.contains(want), "{message}");
    cluster.ok("POST", JOBS, &job("j"));
    let mut refused = |options: Value, want: &str| {
        let (code, answer) = cluster.send("DELETE", &format!("{JOBS}/j"), &options);
        assert_eq!(code, 422);
        assert_eq!(
            answer["message"],
            format!("DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: {want}")
        );
    };
    refused(
        json!({"propagationPolicy": "Background", "orphanDependents": false}),
        "Invalid value: \"Background\": orphanDependents and deletionPropagation cannot be both set",
    );
    refused(
        json!({"propagationPolicy": "Foo"}),
        "Unsupported value: \"Foo\": supported values: \"Foreground\", \"Background\", \"Orphan\", \
         \"nil\"",
    );
}

#[test]
fn a_pod_may_wait_for_the_collector() {
    let mut cluster = Cluster::new();
    cluster.ok("POST", PODS, &running("p"));
    let path = format!("{PODS}/p");
    let answer = cluster.ok("DELETE", &path, &json!({"propagationPolicy": "Foreground"}));
    assert_eq!(
        answer["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    let at_once = format!("{path}?gracePeriodSeconds=0");
    cluster.ok(
        "DELETE",
        &at_once,
        &json!({"propagationPolicy": "Foreground"}),
    );
    assert!(cluster.is_there(&path), "the collector has not looked yet");
    cluster.collect();
    assert!(!cluster.is_there(&path));
}

#[test]
fn jobs_leave_their_pods_by_default_and_say_so() {
    const WARNING: &str = "299 - \"child pods are preserved by default when jobs are deleted; set \
                           propagationPolicy=Background to remove them or set \
                           propagationPolicy=Orphan to suppress this warning\"";
    let mut cluster = Cluster::new();
    let made = cluster.ok("POST", JOBS, &job("j"));
    let pod = held(
        owned(running("p"), &[reference(&made, "Job", true)]),
        &["batch.kubernetes.io/job-tracking"],
    );
    cluster.ok("POST", PODS, &pod);
    let mut warned = |path: &str, options: &Value, code: u16| {
        let answer = cluster.request("DELETE", path, "application/json", options.to_string());
        assert_eq!(answer.status, code, "{options}");
        answer.headers.contains(&("Warning", WARNING.to_owned()))
    };
    let path = format!("{JOBS}/j");
    let other = json!({"preconditions": {"uid": "other"}});
    assert!(warned(&path, &other, 409), "also where nothing is deleted");
    assert!(warned(
        &format!("{JOBS}?labelSelector=a%3Db"),
        &json!({}),
        200
    ));
    let asked = json!({"propagationPolicy": "Orphan", "dryRun": ["All"]});
    assert!(!warned(&path, &asked, 200));
    assert!(warned(&path, &json!({}), 200));
    cluster.collect();
    // The Pod has no owner but its finalizer, which the Job controller has to remove.
    let pod = cluster.get(&format!("{PODS}/p"));
    assert!(pod["metadata"].get("ownerReferences").is_none());
    assert_eq!(
        pod["metadata"]["finalizers"],
        json!(["batch.kubernetes.io/job-tracking"])
    );
    assert!(!cluster.is_there(&path));
}

#[test]
fn cron_jobs_and_pods_take_theirs_along_by_default() {
    let mut cluster = Cluster::new();
    let made = cluster.ok("POST", CRON_JOBS, &cron_job());
    let owner = reference(&made, "CronJob", true);
    let made = cluster.ok("POST", JOBS, &owned(job("j"), &[owner]));
    let owner = reference(&made, "Job", true);
    cluster.ok("POST", PODS, &owned(running("p"), &[owner]));
    let answer = cluster.ok("DELETE", &format!("{CRON_JOBS}/c"), &Value::Null);
    assert_eq!(answer["status"], "Success");
    assert_eq!(cluster.history(Kind::CronJob), ["Added c", "Deleted c"]);
    cluster.collect();
    assert_eq!(cluster.history(Kind::Job), ["Added j", "Deleted j"]);
    assert_eq!(cluster.history(Kind::Pod), ["Added p", "Modified p"]);
}

#[test]
fn late_dependents_are_collected() {
    let mut cluster = Cluster::new();
    let owner = cluster.ok("POST", JOBS, &job("j"));
    let first = owned(running("first"), &[reference(&owner, "Job", true)]);
    cluster.ok("POST", PODS, &first);
    cluster.delete(&format!("{JOBS}/j"), "Foreground");
    let late = owned(running("late"), &[reference(&owner, "Job", true)]);
    cluster.ok("POST", PODS, &late);
    cluster.collect();
    assert!(cluster.is_going(&format!("{PODS}/late")));
    cluster.stopped("first");
    assert!(cluster.is_there(&format!("{JOBS}/j")), "it waits for both");
    cluster.stopped("late");
    assert!(!cluster.is_there(&format!("{JOBS}/j")));
}

#[test]
fn events_are_not_collected() {
    let mut cluster = Cluster::new();
    let lost = json!({"metadata": {"name": "lost", "uid": "lost"}});
    let event = json!({
        "metadata": {"name": "e", "ownerReferences": [reference(&lost, "Job", true)]},
        "involvedObject": {"namespace": "default"},
    });
    let events = "/api/v1/namespaces/default/events";
    cluster.ok("POST", events, &event);
    cluster.collect();
    assert!(cluster.is_there(&format!("{events}/e")));
}

#[test]
fn those_that_own_each_other_go_together() {
    let mut cluster = Cluster::new();
    let first = cluster.ok("POST", JOBS, &job("first"));
    let owner = reference(&first, "Job", true);
    let second = cluster.ok("POST", JOBS, &owned(job("second"), &[owner]));
    let owner = json!({"metadata": {"ownerReferences": [reference(&second, "Job", true)]}});
    cluster.ok("PATCH", &format!("{JOBS}/first"), &owner);
    cluster.delete(&format!("{JOBS}/first"), "Foreground");
    assert_eq!(cluster.get(JOBS)["items"], json!([]));
}

#[test]
fn a_dependent_that_is_another_one_by_now_is_left_alone() {
    let mut cluster = Cluster::new();
    let owner = cluster.ok("POST", JOBS, &job("j"));
    let other = cluster.ok("POST", JOBS, &job("other"));
    for name in ["free", "others"] {
        let pod = owned(pod(name), &[reference(&owner, "Job", true)]);
        cluster.ok("POST", PODS, &pod);
    }
    // The collector does not run before other objects have these names.
    let background = json!({"propagationPolicy": "Background"});
    cluster.ok("DELETE", &format!("{JOBS}/j"), &background);
    for name in ["free", "others"] {
        let at_once = format!("{PODS}/{name}?gracePeriodSeconds=0");
        cluster.ok("DELETE", &at_once, &Value::Null);
    }
    cluster.ok("POST", PODS, &pod("free"));
    let others = owned(pod("others"), &[reference(&other, "Job", true)]);
    cluster.ok("POST", PODS, &others);
    cluster.collect();
    assert!(!cluster.is_going(&format!("{PODS}/free")));
    assert!(!cluster.is_going(&format!("{PODS}/others")));
}

#[test]
fn anyone_may_say_whom_it_holds_up() {
    let mut cluster = Cluster::new();
    let owner = cluster.ok("POST", JOBS, &job("j"));
    let pod = owned(running("p"), &[reference(&owner, "Job", false)]);
    cluster.ok("POST", PODS, &pod);
    let holds = json!({"metadata": {"ownerReferences": [reference(&owner, "Job", true)]}});
    cluster.ok("PATCH", &format!("{PODS}/p"), &holds);
    cluster.delete(&format!("{JOBS}/j"), "Foreground");
    assert!(cluster.is_there(&format!("{JOBS}/j")));
    cluster.stopped("p");
    assert!(!cluster.is_there(&format!("{JOBS}/j")));
}

#[test]
fn a_big_job_goes_in_small_steps_and_after_its_last_pod() {
    const COUNT: usize = 500;
    const STEPS: usize = 20;
    let mut cluster = Cluster::new();
    let owner = reference(&cluster.ok("POST", JOBS, &job("j")), "Job", true);
    for number in 0..COUNT {
        let pod = owned(pod(&format!("p{number}")), std::slice::from_ref(&owner));
        cluster.ok("POST", PODS, &pod);
    }
    let foreground = json!({"propagationPolicy": "Foreground"});
    cluster.ok("DELETE", &format!("{JOBS}/j"), &foreground);
    let (mut left, mut rounds) = (COUNT, 0);
    while cluster.server.collect_garbage(cluster.now, STEPS) {
        // Other requests are served between two calls.
        let pods = cluster.get(PODS)["items"].as_array().map_or(0, Vec::len);
        assert!(left - pods <= STEPS, "{left}, then {pods}");
        assert!(pods == 0 || cluster.is_there(&format!("{JOBS}/j")));
        (left, rounds) = (pods, rounds + 1);
    }
    assert!(rounds >= COUNT / STEPS);
    assert!(!cluster.is_there(&format!("{JOBS}/j")));
}
