//! Tests creation and update of Jobs, as far as no case in `tests/conformance_api` does.

use super::*;

#[test]
fn a_new_job_is_filled_in() {
    let mut cluster = Cluster::new();
    let created = cluster.ok("POST", JOBS, &job("a"));
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let labels = json!({
        "controller-uid": uid, "batch.kubernetes.io/controller-uid": uid,
        "job-name": "a", "batch.kubernetes.io/job-name": "a",
    });
    assert_eq!(created["metadata"]["labels"], labels);
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["status"], json!({}));
    let spec = &created["spec"];
    assert_eq!(spec["template"]["metadata"]["labels"], labels);
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    assert_eq!(spec["selector"], selector);
    for (field, expected) in [
        ("completions", json!(1)),
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("manualSelector", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        assert_eq!(spec[field], expected, "{field}");
    }
    assert_eq!(
        spec["template"]["spec"],
        json!({
            "containers": [{
                "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }],
            "restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "securityContext": {},
            "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
        })
    );
}

#[test]
fn an_indexed_job_with_dots_in_its_name_is_refused() {
    let mut cluster = Cluster::new();
    let dotted = json!({
        "metadata": {"name": "a.b"}, "spec": {"completionMode": "Indexed", "completions": 3},
    });
    let (status, answer) = cluster.send("POST", JOBS, &with(job("v"), &dotted));
    assert_eq!(status, 422, "{answer}");
    assert_eq!(
        answer["message"],
        "Job.batch \"a.b\" is invalid: metadata.name: Invalid value: \"a.b\": will not able to create \
         pod with invalid DNS label: a.b-2"
    );
}

#[test]
fn updates() {
    let mut cluster = Cluster::new();
    let indexed =
        json!({"spec": {"completionMode": "Indexed", "completions": 3, "parallelism": 3}});
    cluster.ok("POST", JOBS, &with(job("i"), &indexed));
    cluster.ok("POST", JOBS, &job("n"));
    let mut check = |name: &str, patch: Value, expected: Result<u64, &str>| {
        let (_, answer) = cluster.send("PATCH", &format!("{JOBS}/{name}"), &patch);
        match expected {
            Ok(generation) => assert_eq!(answer["metadata"]["generation"], generation, "{answer}"),
            Err(text) => {
                let message = answer["message"].as_str().unwrap_or_default();
                assert!(message.contains(text), "{patch}: {message}");
            }
        }
    };
    check("n", json!({"spec": {"parallelism": 5}}), Ok(2));
    check("n", json!({"metadata": {"labels": {"a": "b"}}}), Ok(2));
    check("n", json!({"spec": {"suspend": true}}), Ok(3));
    check(
        "n",
        json!({"spec": {"completions": 2}}),
        Err("spec.completions: Invalid value: 2: field is immutable"),
    );
    check(
        "n",
        json!({"spec": {"completionMode": "Indexed"}}),
        Err("spec.completionMode: Invalid value: \"Indexed\": field is immutable"),
    );
    check(
        "i",
        json!({"spec": {"completions": 4}}),
        Err(
            "spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism",
        ),
    );
    check(
        "i",
        json!({"spec": {"completions": 4, "parallelism": 4}}),
        Ok(2),
    );
    let selector = json!({"template": {"spec": {"nodeSelector": {"a": "b"}}}});
    check(
        "i",
        json!({"spec": selector}),
        Err("spec.template: Invalid value: "),
    );
    check("n", json!({"spec": selector}), Ok(4));
    check(
        "n",
        json!({"spec": {"template": {"spec": {"hostNetwork": true}}}}),
        Err("spec.template.spec: Invalid value: "),
    );
    check(
        "n",
        json!({"metadata": {"uid": "2"}}),
        Err("metadata.uid: Invalid value: \"2\": field is immutable"),
    );
}

#[test]
fn writes_that_change_nothing_keep_the_version() {
    let mut cluster = Cluster::new();
    let created = cluster.ok("POST", JOBS, &job("a"));
    let path = format!("{JOBS}/a");
    let same = cluster.ok("PUT", &path, &created);
    assert_eq!(
        same["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );
    cluster.ok("PATCH", &path, &json!({"spec": {"parallelism": 1}}));
    assert_eq!(cluster.history(Kind::Job), ["Added a"]);
    cluster.ok("PATCH", &path, &json!({"spec": {"parallelism": 2}}));
    let (status, answer) = cluster.send("PUT", &path, &created);
    assert_eq!(status, 409);
    assert_eq!(
        answer["message"],
        "Operation cannot be fulfilled on jobs.batch \"a\": the object has been modified; please \
         apply your changes to the latest version and try again"
    );
}

#[test]
fn dry_runs_store_nothing() {
    let mut cluster = Cluster::new();
    let created = cluster.ok("POST", &format!("{JOBS}?dryRun=All"), &job("a"));
    assert!(
        created["metadata"].get("resourceVersion").is_none(),
        "{created}"
    );
    cluster.ok("POST", JOBS, &job("b"));
    cluster.ok(
        "PATCH",
        &format!("{JOBS}/b?dryRun=All"),
        &json!({"spec": {"parallelism": 9}}),
    );
    cluster.ok("DELETE", &format!("{JOBS}/b?dryRun=All"), &Value::Null);
    assert_eq!(cluster.history(Kind::Job), ["Added b"]);
}
