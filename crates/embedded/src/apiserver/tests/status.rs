//! Tests the rules about a Job's status.

use super::*;

/// Writes the status `before`, then `after`, to a Job; `expected` is the error, if any.
#[track_caller]
fn check(spec: &Value, before: &Value, after: &Value, expected: Option<&str>) {
    let mut cluster = Cluster::new();
    cluster.ok("POST", JOBS, &with(job("s"), &json!({"spec": spec})));
    let path = format!("{JOBS}/s/status");
    if before.as_object().is_some_and(|before| !before.is_empty()) {
        cluster.ok("PATCH", &path, &json!({"status": before}));
    }
    let mut whole = cluster.get(&format!("{JOBS}/s"));
    whole["status"] = after.clone();
    let (status, answer) = cluster.send("PUT", &path, &whole);
    match expected {
        None => assert_eq!(status, 200, "{after}: {answer}"),
        Some(text) => {
            assert_eq!(status, 422, "{after} was taken");
            let message = answer["message"].as_str().unwrap();
            assert!(message.contains(text), "{after}: {message}");
        }
    }
}

fn conditions(types: &[&str]) -> Value {
    types
        .iter()
        .map(|it| json!({"type": it, "status": "True"}))
        .collect()
}

const T1: &str = "2026-11-21T03:00:01Z";
const T2: &str = "2026-11-21T03:00:02Z";

#[test]
fn single_states() {
    let plain = json!({});
    let indexed = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 1});
    let per_index = with(indexed.clone(), &json!({"backoffLimitPerIndex": 1}));
    let complete = conditions(&["SuccessCriteriaMet", "Complete"]);
    let done = json!({"conditions": complete, "startTime": T1, "completionTime": T2});
    check(&plain, &json!({}), &done, None);
    let failed = json!({"conditions": conditions(&["FailureTarget", "Failed"]), "startTime": T1});
    check(&plain, &json!({}), &failed, None);

    let cases: &[(&Value, Value, &str)] = &[
        (
            &plain,
            json!({"active": -1}),
            "status.active: Invalid value: -1: must be greater",
        ),
        (
            &plain,
            json!({"uncountedTerminatedPods": {"succeeded": [""]}}),
            "status.uncountedTerminatedPods.succeeded[0]: Invalid value: \"\": must not be empty",
        ),
        (
            &plain,
            json!({"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}}),
            "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
        ),
        (
            &plain,
            with(
                done.clone(),
                &json!({"conditions": conditions(&["Complete", "Failed"])}),
            ),
            "status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
        ),
        (
            &plain,
            json!({"completionTime": T1}),
            "cannot set completionTime when there is no Complete=True condition",
        ),
        (
            &plain,
            with(done.clone(), &json!({"completionTime": null})),
            "status.completionTime: Required value: completionTime is required for Complete jobs",
        ),
        (
            &plain,
            with(
                done.clone(),
                &json!({"startTime": T2, "completionTime": T1}),
            ),
            "must be equal to or after `startTime`",
        ),
        (
            &plain,
            with(
                failed.clone(),
                &json!({"conditions": conditions(&["Failed"])}),
            ),
            "cannot set Failed=True condition without the FailureTarget=true condition",
        ),
        (
            &plain,
            with(
                done.clone(),
                &json!({"conditions": conditions(&["Complete"])}),
            ),
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ),
        (
            &plain,
            with(done.clone(), &json!({"active": 1})),
            "status.active: Invalid value: 1: active>0 is invalid for finished job",
        ),
        (
            &plain,
            with(done.clone(), &json!({"startTime": null})),
            "status.startTime: Required value: startTime is required for finished job",
        ),
        (
            &plain,
            with(
                done.clone(),
                &json!({"uncountedTerminatedPods": {"succeeded": ["a"]}}),
            ),
            "status.uncountedTerminatedPods: Invalid value: {\"Succeeded\":[\"a\"],\
             \"Failed\":null}: must be empty for finished job",
        ),
        (
            &indexed,
            json!({"completedIndexes": "7"}),
            "status.completedIndexes: Invalid value: \"7\": error parsing completedIndexes: too \
             large index: \"7\"",
        ),
        (
            &plain,
            json!({"completedIndexes": "0"}),
            "cannot set non-empty completedIndexes when non-indexed completion mode",
        ),
        (
            &indexed,
            json!({"failedIndexes": ""}),
            "cannot set non-null failedIndexes when backoffLimitPerIndex is null",
        ),
        (
            &per_index,
            json!({"completedIndexes": "0-1", "failedIndexes": "1"}),
            "status.failedIndexes: Invalid value: \"1\": failedIndexes and completedIndexes \
             overlap at index: 1",
        ),
        (
            &plain,
            with(done.clone(), &json!({"terminating": 1})),
            "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job",
        ),
        (
            &plain,
            json!({"ready": 2, "active": 1}),
            "cannot set more ready pods than active",
        ),
        (
            &plain,
            json!({"conditions": conditions(&["SuccessCriteriaMet", "FailureTarget"])}),
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ),
    ];
    for (spec, after, expected) in cases {
        check(spec, &json!({}), after, Some(expected));
    }
}

#[test]
fn transitions() {
    let plain = json!({});
    let target = json!({"conditions": conditions(&["FailureTarget"])});
    check(
        &plain,
        &target,
        &json!({}),
        Some("cannot disable the terminal FailureTarget=True condition"),
    );
    let time = json!({"startTime": T1, "completionTime": T1});
    let complete = json!({"conditions": conditions(&["SuccessCriteriaMet", "Complete"])});
    check(
        &plain,
        &with(complete, &time),
        &json!({"startTime": T1}),
        Some("cannot disable the terminal Complete=True condition"),
    );
    check(
        &plain,
        &json!({"conditions": conditions(&["FailureTarget", "Failed"]), "startTime": T1}),
        &json!({"startTime": T1}),
        Some("cannot disable the terminal Failed=True condition"),
    );
    check(
        &plain,
        &json!({"conditions": conditions(&["SuccessCriteriaMet"])}),
        &json!({}),
        Some("cannot disable the SuccessCriteriaMet=True condition"),
    );
    check(
        &plain,
        &json!({"failed": 2}),
        &json!({"failed": 1}),
        Some("status.failed: Invalid value: 1: cannot decrease the failed counter"),
    );
    check(
        &plain,
        &json!({"succeeded": 2}),
        &json!({"succeeded": 1}),
        Some("cannot decrease the succeeded counter"),
    );
    let elastic = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3});
    check(
        &elastic,
        &json!({"succeeded": 2}),
        &json!({"succeeded": 1}),
        None,
    );
    check(
        &plain,
        &json!({"startTime": T1}),
        &json!({"startTime": T2}),
        Some("field is immutable for unsuspended job once set"),
    );
    check(
        &json!({"suspend": true}),
        &json!({"startTime": T1}),
        &json!({}),
        None,
    );
    let resumed =
        json!({"startTime": T2, "conditions": [{"type": "Suspended", "status": "False"}]});
    let suspended = json!({"startTime": T1, "conditions": conditions(&["Suspended"])});
    check(&plain, &suspended, &resumed, None);
    let done = json!({"conditions": conditions(&["SuccessCriteriaMet", "Complete"]),
                      "startTime": T1, "completionTime": T1});
    check(
        &plain,
        &done,
        &with(done.clone(), &json!({"completionTime": T2})),
        Some("status.completionTime: Invalid value: \"2026-11-21T03:00:02Z\": field is immutable"),
    );
}

