//! Tests the tables of `kubectl get`.

use std::time::Duration;

use super::*;

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";

/// The start of the clusters' clocks.
const START: &str = "1970-01-12T13:46:40Z";

#[test]
fn a_job_shows_how_far_it_is() {
    let conditions = |kinds: &[&str]| -> Value {
        let condition = |kind: &&str| json!({"type": kind, "status": "True"});
        kinds.iter().map(condition).collect()
    };
    let ended = |kinds: &[&str]| json!({"conditions": conditions(kinds), "startTime": START});
    let mut complete = ended(&["SuccessCriteriaMet", "Complete"]);
    complete["completionTime"] = "1970-01-12T13:47:10Z".into();
    complete["succeeded"] = 1.into();
    let cases = [
        ("a", json!({}), json!({}), r#""Running","0/1","""#),
        (
            "b",
            json!({"completions": 5}),
            json!({"startTime": START, "succeeded": 2}),
            r#""Running","2/5","2m5s""#,
        ),
        (
            "c",
            json!({"parallelism": 3}),
            json!({}),
            r#""Running","0/1 of 3","""#,
        ),
        (
            "d",
            json!({"parallelism": 1}),
            json!({}),
            r#""Running","0/1","""#,
        ),
        ("e", json!({}), complete, r#""Complete","1/1","30s""#),
        (
            "f",
            json!({}),
            ended(&["FailureTarget", "Failed"]),
            r#""Failed","0/1","2m5s""#,
        ),
        (
            "g",
            json!({"suspend": true}),
            json!({"conditions": conditions(&["Suspended"])}),
            r#""Suspended","0/1","""#,
        ),
        (
            "h",
            json!({}),
            ended(&["FailureTarget"]),
            r#""FailureTarget","0/1","2m5s""#,
        ),
        (
            "i",
            json!({}),
            ended(&["SuccessCriteriaMet"]),
            r#""SuccessCriteriaMet","0/1","2m5s""#,
        ),
    ];
    let mut cluster = Cluster::new();
    let mut want = Vec::new();
    for (name, spec, status, cells) in cases {
        let selector = json!({"matchLabels": {"app": name}});
        let own = json!({
            "spec": {
                "manualSelector": true,
                "selector": selector,
                "template": {"metadata": {"labels": {"app": name}}},
            },
        });
        let object = with(with(job(name), &own), &json!({"spec": spec}));
        let made = cluster.ok("POST", JOBS, &object);
        let stored = with(made, &json!({"status": status}));
        let tree = stored.as_object().expect("an object");
        cluster.server.store_put(Kind::Job, tree);
        want.push(format!(
            r#"["{name}",{cells},"2m5s","c","i:1","app={name}"]"#
        ));
    }
    // A Job that is deleted while it is suspended.
    let held = json!({
        "metadata": {"finalizers": ["x.y/z"]},
        "spec": {"suspend": true, "template": {"spec": {"containers": [
            {"name": "main", "image": "i:1"},
            {"name": "beside", "image": "i:2"},
        ]}}},
    });
    let made = cluster.ok("POST", JOBS, &with(job("z"), &held));
    let path = format!("{JOBS}/z");
    let suspended = json!({"status": {"conditions": conditions(&["Suspended"])}});
    let stored = with(made, &suspended);
    cluster
        .server
        .store_put(Kind::Job, stored.as_object().expect("an object"));
    cluster.ok("DELETE", &path, &json!({"propagationPolicy": "Background"}));
    let uid = stored["metadata"]["uid"].as_str().expect("a UID");
    want.push(format!(
        r#"["z","Terminating","0/1","","2m5s","main,beside","i:1,i:2","batch.kubernetes.io/controller-uid={uid}"]"#
    ));
    cluster.now = cluster.now + Duration::from_secs(125);
    let (columns, rows) = cluster.table(JOBS);
    assert_eq!(
        columns,
        [
            "Name string 0",
            "Status string 0",
            "Completions string 0",
            "Duration string 0",
            "Age string 0",
            "Containers string 1",
            "Images string 1",
            "Selector string 1",
        ]
    );
    assert_eq!(rows, want);
}

#[test]
fn a_cron_job_shows_when_it_runs() {
    let mut cluster = Cluster::new();
    let cron_job = |name: &str, spec: &Value| {
        let object = json!({
            "metadata": {"name": name},
            "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": job("t")["spec"]}},
        });
        with(object, &json!({"spec": spec}))
    };
    cluster.ok("POST", CRON_JOBS, &cron_job("c", &json!({})));
    let spec = json!({"timeZone": "UTC", "suspend": true});
    cluster.ok("POST", CRON_JOBS, &cron_job("up", &spec));
    let job = |name: &str| json!({"apiVersion": "batch/v1", "kind": "Job", "name": name});
    let status = json!({"status": {
        "active": [job("a"), job("b")],
        "lastScheduleTime": "1970-01-12T13:45:40Z",
    }});
    cluster.ok("PATCH", &format!("{CRON_JOBS}/up/status"), &status);
    let made = cluster.ok("POST", CRON_JOBS, &cron_job("x", &json!({})));
    let unset = with(made, &json!({"spec": {"suspend": null}}));
    cluster
        .server
        .store_put(Kind::CronJob, unset.as_object().expect("an object"));
    cluster.now = cluster.now + Duration::from_secs(30);
    let (columns, rows) = cluster.table(CRON_JOBS);
    assert_eq!(
        columns,
        [
            "Name string 0",
            "Schedule string 0",
            "Timezone string 0",
            "Suspend boolean 0",
            "Active integer 0",
            "Last Schedule string 0",
            "Age string 0",
            "Containers string 1",
            "Images string 1",
            "Selector string 1",
        ]
    );
    assert_eq!(
        rows,
        [
            r#"["c","0 * * * *","<none>","False",0,"<none>","30s","c","i:1","<none>"]"#,
            r#"["up","0 * * * *","UTC","True",2,"90s","30s","c","i:1","<none>"]"#,
            r#"["x","0 * * * *","<none>","<unset>",0,"<none>","30s","c","i:1","<none>"]"#,
        ]
    );
}
