//! Creation and update of Jobs.

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

/// The errors of a create, without the name; `change` is merged into a small valid Job.
#[track_caller]
fn check(change: &Value, expected: &str) {
    let mut cluster = Cluster::new();
    let (status, answer) = cluster.send("POST", JOBS, &with(job("v"), change));
    assert_eq!(status, 422, "{change} was taken: {answer}");
    let message = answer["message"].as_str().unwrap();
    let errors = message.split_once(" is invalid: ").unwrap().1;
    assert_eq!(errors, expected, "{change}");
    assert_eq!(answer["reason"], "Invalid");
    assert_eq!(answer["details"]["kind"], "Job");
}

/// Like [`check`] for changes of the spec of an Indexed Job of three.
#[track_caller]
fn indexed(change: &Value, expected: &str) {
    let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 1});
    check(&json!({"spec": with(spec, change)}), expected);
}

#[test]
fn numbers_and_modes() {
    for field in [
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ] {
        let text = format!("spec.{field}: Invalid value: -1: must be greater than or equal to 0");
        check(&json!({"spec": {field: -1}}), &text);
    }
    indexed(
        &json!({"maxFailedIndexes": 1}),
        "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
    );
    check(
        &json!({"spec": {"completionMode": "Indexed", "parallelism": 2}}),
        "spec.completions: Required value: when completion mode is Indexed",
    );
    check(
        &json!({"spec": {"completionMode": "Foo"}}),
        "spec.completionMode: Unsupported value: \"Foo\": supported values: \"NonIndexed\", \
         \"Indexed\"",
    );
    indexed(
        &json!({"parallelism": 100_001}),
        "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when \
         completion mode is Indexed",
    );
    indexed(
        &json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 4}),
        "spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions",
    );
    indexed(
        &json!({"backoffLimitPerIndex": 1, "completions": 100_001}),
        "spec.maxFailedIndexes: Required value: must be specified when completions is above \
         100000",
    );
    indexed(
        &json!({"backoffLimitPerIndex": 1, "completions": 100_001, "maxFailedIndexes": 1,
                "parallelism": 10_001}),
        "spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when \
         completions are above 100000 and used with backoff limit per index",
    );
    check(
        &json!({"spec": {"backoffLimitPerIndex": 1}}),
        "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
    );
}

#[test]
fn managers_and_policies() {
    check(
        &json!({"spec": {"managedBy": "foo"}}),
        "spec.managedBy: Invalid value: \"foo\": must be a domain-prefixed path (such as \
         \"acme.io/foo\")",
    );
    check(
        &json!({"spec": {"managedBy": ""}}),
        "spec.managedBy: Required value",
    );
    check(
        &json!({"spec": {"podReplacementPolicy": "Foo"}}),
        "spec.podReplacementPolicy: Unsupported value: \"Foo\": supported values: \"Failed\", \
         \"TerminatingOrFailed\"",
    );
    check(
        &json!({"spec": {"successPolicy": {"rules": [{"succeededCount": 1}]}}}),
        "spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":null,\
         \"SucceededCount\":1}]}: requires indexed completion mode",
    );
    let rules = |rules: Value| json!({"successPolicy": {"rules": rules}});
    indexed(
        &rules(json!([])),
        "spec.successPolicy.rules: Required value: at least one rules must be specified when the \
         successPolicy is specified",
    );
    indexed(
        &rules(json!([{}])),
        "spec.successPolicy.rules[0]: Required value: at least one of succeededCount or \
         succeededIndexes must be specified",
    );
    indexed(
        &rules(json!([{"succeededIndexes": "5"}])),
        "spec.successPolicy.rules[0].succeededIndexes: Invalid value: \"5\": error parsing \
         succeededIndexes: too large index: \"5\"",
    );
    indexed(
        &rules(json!([{"succeededCount": 4}])),
        "spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal \
         to 3 (the number of specified completions)",
    );
    indexed(
        &rules(json!([{"succeededIndexes": "1", "succeededCount": 2}])),
        "spec.successPolicy.rules[0].succeededCount: Invalid value: 2: must be less than or equal \
         to 1 (the number of indexes in the specified succeededIndexes field)",
    );
}