#[test]
fn status_writes_leave_the_spec_alone() {
    let mut cluster = Cluster::new();
    cluster.ok("POST", JOBS, &job("a"));
    let patch = json!({"spec": {"parallelism": 7}, "status": {"active": 1}});
    let answer = cluster.ok("PATCH", &format!("{JOBS}/a/status"), &patch);
    assert_eq!(answer["spec"]["parallelism"], 1);
    assert_eq!(answer["status"]["active"], 1);
    assert_eq!(answer["metadata"]["generation"], 1);
    let answer = cluster.ok(
        "PATCH",
        &format!("{JOBS}/a"),
        &json!({"status": {"active": 5}}),
    );
    assert_eq!(answer["status"]["active"], 1);
}

/// A Job named `s` with this status in the protobuf form that clients send.
fn in_protobuf(status: &[u8]) -> Vec<u8> {
    let field = |number: u8, content: &[u8]| {
        let head = [number << 3 | 2, u8::try_from(content.len()).unwrap()];
        [&head, content].concat()
    };
    let head = [field(1, b"batch/v1"), field(2, b"Job")].concat();
    let metadata = field(1, &[field(1, b"s"), field(3, b"default")].concat());
    let job = [metadata, field(3, status)].concat();
    [b"k8s\0".to_vec(), field(1, &head), field(2, &job)].concat()
}

#[test]
fn a_status_in_protobuf_is_written_or_refused() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let mut cluster = Cluster::new();
    cluster.ok("POST", JOBS, &job("s"));
    let path = format!("{JOBS}/s/status");
    // `active` is 1, and `uncountedTerminatedPods` is empty.
    let body = in_protobuf(&[4 << 3, 1, 8 << 3 | 2, 0]);
    let answer = cluster.request("PUT", &path, PROTOBUF, body);
    assert_eq!(answer.status, 200);
    let status = json!({"active": 1, "uncountedTerminatedPods": {}});
    assert_eq!(cluster.get(&format!("{JOBS}/s"))["status"], status);
    // An unknown field is not dropped silently.
    let answer = cluster.request("PUT", &path, PROTOBUF, in_protobuf(&[15 << 3, 1]));
    assert_eq!(answer.status, 415);
    assert_eq!(cluster.get(&format!("{JOBS}/s"))["status"], status);
}
