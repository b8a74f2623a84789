//! Tests ResourceQuotas: rejections with a real server's message, and the counted use.

use super::*;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

fn quota(hard: &Value) -> Value {
    json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})
}

impl Cluster {
    fn used(&mut self) -> Value {
        self.collect();
        self.get(&format!("{QUOTAS}/q"))["status"]["used"].take()
    }

    fn refused(&mut self, path: &str, body: &Value) -> Value {
        let (code, status) = self.send("POST", path, body);
        assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
        status["message"].clone()
    }
}

#[test]
fn a_full_quota_refuses() {
    let mut cluster = Cluster::new();
    cluster.ok("POST", PODS, &pod("a"));
    let hard = json!({"pods": 2, "count/pods": "3", "count/jobs.batch": "1"});
    let made = cluster.ok("POST", QUOTAS, &quota(&hard));
    assert_eq!(made["spec"]["hard"]["pods"], "2");
    let used = |pods: &str, all: &str, jobs: &str| json!({"count/jobs.batch": jobs, "count/pods": all, "pods": pods});
    assert_eq!(cluster.used(), used("1", "1", "0"));
    cluster.ok("POST", PODS, &pod("b"));
    cluster.ok("POST", JOBS, &job("a"));
    assert_eq!(cluster.used(), used("2", "2", "1"));
    assert_eq!(
        cluster.refused(PODS, &pod("c")),
        "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    );
    assert_eq!(
        cluster.refused(JOBS, &job("b")),
        "jobs.batch \"b\" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: \
         count/jobs.batch=1, limited: count/jobs.batch=1"
    );
    // A terminated Pod makes room in `pods`, but not in `count/pods`.
    let ended = json!({"status": {"phase": "Succeeded"}});
    cluster.ok("PATCH", &format!("{PODS}/a/status"), &ended);
    assert_eq!(cluster.used(), used("1", "2", "1"));
    cluster.ok("POST", PODS, &pod("c"));
    assert_eq!(
        cluster.refused(PODS, &pod("d")),
        "pods \"d\" is forbidden: exceeded quota: q, requested: count/pods=1,pods=1, used: \
         count/pods=3,pods=2, limited: count/pods=3,pods=2"
    );
    cluster.ok("DELETE", &format!("{PODS}/b"), &Value::Null);
    cluster.ok(
        "DELETE",
        &format!("{JOBS}/a?propagationPolicy=Background"),
        &Value::Null,
    );
    assert_eq!(cluster.used(), used("1", "2", "0"));
    cluster.ok("POST", JOBS, &job("b"));
    let (_, rows) = cluster.table(QUOTAS);
    let requests = "count/jobs.batch: 0/1, count/pods: 2/3, pods: 1/2";
    assert_eq!(rows, [format!("[\"q\",\"{requests}\",\"\",\"0s\"]")]);
    // Without the quota, nothing is limited.
    cluster.ok("DELETE", &format!("{QUOTAS}/q"), &Value::Null);
    cluster.ok("POST", JOBS, &job("c"));
}

#[test]
fn a_quota_that_makes_no_sense_is_refused() {
    let mut cluster = Cluster::new();
    let (code, status) = cluster.send("POST", QUOTAS, &quota(&json!({"pods": "-1"})));
    assert_eq!(code, 422);
    assert_eq!(
        status["message"],
        "ResourceQuota \"q\" is invalid: spec.hard[pods]: Invalid value: \"-1\": must be greater than or \
         equal to 0"
    );
    let (code, _) = cluster.send("POST", QUOTAS, &quota(&json!({"count/pods": "1.5"})));
    assert_eq!(code, 422);
}

#[test]
fn quotas_take_all_forms_of_quantities() {
    let mut cluster = Cluster::new();
    for (given, stored) in [("1k", "1k"), ("1e3", "1e3"), ("2.0", "2"), ("3000m", "3")] {
        let made = cluster.ok("POST", QUOTAS, &quota(&json!({"pods": given})));
        assert_eq!(made["spec"]["hard"]["pods"], stored, "{given}");
        cluster.ok("POST", PODS, &pod("a"));
        assert_eq!(cluster.used(), json!({"pods": "1"}));
        cluster.ok("DELETE", &format!("{PODS}/a"), &Value::Null);
        cluster.ok("DELETE", &format!("{QUOTAS}/q"), &Value::Null);
    }
}

#[test]
fn pod_requests_are_summed_and_limited() {
    let mut cluster = Cluster::new();
    let hard = json!({"cpu": "1", "limits.memory": "1Gi", "configmaps": "10"});
    cluster.ok("POST", QUOTAS, &quota(&hard));
    let used =
        |cpu: &str, memory: &str| json!({"cpu": cpu, "limits.memory": memory, "configmaps": "1"});
    assert_eq!(cluster.used(), used("0", "0"));
    let with = |name: &str, cpu: &str| {
        let mut pod = pod(name);
        let resources = json!({"requests": {"cpu": cpu}, "limits": {"memory": "100M"}});
        pod["spec"]["containers"][0]["resources"] = resources;
        pod
    };
    cluster.ok("POST", PODS, &with("a", "600m"));
    assert_eq!(cluster.used(), used("600m", "100M"));
    assert_eq!(
        cluster.refused(PODS, &with("b", "500m")),
        "pods \"b\" is forbidden: exceeded quota: q, requested: cpu=500m, used: cpu=600m, limited: cpu=1"
    );
    assert_eq!(
        cluster.refused(PODS, &pod("b")),
        "pods \"b\" is forbidden: failed quota: q: must specify cpu for: c; limits.memory for: c"
    );
    // A terminated Pod uses nothing.
    let ended = json!({"status": {"phase": "Succeeded"}});
    cluster.ok("PATCH", &format!("{PODS}/a/status"), &ended);
    assert_eq!(cluster.used(), used("0", "0"));
    cluster.ok("POST", PODS, &with("b", "500m"));
    assert_eq!(cluster.used(), used("500m", "100M"));
    cluster.ok("DELETE", &format!("{PODS}/b"), &Value::Null);
    assert_eq!(cluster.used(), used("0", "0"));
}
