//! Runs `lakh doctor` as a process against the embedded cluster: each check that this cluster allows, the fixes, and
//! the output about unreadable data. The exact texts are tested in `crates/inspect/src/doctor/tests`.

mod held_pods;

use std::{
    fs,
    path::Path,
    process::Output,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use lakh::{
    client::Patch,
    clock::Clock,
    embedded::{ClusterOptions, EmbeddedCluster, ServeOptions, Users},
};
use serde_json::{Value, json};

use crate::support::{
    self, client, cluster, cluster_by, create, get, indexed_job, job_when, kubeconfig_of,
    logged::Logged,
    proxy::{Fate, Proxy, answer, refusal},
    seen_when,
};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// Longer than any test, so that no Pod ends by itself.
const LONG: Duration = Duration::from_secs(36_000);

/// The exit code and output of `lakh doctor`.
struct Said {
    code: Option<i32>,
    json: Value,
}

impl Said {
    /// Returns the result of a check.
    fn check(&self, name: &str) -> &Value {
        let checks = self.json["checks"].as_array().expect("checks");
        let found = checks.iter().find(|check| check["check"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {:#}", self.json))
    }

    #[track_caller]
    fn is(&self, name: &str, verdict: &str) -> &Self {
        let check = self.check(name);
        assert_eq!(check["verdict"], verdict, "{check:#}");
        self
    }

    /// Returns the text of all findings of a check.
    fn found(&self, name: &str) -> String {
        let findings = self.check(name)["findings"].as_array().expect("findings");
        let words = findings.iter().flat_map(|finding| {
            ["level", "what", "cause", "remedy"].map(|word| finding[word].as_str().expect("text"))
        });
        words.collect::<Vec<_>>().join("\n")
    }

    #[track_caller]
    fn finds(&self, name: &str, words: &[&str]) -> &Self {
        let found = self.found(name);
        for word in words {
            assert!(found.contains(word), "no {word:?} in {found}");
        }
        self
    }
}

async fn output(kubeconfig: &Path, args: &[&str]) -> Output {
    let mut command = support::lakh(&["doctor"]);
    command.arg("--kubeconfig").arg(kubeconfig).args(args);
    let ended = tokio::task::spawn_blocking(move || command.output());
    ended.await.expect("it ends").expect("the binary runs")
}

async fn doctor(kubeconfig: &Path, args: &[&str]) -> Said {
    let args = [args, &["-o", "json"]].concat();
    let output = output(kubeconfig, &args).await;
    let json = serde_json::from_slice(&output.stdout);
    Said {
        code: output.status.code(),
        json: json.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Starts a cluster with a clock that is behind by `age`, so that new objects look that old.
async fn old_cluster(age: Duration) -> EmbeddedCluster {
    let now = Clock::default().now().wall;
    let then = lakh::model::Time::from_millis(
        now.as_millis() - i64::try_from(age.as_millis()).expect("not that long"),
    );
    cluster_by(&Clock::starting_at(then), LONG).await
}

#[tokio::test(flavor = "multi_thread")]
async fn where_all_is_well_nothing_is_found() {
    let cluster = cluster(LONG).await;
    let client = client(&cluster).await;
    let (folder, config) = support::kubeconfig(&cluster);
    let controller = Logged::start(&config, folder.path().join("log"), &[]);
    // More than one page of Pods.
    create(&client, &indexed_job("main", 600, 600)).await;
    job_when(&client, "main", |job| job["status"]["ready"] == 600).await;
    let said = doctor(&config, &["--mode=replace"]).await;
    for check in said.json["checks"].as_array().expect("checks") {
        // The embedded server has no webhooks and no priority levels.
        let is_unseen =
            ["webhooks", "api-priority"].contains(&check["check"].as_str().expect("a name"));
        let expected = if is_unseen { "unseen" } else { "ok" };
        assert_eq!(check["verdict"], expected, "{check:#}");
    }
    assert_eq!(said.code, Some(0));
    let summary = |check: &str| said.check(check)["summary"].as_str().expect("text");
    assert!(summary("leader").contains("leads by Lease kube-system/lakh-replace"));
    assert_eq!(
        summary("held-pods"),
        "600 Pods held until counted, none too long"
    );
    assert_eq!(
        summary("rights"),
        "24 of the 24 rights that mode replace needs, for system:admin"
    );

    let text = output(&config, &["--mode=replace"]).await;
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(
        text.starts_with(&format!(
            "{}/ as system:admin: lakh of mode replace, all namespaces\n",
            cluster.url()
        )),
        "{text}"
    );
    assert!(
        text.contains("\nok        versions: Kubernetes v1.36.2"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "{text}");
    assert!(text.ends_with("nothing found; not seen: 4\n"), "{text}");
    drop(controller);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unserved_manager_and_a_contested_status_are_found() {
    let cluster = old_cluster(Duration::from_secs(600)).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let mut typo = indexed_job("typo", 1, 1);
    typo["spec"]["managedBy"] = json!("lakh.dev/job-contoller");
    create(&client, &typo).await;
    let said = doctor(&config, &[]).await;
    said.is("managers", "failed").finds(
        "managers",
        &["default/typo", "spelled nearly as lakh.dev/job-controller"],
    );
    said.is("contests", "ok");
    cluster.shutdown().await;

    let cluster = support::cluster(LONG).await;
    let client = support::client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    create(&client, &indexed_job("main", 1, 1)).await;
    let start = Clock::default().now().wall.to_rfc3339();
    let writes = [
        (
            "kube-controller-manager",
            json!({"startTime": start, "active": 1}),
        ),
        ("lakh", json!({"ready": 1, "terminating": 0})),
    ];
    for (manager, status) in writes {
        let path = format!("{JOBS}/main/status?fieldManager={manager}");
        let body = json!({"status": status}).to_string();
        client
            .patch(&path, Patch::Merge, body)
            .await
            .expect("a good status");
    }
    let said = doctor(&config, &["--mode=replace"]).await;
    let words = [
        "kube-controller-manager and lakh write the status of 1 Job",
        "default/main",
        "--controllers=*,-job-controller",
    ];
    said.is("contests", "failed").finds("contests", &words);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_used_up_and_pods_that_it_refuses() {
    let cluster = cluster(LONG).await;
    let client = client(&cluster).await;
    let (_folder, config) = support::kubeconfig(&cluster);
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "2"}}});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    client
        .create(quotas, quota.to_string())
        .await
        .expect("a good quota");
    let controller = support::controller(&cluster).await;
    create(&client, &indexed_job("main", 5, 5)).await;
    seen_when(&client, "/api/v1/namespaces/default/events", |events| {
        let mut events = support::listed(events).iter();
        events.any(|event| event["reason"] == "FailedCreate")
    })
    .await;
    job_when(&client, "main", |job| job["status"]["active"] == 2).await;
    let nowhere = output(&config, &["-n", "defualt"]).await;
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("\"defualt\" not found"));
    let said = doctor(&config, &["--mode=replace", "-n", "default"]).await;
    said.is("quotas", "failed").finds(
        "quotas",
        &[
            "quota few of namespace default is used up: 2 of 2 pods",
            "wants 3 more Pods",
        ],
    );
    said.is("refused-pods", "failed").finds(
        "refused-pods",
        &["refused by a quota: default/main", "exceeded quota: few"],
    );
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_gone() {
    let cluster = cluster(LONG).await;
    let client = client(&cluster).await;
    let (folder, config) = support::kubeconfig(&cluster);
    let short = [
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=200ms",
    ];
    let controller = Logged::start(&config, folder.path().join("log"), &short);
    support::wait_until("it leads", || {
        controller.says("became the leader", None).is_some()
    })
    .await;
    // A killed controller does not release its Lease.
    drop(controller);
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/lakh-replace";
    let holder = get(&client, path).await["spec"]["holderIdentity"]
        .as_str()
        .expect("a holder")
        .to_owned();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let said = doctor(&config, &["--mode=replace"]).await;
    said.is("leader", "failed").finds(
        "leader",
        &[&format!(
            "{holder} has not renewed Lease kube-system/lakh-replace"
        )],
    );
    let said = doctor(&config, &[]).await;
    said.is("leader", "warning").finds(
        "leader",
        &["no lakh of mode managed-by lakh.dev/job-controller seems to run"],
    );
    let given_back = json!({"spec": {"holderIdentity": ""}}).to_string();
    client
        .patch(path, Patch::Merge, given_back)
        .await
        .expect("a good Lease");
    let said = doctor(&config, &["--mode=replace"]).await;
    said.is("leader", "failed")
        .finds("leader", &["was given back"]);
    cluster.shutdown().await;
}

/// Creates the service account lakh of namespace lakh-system.
async fn create_account(kubeconfig: &Path) {
    let connected = lakh::client::connect(Some(kubeconfig), None).await;
    let client = connected.expect("the embedded server answers");
    for (path, kind, name) in [
        ("/api/v1/namespaces", "Namespace", "lakh-system"),
        (
            "/api/v1/namespaces/lakh-system/serviceaccounts",
            "ServiceAccount",
            "lakh",
        ),
    ] {
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        let created = client.create(path, object.to_string()).await;
        created.expect("a good object");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_those_of_the_user_or_of_an_account() {
    const TOKENS: &str = "secret,ann,1,\"system:masters\"\nguest,bob,2,\"readers\"\n\
        pod,system:serviceaccount:lakh-system:lakh,3,\"system:serviceaccounts\"\n";
    let options = ClusterOptions {
        server: ServeOptions {
            users: Some(Users::read(TOKENS).expect("good tokens")),
            ..ServeOptions::default()
        },
        ..ClusterOptions::default()
    };
    let cluster = EmbeddedCluster::start(options).await.expect("a free port");
    let (folder, master) = support::kubeconfig(&cluster);
    let guest = folder.path().join("guest");
    let text = fs::read_to_string(&master).expect("it is there");
    fs::write(&guest, text.replace("secret", "guest")).expect("it can be written");

    let said = doctor(&master, &[]).await;
    said.is("rights", "ok");
    let said = doctor(&guest, &[]).await;
    said.is("rights", "warning").finds(
        "rights",
        &[
            "missing in all namespaces",
            "create, patch, delete pods",
            "patch jobs/status.batch",
            "--service-account",
        ],
    );
    said.is("held-pods", "ok");
    let said = doctor(&guest, &["--ui-listen=0.0.0.0:8443", "--namespace=default"]).await;
    said.is("rights", "warning").finds(
        "rights",
        &["missing in all namespaces, for bob: create tokenreviews.authentication.k8s.io; create subjectaccessreviews.authorization.k8s.io"],
    );
    let account = "--service-account=lakh-system/lakh";
    let said = doctor(&master, &[account]).await;
    said.is("rights", "failed").finds(
        "rights",
        &["there is no service account lakh-system/lakh", "new tokens"],
    );
    create_account(&master).await;
    // Readers may not check the rights of other users.
    let said = doctor(&guest, &[account]).await;
    let unseen = &said.is("rights", "unseen").check("rights")["unseen"][0];
    assert_eq!(unseen["what"], "rights");
    assert!(
        unseen["why"]
            .as_str()
            .is_some_and(|why| why.contains("\"bob\" cannot create")),
        "{unseen}"
    );
    let said = doctor(&master, &[account]).await;
    assert!(!said.found("rights").contains("there is no service account"));
    said.is("rights", "failed").finds("rights", &["for system:serviceaccount:lakh-system:lakh: delete jobs.batch", "namespace lakh-system, for system:serviceaccount:lakh-system:lakh: create, update leases.coordination.k8s.io"]);

    let stranger = folder.path().join("stranger");
    fs::write(&stranger, text.replace("secret", "nobody")).expect("it can be written");
    let refused = output(&stranger, &[]).await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Unauthorized"));
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_kinds_are_reported_without_changing_the_exit_code() {
    let cluster = cluster(LONG).await;
    let (folder, config) = support::kubeconfig(&cluster);
    let controller = Logged::start(&config, folder.path().join("log"), &[]);
    support::wait_until("it leads", || {
        controller.says("became the leader", None).is_some()
    })
    .await;
    let busy = AtomicUsize::new(0);
    let server = cluster.url();
    let line = Proxy::start(&server, move |request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let refused = [
            "/api/v1/pods?",
            "/api/v1/resourcequotas?",
            "/apis/coordination.k8s.io/v1/leases?",
        ];
        if refused.iter().any(|start| path.starts_with(start)) {
            return Fate::Answered(refusal(403, "Forbidden", "User nobody cannot list it"));
        }
        let is_jobs = path.starts_with("/apis/batch/v1/jobs?");
        if is_jobs && busy.fetch_add(1, Ordering::Relaxed) < 2 {
            let body = answer(
                429,
                "Retry-After: 0\r\n",
                "Too many requests, please try again later.",
            );
            return Fate::Answered(body.replace("application/json", "text/plain"));
        }
        Fate::Passed
    });
    let line = line.await;
    let (_folder, beyond) = kubeconfig_of(&line.url());
    let said = doctor(&beyond, &["--mode=replace"]).await;
    for check in ["held-pods", "quotas"] {
        let check = said.is(check, "unseen").check(check);
        assert!(
            check["unseen"][0]["why"]
                .as_str()
                .is_some_and(|why| why.contains("cannot list")),
            "{check:#}"
        );
    }
    // A busy server is not the same as a forbidden request.
    said.is("managers", "ok").is("contests", "ok");
    // Leases may not be listed, but can be read by name.
    let leader = said.is("leader", "unseen").check("leader");
    assert!(
        leader["summary"]
            .as_str()
            .is_some_and(|it| it.contains("kube-system/lakh-replace")),
        "{leader:#}"
    );
    assert_eq!(said.code, Some(0), "{:#}", said.json);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_wrong() {
    let cluster = cluster(LONG).await;
    let server = cluster.url();
    let line = Proxy::start(&server, |request| {
        match request.starts_with("POST /apis/authentication.k8s.io/") {
            true => {
                let dated = "Date: Thu, 26 Nov 2015 03:00:00 GMT\r\n";
                Fate::Answered(answer(
                    201,
                    dated,
                    r#"{"status":{"userInfo":{"username":"ann"}}}"#,
                ))
            }
            false => Fate::Passed,
        }
    });
    let line = line.await;
    let (_folder, config) = kubeconfig_of(&line.url());
    let said = doctor(&config, &[]).await;
    said.is("clocks", "warning")
        .finds("clocks", &["days behind this machine's"]);
    assert_eq!(said.json["user"], "ann");
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_or_with_odd_flags_there_is_nothing_to_see() {
    let (_folder, nowhere) = kubeconfig_of("http://127.0.0.1:1");
    let said = output(&nowhere, &[]).await;
    assert_eq!(said.status.code(), Some(2));
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        error.starts_with("lakh: API server http://127.0.0.1:1/: "),
        "{error}"
    );
    for (flag, words) in [
        ("--mode=other", "possible values: replace, managed-by"),
        (
            "--namespace=a/b",
            "--namespace a/b: must be a valid object name (DNS subdomain)",
        ),
        ("--service-account=lakh", "must be NAMESPACE/NAME"),
        (
            "--service-account=lakh-system/L",
            "--service-account L: must be a valid object name",
        ),
        (
            "--leader-elect-resource-name=..",
            "--leader-elect-resource-name ..: must be a valid object name",
        ),
    ] {
        let said = output(&nowhere, &[flag]).await;
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(2), "{error}");
        assert!(error.contains(words), "{error}");
    }
    let mixed = output(&nowhere, &["--mode=replace", "--managed-by-name=a.b/c"]).await;
    assert_eq!(mixed.status.code(), Some(2));
}
