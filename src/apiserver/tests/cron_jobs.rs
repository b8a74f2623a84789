//! CronJobs: what is filled in, refused and kept apart.

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

fn template(spec: &Value) -> Value {
    let mut object = cron_job(&json!({}));
    for (field, value) in spec.as_object().expect("members") {
        object["spec"]["jobTemplate"]["spec"][field] = value.clone();
    }
    object
}

/// The message of a refusal, behind the name of what is refused.
fn refused(object: &Value) -> String {
    let (code, status) = Cluster::new().send("POST", CRON_JOBS, object);
    assert_eq!(code, 422, "{status}");
    let message = status["message"].as_str().expect("a message");
    message
        .split_once(" is invalid: ")
        .expect("of that form")
        .1
        .to_owned()
}

#[test]
fn what_is_not_said_has_its_default() {
    let mut cluster = Cluster::new();
    let made = cluster.ok(
        "POST",
        CRON_JOBS,
        &cron_job(&json!({"concurrencyPolicy": ""})),
    );
    let spec = &made["spec"];
    assert_eq!(spec["concurrencyPolicy"], "Allow");
    assert_eq!(spec["suspend"], false);
    assert_eq!(
        (
            &spec["successfulJobsHistoryLimit"],
            &spec["failedJobsHistoryLimit"]
        ),
        (&json!(3), &json!(1))
    );
    let job = &spec["jobTemplate"]["spec"];
    assert_eq!(
        job.get("backoffLimit"),
        None,
        "a template keeps what is unset"
    );
    assert_eq!(job["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    assert_eq!(made["metadata"]["generation"], 1);
}

#[test]
fn schedules_and_zones_are_checked_in_upstreams_words() {
    let zone = |zone: &str, why: &str| {
        let said = refused(&cron_job(&json!({"timeZone": zone})));
        assert_eq!(said, why, "{zone}");
    };
    let schedule = |text: &str, why: &str| {
        let said = refused(&cron_job(&json!({"schedule": text})));
        let want = format!("spec.schedule: Invalid value: {}: {why}", Value::from(text));
        assert_eq!(said, want, "{text}");
    };
    assert_eq!(
        refused(&cron_job(&json!({"schedule": ""}))),
        "spec.schedule: Required value"
    );
    schedule("foo", "expected exactly 5 fields, found 1: [foo]");
    schedule("60 * * * *", "end of range (60) above maximum (59): 60");
    schedule(
        "@every 1d",
        r#"failed to parse duration @every 1d: time: unknown unit "d" in duration "1d""#,
    );
    schedule(
        "TZ=UTC 0 * * * *",
        "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
    );
    let both = refused(&cron_job(&json!({"schedule": "TZ=Foo 0 * * * *"})));
    assert!(
        both.contains("provided bad location Foo: unknown time zone Foo, spec.schedule: "),
        "{both}"
    );
    let both = refused(&cron_job(&json!({"schedule": "TZ=UTC"})));
    assert!(
        both.contains("slice bounds out of range [:-1], spec.schedule: "),
        "{both}"
    );
    zone(
        "",
        r#"spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string"#,
    );
    let local =
        "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
    zone(
        "Local",
        &format!(r#"spec.timeZone: Invalid value: "Local": {local}"#),
    );
    zone(
        "local",
        &format!(
            r#"[spec.timeZone: Invalid value: "local": {local}, spec.timeZone: Invalid value: "local": unknown time zone local]"#
        ),
    );
    for bad in [
        "europe/london",
        "UTC/",
        "-x",
        "../etc/x",
        "A//B",
        "Mars/Base",
    ] {
        zone(
            bad,
            &format!(r#"spec.timeZone: Invalid value: "{bad}": unknown time zone {bad}"#),
        );
    }
}

#[test]
fn numbers_policies_names_and_templates_are_checked() {
    let said = |spec: Value| refused(&cron_job(&spec));
    let negative = "Invalid value: -1: must be greater than or equal to 0";
    assert_eq!(
        said(json!({"startingDeadlineSeconds": -1})),
        format!("spec.startingDeadlineSeconds: {negative}")
    );
    assert_eq!(
        said(json!({"successfulJobsHistoryLimit": -1})),
        format!("spec.successfulJobsHistoryLimit: {negative}")
    );
    assert_eq!(
        said(json!({"failedJobsHistoryLimit": -1})),
        format!("spec.failedJobsHistoryLimit: {negative}")
    );
    let policy = r#"spec.concurrencyPolicy: Unsupported value: "Foo": supported values: "Allow", "Forbid", "Replace""#;
    assert_eq!(said(json!({"concurrencyPolicy": "Foo"})), policy);
    let selector = refused(&template(&json!({"selector": {"matchLabels": {"a": "b"}}})));
    assert_eq!(
        selector,
        r#"spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` will be auto-generated"#
    );
    let manual = refused(&template(&json!({"manualSelector": true})));
    assert_eq!(
        manual,
        r#"spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false""#
    );
    let restart = refused(&template(
        &json!({"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}),
    ));
    assert_eq!(
        restart,
        r#"spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#
    );
    let indexed = refused(&template(&json!({"completionMode": "Indexed"})));
    assert_eq!(
        indexed,
        "spec.jobTemplate.spec.completions: Required value: when completion mode is Indexed"
    );
    let mut long = cron_job(&json!({}));
    long["metadata"]["name"] = "n".repeat(53).into();
    assert!(refused(&long).ends_with("must be no more than 52 characters"));
}

#[test]
fn what_is_odd_but_taken_is_taken() {
    let odd = [
        json!({"schedule": ", * * * *"}),
        json!({"schedule": "*-5 * * * ?"}),
        json!({"schedule": "59 23 31 2 *"}),
        json!({"schedule": "@every -1h"}),
        json!({"startingDeadlineSeconds": 0}),
        json!({"timeZone": "Etc/GMT+5"}),
    ];
    for spec in odd {
        Cluster::new().ok("POST", CRON_JOBS, &cron_job(&spec));
    }
    Cluster::new().ok(
        "POST",
        CRON_JOBS,
        &template(&json!({"manualSelector": false})),
    );
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