#[test]
fn failure_policies() {
    let rule = |rule: Value| json!({"spec": {"podFailurePolicy": {"rules": [rule]}}});
    let codes = |codes: Value| rule(json!({"action": "FailJob", "onExitCodes": codes}));
    check(
        &rule(json!({"onExitCodes": {"operator": "In", "values": [1]}})),
        "spec.podFailurePolicy.rules[0].action: Required value: valid values: [\"Count\" \
         \"FailIndex\" \"FailJob\" \"Ignore\"]",
    );
    check(
        &rule(json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}})),
        "spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the \
         backoffLimitPerIndex to be set",
    );
    check(
        &rule(json!({"action": "Count"})),
        "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and \
         OnPodConditions is required",
    );
    check(
        &codes(json!({"operator": "In", "values": [0]})),
        "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 \
         for the In operator",
    );
    check(
        &codes(json!({"operator": "In", "values": [2, 1]})),
        "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1]: must be ordered",
    );
    check(
        &codes(json!({"operator": "In", "values": [1], "containerName": "zz"})),
        "spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: \"zz\": must be \
         one of the container or initContainer names in the pod template",
    );
    check(
        &with(
            codes(json!({"operator": "In", "values": [1]})),
            &json!({"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}}),
        ),
        "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is \
         supported when podFailurePolicy is specified",
    );
}

#[test]
fn templates_and_names() {
    let template = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    check(
        &template(json!({"restartPolicy": "Always"})),
        "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
    );
    check(
        &template(json!({"restartPolicy": "Foo"})),
        "[spec.template.spec.restartPolicy: Unsupported value: \"Foo\": supported values: \
         \"Always\", \"OnFailure\", \"Never\", spec.template.spec.restartPolicy: Unsupported \
         value: \"Foo\": supported values: \"OnFailure\", \"Never\"]",
    );
    check(
        &json!({"spec": {"template": null}}),
        "[spec.template.spec.containers: Required value, spec.template.spec.restartPolicy: \
         Required value: valid values: \"OnFailure\", \"Never\"]",
    );
    check(
        &template(json!({"containers": [{"name": "c"}]})),
        "spec.template.spec.containers[0].image: Required value",
    );
    check(
        &template(
            json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}),
        ),
        "spec.template.spec.containers[1].name: Duplicate value: \"c\"",
    );
    check(
        &template(json!({"containers": [{"name": "c", "image": "i",
                         "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]})),
        "spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
    );
    check(
        &template(json!({"containers": [{"name": "c", "image": "i", "env": [{"value": "x"}]}]})),
        "spec.template.spec.containers[0].env[0].name: Required value",
    );
    check(
        &template(json!({"activeDeadlineSeconds": 0})),
        "spec.template.spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and \
         2147483647, inclusive",
    );
    check(
        &template(
            json!({"containers": [{"name": "c", "image": "i", "resources":
                         {"requests": {"cpu": 2}, "limits": {"cpu": "1"}}}]}),
        ),
        "spec.template.spec.containers[0].resources.requests: Invalid value: \"2\": must be less \
         than or equal to cpu limit of 1",
    );
    check(
        &json!({"metadata": {"finalizers": ["orphan", "foregroundDeletion"]}}),
        "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer \
         orphan and foregroundDeletion cannot be both set",
    );
    check(
        &json!({"metadata": {"name": "a.b"}, "spec": {"completionMode": "Indexed",
                "completions": 3}}),
        "metadata.name: Invalid value: \"a.b\": will not able to create pod with invalid DNS \
         label: a.b-2",
    );
    check(
        &json!({"metadata": {"name": null}}),
        "metadata.name: Required value: name or generateName is required",
    );
}

#[test]
fn selectors() {
    let mut cluster = Cluster::new();
    let manual = json!({"spec": {"manualSelector": true}});
    let (_, answer) = cluster.send("POST", JOBS, &with(job("v"), &manual));
    assert_eq!(
        answer["message"],
        "Job.batch \"v\" is invalid: [spec.selector: Required value, \
         spec.template.metadata.labels: Invalid value: null: `selector` does not match template \
         `labels`]"
    );
    let labels = json!({"matchLabels": {"x": "y"}});
    let own = json!({"spec": {"selector": labels}});
    let (status, answer) = cluster.send("POST", JOBS, &with(job("v"), &own));
    assert_eq!(status, 422);
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("`selector` not auto-generated")
    );
    let both = json!({"spec": {
        "manualSelector": true, "selector": labels,
        "template": {"metadata": {"labels": {"x": "y"}}},
    }});
    let created = cluster.ok("POST", JOBS, &with(job("v"), &both));
    assert_eq!(created["metadata"]["labels"], json!({"x": "y"}));
}

#[test]
fn decode_errors() {
    let check = |body: &Value, query: &str, code: u16, expected: &str| {
        let (status, answer) =
            Cluster::new().send("POST", &format!("{JOBS}{query}"), &with(job("v"), body));
        assert_eq!(
            (status, answer["message"].as_str().unwrap()),
            (code, expected)
        );
    };
    check(
        &json!({"spec": {"parallelism": "3"}}),
        "",
        400,
        "Job in version \"v1\" cannot be handled as a Job: json: cannot unmarshal string into Go \
         struct field JobSpec.spec.parallelism of type int32",
    );
    check(
        &json!({"spec": {"parallelism": 1.5}}),
        "",
        400,
        "Job in version \"v1\" cannot be handled as a Job: json: cannot unmarshal number 1.5 into \
         Go struct field JobSpec.spec.parallelism of type int32",
    );
    check(
        &json!({"spec": {"parallelsim": 3, "template": {"spec": {"containers": [
            {"name": "c", "image": "i", "foo": 1}]}}}}),
        "?fieldValidation=Strict",
        400,
        "Job in version \"v1\" cannot be handled as a Job: strict decoding error: unknown field \
         \"spec.parallelsim\", unknown field \"spec.template.spec.containers[0].foo\"",
    );
    check(
        &json!({"kind": "Jobb"}),
        "",
        400,
        "Jobb in version \"v1\" cannot be handled as a Job: no kind \"Jobb\" is registered for \
         version \"batch/v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
    );
    check(
        &json!({}),
        "?fieldValidation=Foo",
        422,
        "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Foo\": \
         supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
    );
    let mut cluster = Cluster::new();
    let body = with(job("w"), &json!({"spec": {"foo": 1}})).to_string();
    let response = cluster.request("POST", JOBS, "application/json", &body);
    assert_eq!(
        response.headers,
        [(
            "Warning",
            "299 - \"unknown field \\\"spec.foo\\\"\"".to_owned()
        )]
    );
    assert!(
        cluster.get(&format!("{JOBS}/w"))["spec"]
            .get("foo")
            .is_none()
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

#[test]
fn generated_names() {
    let mut cluster = Cluster::new();
    let unnamed = with(
        job("x"),
        &json!({"metadata": {"name": null, "generateName": "x-"}}),
    );
    let created = cluster.ok("POST", JOBS, &unnamed);
    let name = created["metadata"]["name"].as_str().unwrap();
    assert_eq!((name.len(), &name[..2]), (7, "x-"));
}
