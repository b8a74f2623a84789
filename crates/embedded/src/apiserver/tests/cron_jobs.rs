//! Tests the defaults and the validation of CronJobs, and the update of their status.

use super::*;

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";

fn cron_job(spec: &Value) -> Value {
    let mut object = json!({
        "metadata": {"name": "c"},
        "spec": {
            "schedule": "0 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "busybox"}],
            }}}},
        },
    });
    for (field, value) in spec.as_object().expect("members") {
        object["spec"][field] = value.clone();
    }
    object
}

#[test]
fn missing_fields_get_defaults() {
    let mut cluster = Cluster::new();
    let made = cluster.ok(
        "POST",
        CRON_JOBS,
        &cron_job(&json!({"concurrencyPolicy": ""})),
    );
    let pod = json!({
        "containers": [{
            "image": "busybox",
            "imagePullPolicy": "Always",
            "name": "c",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Never",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    });
    // The template has no defaults of a Job, and deadline and time zone stay unset.
    let mut spec = made["spec"].clone();
    let job = spec["jobTemplate"]["spec"].take();
    assert_eq!(job, json!({"template": {"metadata": {}, "spec": pod}}));
    spec.as_object_mut()
        .expect("an object")
        .remove("jobTemplate");
    assert_eq!(
        spec,
        json!({
            "concurrencyPolicy": "Allow",
            "failedJobsHistoryLimit": 1,
            "schedule": "0 * * * *",
            "successfulJobsHistoryLimit": 3,
            "suspend": false,
        })
    );
    assert_eq!(made["metadata"]["generation"], 1);
}

#[test]
fn each_row_of_the_rules_holds() {
    let rows = include_str!("cron_jobs.rows").lines();
    for line in rows.filter(|line| !line.starts_with('#')) {
        let mut columns = line.splitn(3, " | ");
        let mut column = || columns.next().expect("three columns");
        let (row, change, want) = (column(), column(), column());
        let change: Value = serde_json::from_str(change).expect("JSON");
        let object = with(cron_job(&json!({})), &json!({"spec": change}));
        let (code, answer) = Cluster::new().send("POST", CRON_JOBS, &object);
        if want == "-" {
            assert_eq!(code, 201, "{row}: {answer}");
            continue;
        }
        assert_eq!(code, 422, "{row}: {answer}");
        let said = answer["message"].as_str().expect("a message");
        let want = format!("CronJob.batch \"c\" is invalid: {want}");
        assert_eq!(said, want, "{row}");
    }
}

/// The error or the warnings of an update of a stored CronJob. Older servers may have accepted values that creation
/// rejects.
fn changed(old: &Value, change: &Value) -> Vec<String> {
    let mut cluster = Cluster::new();
    let stored = cluster.ok("POST", CRON_JOBS, &cron_job(&json!({})));
    let stored = with(stored, &json!({"spec": old}));
    let tree = stored.as_object().expect("an object");
    cluster.server.store_put(Kind::CronJob, tree);
    let change = json!({"spec": change}).to_string();
    let response = cluster.request("PATCH", &format!("{CRON_JOBS}/c"), MERGE, &change);
    if response.status == 200 {
        let headers = response.headers.into_iter();
        return headers.map(|(_, text)| text).collect();
    }
    let answer: Value = serde_json::from_slice(&response.into_bytes()).expect("JSON");
    let message = answer["message"].as_str().expect("a message");
    vec![message.replace("CronJob.batch \"c\" is invalid: ", "")]
}

#[test]
fn a_zone_in_the_schedule_may_stay_but_not_come() {
    let zoned = json!({"schedule": "TZ=UTC 0 * * * *"});
    let warning = "299 - \"cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                   https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more \
                   details\"";
    assert_eq!(changed(&zoned, &json!({"suspend": true})), [warning]);
    let other = json!({"schedule": "CRON_TZ=UTC 5 * * * *"});
    assert_eq!(changed(&zoned, &other), [warning]);
    assert!(changed(&zoned, &json!({"schedule": "5 * * * *"})).is_empty());
    assert!(changed(&json!({}), &json!({"suspend": true})).is_empty());
    assert_eq!(
        changed(&json!({}), &zoned),
        [
            r#"spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"#
        ]
    );
    assert_eq!(
        changed(&zoned, &json!({"timeZone": "UTC"})),
        [
            r#"spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule"#
        ]
    );
}

#[test]
fn a_time_zone_that_is_known_no_more_may_stay_but_not_come() {
    let gone = json!({"timeZone": "Mars/Base"});
    assert!(changed(&gone, &json!({"suspend": true})).is_empty());
    assert!(changed(&gone, &json!({"timeZone": null})).is_empty());
    assert_eq!(
        changed(&gone, &json!({"timeZone": "Mars/Camp"})),
        [r#"spec.timeZone: Invalid value: "Mars/Camp": unknown time zone Mars/Camp"#]
    );
}

#[test]
fn a_change_is_checked_as_a_new_one_is() {
    let changes = [
        (
            json!({"jobTemplate": {"spec": {"selector": {"matchLabels": {"a": "b"}}}}}),
            r#"spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` will be auto-generated"#,
        ),
        (
            json!({"jobTemplate": {"spec": {"manualSelector": true}}}),
            r#"spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false""#,
        ),
        (
            json!({"schedule": "foo"}),
            r#"spec.schedule: Invalid value: "foo": expected exactly 5 fields, found 1: [foo]"#,
        ),
        (
            json!({"startingDeadlineSeconds": -1}),
            "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            json!({"concurrencyPolicy": "Foo"}),
            r#"spec.concurrencyPolicy: Unsupported value: "Foo": supported values: "Allow", "Forbid", "Replace""#,
        ),
        (
            json!({"failedJobsHistoryLimit": -1}),
            "spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
        ),
    ];
    for (change, want) in changes {
        assert_eq!(changed(&json!({}), &change), [want]);
    }
}

#[test]
fn names_leave_room_for_the_minute_and_dots_are_warned_of() {
    let named = |name: &str| {
        let object = with(cron_job(&json!({})), &json!({"metadata": {"name": name}}));
        let text = object.to_string();
        Cluster::new().request("POST", CRON_JOBS, "application/json", &text)
    };
    assert_eq!(named(&"n".repeat(52)).status, 201);
    let long = "n".repeat(53);
    let refusal = named(&long);
    assert_eq!(refusal.status, 422);
    let answer: Value = serde_json::from_slice(&refusal.into_bytes()).expect("JSON");
    assert_eq!(
        answer["message"],
        format!(
            "CronJob.batch \"{long}\" is invalid: metadata.name: Invalid value: \"{long}\": must be \
             no more than 52 characters"
        )
    );
    let dotted = named("a.b");
    assert_eq!(dotted.status, 201);
    let warning = "299 - \"metadata.name: this is used in Pod names and hostnames, which can result in \
                   surprising behavior; a DNS label is recommended: [must not contain dots]\"";
    assert_eq!(dotted.headers, [("Warning", warning.to_owned())]);
}

#[test]
fn odd_pod_template_fields_cause_warnings() {
    let grace = |seconds: i32| {
        let pod = json!({"spec": {"terminationGracePeriodSeconds": seconds}});
        json!({"jobTemplate": {"spec": {"template": pod}}})
    };
    let warning = "299 - \"spec.jobTemplate.spec.template.spec.terminationGracePeriodSeconds: must be \
                   >= 0; negative values are invalid and will be treated as 1\"";
    let object = with(cron_job(&json!({})), &json!({"spec": grace(-1)})).to_string();
    let made = Cluster::new().request("POST", CRON_JOBS, "application/json", &object);
    assert_eq!(made.headers, [("Warning", warning.to_owned())]);
    assert_eq!(changed(&json!({}), &grace(-1)), [warning]);
    assert!(
        changed(&grace(-1), &json!({})).is_empty(),
        "nothing changed"
    );
    assert!(changed(&grace(-1), &grace(1)).is_empty());
}

#[test]
fn status_and_spec_are_written_apart() {
    let mut cluster = Cluster::new();
    let mut object = cron_job(&json!({"timeZone": "UTC", "suspend": true}));
    object["status"] = json!({"lastScheduleTime": "2020-01-01T00:00:00Z"});
    let made = cluster.ok("POST", CRON_JOBS, &object);
    assert_eq!(made["status"], json!({}));
    let path = format!("{CRON_JOBS}/c");
    let status =
        json!({"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}, "spec": {"suspend": false}});
    let patched = cluster.ok("PATCH", &format!("{path}/status"), &status);
    assert_eq!(patched["spec"]["suspend"], true);
    assert_eq!(patched["metadata"]["generation"], 1);
    let patched = cluster.ok(
        "PATCH",
        &path,
        &json!({"status": null, "spec": {"suspend": false}}),
    );
    assert_eq!(
        patched["status"]["lastScheduleTime"],
        "2020-01-01T00:00:00Z"
    );
    assert_eq!(patched["metadata"]["generation"], 2);
    let (code, error) = cluster.send(
        "PATCH",
        &path,
        &json!({"spec": {"schedule": "TZ=UTC 0 * * * *"}}),
    );
    assert_eq!(code, 422, "{error}");
}
#[test]
fn null_is_as_unset() {
    let mut cluster = Cluster::new();
    let limits = json!({"successfulJobsHistoryLimit": null, "failedJobsHistoryLimit": null});
    let made = cluster.ok("POST", CRON_JOBS, &cron_job(&limits));
    let are_default = |object: &Value| {
        let spec = &object["spec"];
        assert_eq!(spec["successfulJobsHistoryLimit"], 3);
        assert_eq!(spec["failedJobsHistoryLimit"], 1);
    };
    are_default(&made);
    let path = format!("{CRON_JOBS}/c");
    let limits = |ok: u32, bad: u32| json!({"spec": {"successfulJobsHistoryLimit": ok, "failedJobsHistoryLimit": bad}});
    cluster.ok("PATCH", &path, &limits(7, 8));
    let unset =
        json!({"spec": {"successfulJobsHistoryLimit": null, "failedJobsHistoryLimit": null}});
    are_default(&cluster.ok("PATCH", &path, &unset));
}

#[test]
fn every_field_of_spec_and_status_is_kept() {
    let mut cluster = Cluster::new();
    let spec = json!({
        "timeZone": "UTC",
        "startingDeadlineSeconds": 9_000_000_000_i64,
        "concurrencyPolicy": "Replace",
        "suspend": true,
        "successfulJobsHistoryLimit": 4,
        "failedJobsHistoryLimit": 5,
    });
    let made = cluster.ok("POST", CRON_JOBS, &cron_job(&spec));
    for (field, value) in spec.as_object().expect("members") {
        assert_eq!(made["spec"][field], *value);
    }
    let reference = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": "default",
        "name": "c-1",
        "uid": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
        "resourceVersion": "7",
    });
    let status = json!({
        "active": [reference],
        "lastScheduleTime": "2020-01-01T00:00:00Z",
        "lastSuccessfulTime": "2020-01-01T00:00:05Z",
    });
    let path = format!("{CRON_JOBS}/c/status");
    let patched = cluster.ok("PATCH", &path, &json!({"status": status}));
    assert_eq!(patched["status"], status);
    // The list is atomic: it is not merged.
    let empty = json!({"status": {"active": []}});
    let (code, patched) = cluster.typed("PATCH", &path, STRATEGIC, &empty);
    assert_eq!(code, 200, "{patched}");
    let active = patched["status"]["active"].as_array();
    assert!(active.is_none_or(Vec::is_empty), "{patched}");
    // The status is not validated; labels and annotations are written with it.
    let odd = json!({
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "status": {"lastScheduleTime": "2999-01-01T00:00:00Z", "lastSuccessfulTime": null},
    });
    let patched = cluster.ok("PATCH", &path, &odd);
    assert_eq!(patched["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(patched["metadata"]["annotations"], json!({"c": "d"}));
    assert_eq!(patched["metadata"]["generation"], 1);
}

#[test]
fn there_is_one_version_and_a_short_name() {
    let mut cluster = Cluster::new();
    let beta = CRON_JOBS.replace("v1", "v1beta1");
    let answer = cluster.request("GET", &beta, "", "");
    assert_eq!(answer.status, 404);
    let list = cluster.get("/apis/batch/v1");
    let all = list["resources"].as_array().expect("resources");
    let found = |name: &str| {
        let found = all.iter().find(|resource| resource["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {list}"))
    };
    let resource = found("cronjobs");
    assert_eq!(resource["shortNames"], json!(["cj"]));
    assert_eq!(resource["categories"], json!(["all"]));
    assert_eq!(
        found("cronjobs/status")["verbs"],
        json!(["get", "patch", "update"])
    );
}

#[test]
fn fields_to_select_by_are_name_and_namespace() {
    let mut cluster = Cluster::new();
    for name in ["a", "b"] {
        let object = with(cron_job(&json!({})), &json!({"metadata": {"name": name}}));
        cluster.ok("POST", CRON_JOBS, &object);
    }
    let by = |cluster: &mut Cluster, field: &str| {
        cluster.send(
            "GET",
            &format!("{CRON_JOBS}?fieldSelector={field}"),
            &Value::Null,
        )
    };
    let (_, list) = by(&mut cluster, "metadata.name%3Db");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
    let (code, answer) = by(&mut cluster, "spec.suspend%3Dtrue");
    assert_eq!(code, 400);
    assert_eq!(
        answer["message"],
        r#""spec.suspend" is not a known field selector: only "metadata.name", "metadata.namespace""#
    );
}

#[test]
fn every_verb_works() {
    let mut cluster = Cluster::new();
    let object = with(
        cron_job(&json!({})),
        &json!({"metadata": {"labels": {"of": "walk"}}}),
    );
    let made = cluster.ok("POST", CRON_JOBS, &object);
    let path = format!("{CRON_JOBS}/c");
    assert_eq!(cluster.get(&path), made);
    let list = cluster.get("/apis/batch/v1/cronjobs?labelSelector=of%3Dwalk");
    assert_eq!(list["items"][0]["metadata"]["uid"], made["metadata"]["uid"]);
    let patched = cluster.ok(
        "PATCH",
        &path,
        &json!({"metadata": {"annotations": {"patched": "true"}}}),
    );
    assert_eq!(patched["metadata"]["annotations"]["patched"], "true");
    let replaced = with(patched, &json!({"spec": {"suspend": true}}));
    let replaced = cluster.ok("PUT", &path, &replaced);
    assert_eq!(replaced["spec"]["suspend"], true);
    let status = format!("{path}/status");
    let time = json!({"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}});
    let patched = cluster.ok("PATCH", &status, &time);
    let put = with(
        patched,
        &json!({"status": {"lastSuccessfulTime": "2020-01-01T00:00:09Z"}}),
    );
    let put = cluster.ok("PUT", &status, &put);
    assert_eq!(put["status"]["lastSuccessfulTime"], "2020-01-01T00:00:09Z");
    assert_eq!(cluster.get(&status)["status"], put["status"]);
    let answer = cluster.ok("DELETE", &path, &Value::Null);
    assert_eq!(answer["status"], "Success");
    assert_eq!(cluster.send("GET", &path, &Value::Null).0, 404);
    cluster.ok("POST", CRON_JOBS, &object);
    cluster.ok(
        "DELETE",
        &format!("{CRON_JOBS}?labelSelector=of%3Dwalk"),
        &Value::Null,
    );
    assert_eq!(cluster.get(CRON_JOBS)["items"], json!([]));
    let history = cluster.history(Kind::CronJob);
    let changes = ["Modified c"; 4];
    assert_eq!(history[0], "Added c");
    assert_eq!(history[1..5], changes);
    assert_eq!(history[5..], ["Deleted c", "Added c", "Deleted c"]);
}
