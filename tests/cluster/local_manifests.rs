//! Tests that `lakh local -f` accepts more than hand-written Jobs: objects that a cluster printed, folders, streams,
//! and files with other kinds.

use std::{fs, path::Path, process::Output, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{self, run, run_with_input, serving::Serving};

/// Returns a Job of two indexes, with labels of its own on the template.
fn job(name: &str) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": 2,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "busybox"}],
                },
            },
        },
    })
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the names of the Jobs that ran, all of which must be Complete.
#[track_caller]
fn completed(output: &Output) -> Vec<String> {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let jobs = summary["jobs"].as_array().expect("a list").iter();
    jobs.map(|job| {
        assert_eq!(job["result"], "Complete", "{job}");
        job["name"].as_str().expect("a name").to_owned()
    })
    .collect()
}

/// Runs a text on standard input.
fn run_text(text: &str) -> Output {
    let args = ["local", "-f", "-", "--timeout", "60s", "-o", "json"];
    run_with_input(&[&args[..], &["--pod-duration", "0s"]].concat(), text)
}

/// Runs a file or a folder.
fn run_path(path: &Path, flags: &[&str]) -> Output {
    let path = path.display().to_string();
    let args = ["local", "-f", &path, "--timeout", "60s", "-o", "json"];
    run(&[&args[..], &["--pod-duration", "0s"], flags].concat())
}

fn write(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().expect("it is in the folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

#[tokio::test(flavor = "multi_thread")]
async fn exported_objects_run_again() {
    let cluster = support::cluster(Duration::ZERO).await;
    let controller = support::controller(&cluster).await;
    let client = support::client(&cluster).await;
    let get = async |path: &str| -> Value {
        let answer = client.get(path).await.expect("an answer");
        serde_json::from_slice(&answer).expect("JSON")
    };
    let cron_job = json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "30 2 * * *", "jobTemplate": {"spec": job("x")["spec"]}},
    });
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let create = async |path: &str, object: &Value| {
        client
            .create(path, object.to_string())
            .await
            .expect("a good object");
    };
    create(jobs, &job("pi")).await;
    create("/apis/batch/v1/namespaces/default/cronjobs", &cron_job).await;
    // A Job with the CronJob as its owner, as the controller creates it.
    let made = get("/apis/batch/v1/namespaces/default/cronjobs/nightly").await;
    let mut of_cron_job = job("nightly-1");
    of_cron_job["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "controller": true,
        "uid": made["metadata"]["uid"],
    }]);
    create(jobs, &of_cron_job).await;
    for name in ["pi", "nightly-1"] {
        support::job_when(&client, name, |job| support::is(job, "Complete")).await;
    }

    let pi = get(&format!("{jobs}/pi")).await;
    assert!(
        pi["spec"]["selector"].is_object(),
        "the server generates it: {pi}"
    );
    assert_eq!(completed(&run_text(&pi.to_string())), ["pi"]);
    // A copy with another name, as users make one by hand.
    let mut copy = pi.clone();
    copy["metadata"]["name"] = json!("copy");
    assert_eq!(completed(&run_text(&copy.to_string())), ["copy"]);
    // `kubectl get --raw` prints items without a kind; `kubectl get -o json` prints a list without one.
    let list = get(jobs).await;
    assert_eq!(list["kind"], "JobList");
    assert_eq!(completed(&run_text(&list.to_string())), ["nightly-1", "pi"]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [pi, copy], "metadata": {}});
    assert_eq!(completed(&run_text(&list.to_string())), ["pi", "copy"]);
    // One line each, as `jq -c '.items[]'` prints them.
    assert_eq!(
        completed(&run_text(&format!("{pi}\n{copy}\n"))),
        ["pi", "copy"]
    );

    // CronJobs are checked, alone and in their list.
    let cron_jobs = get("/apis/batch/v1/namespaces/default/cronjobs").await;
    for text in [&made, &cron_jobs].map(Value::to_string) {
        let output = run_text(&text);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("CronJob default/nightly: at 02:30"), "{said}");
    }

    // A Job creates its Pods itself, so listed Pods are skipped.
    let pods = get("/api/v1/namespaces/default/pods").await;
    let output = run_text(&format!("{pods}\n{pi}"));
    assert_eq!(completed(&output), ["pi"]);
    let said = stderr(&output);
    let words = "Warning: standard input: skipped v1 Pod (documents 1 items[0], 1 items[1]): \
                 its owner, Job nightly-1, creates its own";
    assert!(said.contains(words), "{said}");
    controller.stop().await;
    cluster.shutdown().await;
}

#[test]
fn folders_run_as_kubectl_reads_them() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    write(&folder, "b.yaml", format!("\u{feff}{}", job("b")));
    let utf_16: Vec<u8> = format!("\u{feff}{}", job("a"))
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    write(&folder, "a.json", utf_16);
    write(&folder, "below/c.yml", job("c").to_string());
    write(&folder, "notes.md", "# no manifest");
    write(
        &folder,
        "kustomization.yaml",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
    );
    let output = run_path(folder.path(), &[]);
    assert_eq!(completed(&output), ["a", "b"]);
    let words =
        "kustomization.yaml: skipped kustomize.config.k8s.io/v1beta1 Kustomization (document 1)";
    assert!(stderr(&output).contains(words), "{}", stderr(&output));
    assert_eq!(
        completed(&run_path(folder.path(), &["-R"])),
        ["a", "b", "c"]
    );

    let below = folder.path().join("below/none");
    fs::create_dir(&below).expect("it can be made");
    let output = run_path(&below, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("no .json, .yaml or .yml file"),
        "{}",
        stderr(&output)
    );
    let output = run(&["local", "-f", "https://example.com/job.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let words = "curl -fsSL https://example.com/job.yaml | lakh local -f -";
    assert!(stderr(&output).contains(words), "{}", stderr(&output));
}

#[test]
fn unknown_kinds_are_skipped_with_one_warning() {
    let foreign = |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": {}});
    let documents = [
        foreign("apiextensions.k8s.io/v1", "CustomResourceDefinition", "a.b"),
        job("j"),
        foreign("apiextensions.k8s.io/v1", "CustomResourceDefinition", "c.d"),
        foreign("batch.volcano.sh/v1alpha1", "Job", "v"),
    ];
    let text = documents.map(|it| it.to_string()).join("\n---\n");
    let output = run_text(&text);
    assert_eq!(completed(&output), ["j"]);
    let said = stderr(&output);
    let words = "Warning: standard input: skipped apiextensions.k8s.io/v1 CustomResourceDefinition \
                 (documents 1, 3), batch.volcano.sh/v1alpha1 Job (document 4): lakh local does not \
                 serve this kind\n";
    assert!(said.contains(words), "{said}");
    assert_eq!(said.matches("Warning").count(), 1, "{said}");
}

#[test]
fn objects_beside_a_job_are_stored_and_may_be_there_already() {
    let text = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team}
data: {a: '1'}
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {a: b}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: team}
data: {a: '2'}
---
";
    let output = run_text(&format!("{text}{}", job("j")));
    assert_eq!(completed(&output), ["j"]);
    // The same Job twice is an error.
    let output = run_text(&format!("{0}\n{0}", job("j")));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("409 AlreadyExists"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_job_that_names_lakh_runs_and_one_of_another_controller_ends_the_run() {
    let managed = |name: &str, manager: &str| {
        let mut job = job(name);
        job["spec"]["managedBy"] = json!(manager);
        job
    };
    let own = managed("own", "lakh.dev/job-controller");
    let output = run_text(&format!("{own}\n{}", job("plain")));
    assert_eq!(completed(&output), ["own", "plain"]);

    let other = managed("other", "kueue.x-k8s.io/multikueue");
    let started = std::time::Instant::now();
    let output = run_text(&format!("{other}\n{own}"));
    assert!(
        started.elapsed() < Duration::from_secs(50),
        "it waits for the time to run out"
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = |nth: usize| summary["jobs"][nth]["result"].as_str();
    assert_eq!(
        (results(0), results(1)),
        (Some("Unfinished"), Some("Complete"))
    );
    let why = summary["jobs"][0]["waitsFor"].as_str().expect("a reason");
    let words = "left to kueue.x-k8s.io/multikueue (spec.managedBy), which does not run here: \
                 remove spec.managedBy";
    assert_eq!(why, words);

    // An explicit mode is the only one.
    for (mode, manifest, words) in [
        ("replace", &own, "left to lakh.dev/job-controller"),
        (
            "managed-by",
            &job("plain"),
            "spec.managedBy is not lakh.dev/job-controller",
        ),
    ] {
        let args = ["local", "-f", "-", "--timeout", "60s", "--mode", mode];
        let output = run_with_input(&args, &manifest.to_string());
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(printed.contains(words), "{printed}");
    }
}

#[test]
fn jobs_run_without_a_kubeconfig_where_none_can_be_written() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let gone = folder.path().join("gone");
    let manifest = folder.path().join("j.json");
    fs::write(&manifest, job("j").to_string()).expect("it can be written");
    let lakh = |args: &[&str]| {
        let mut command = support::lakh(args);
        command
            .env("TMPDIR", &gone)
            .output()
            .expect("the binary runs")
    };
    let manifest = manifest.display().to_string();
    let output = lakh(&["local", "-f", &manifest, "--timeout", "60s", "-o", "json"]);
    assert_eq!(completed(&output), ["j"]);
    let said = stderr(&output);
    let words = "could not write the kubeconfig to ";
    assert!(
        said.contains(&format!("Warning: {words}")) && said.contains("gone/lakh-"),
        "{said}"
    );
    assert!(
        !said.contains("--kubeconfig-out") && !said.contains("at path"),
        "{said}"
    );

    // A cluster that only serves is useless without a kubeconfig.
    let output = lakh(&["local", "--timeout", "60s"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains(words), "{}", stderr(&output));
    let path = gone.join("config").display().to_string();
    let output = lakh(&["local", "-f", &manifest, "--kubeconfig-out", &path]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("--kubeconfig-out"),
        "{}",
        stderr(&output)
    );
}

/// Small files in the form of public manifests that have a Job beside other kinds: an ingress controller, a batch
/// scheduler, a gateway, a default domain, a scale test, a device claim, and a rendered chart.
const MANIFESTS: [&str; 7] = [
    "
    {apiVersion: v1, kind: Namespace, metadata: {name: edge, labels: {app: edge}}}
    {apiVersion: v1, kind: ServiceAccount, metadata: {name: edge, namespace: edge}, automountServiceAccountToken: true}
    {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: edge, namespace: edge}, rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}
    {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: edge, namespace: edge}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: edge}, subjects: [{kind: ServiceAccount, name: edge}]}
    {apiVersion: v1, kind: ConfigMap, metadata: {name: edge, namespace: edge}, data: {a: b}}
    {apiVersion: v1, kind: Service, metadata: {name: edge, namespace: edge}, spec: {type: NodePort, ports: [{name: http, port: 80, targetPort: http}]}}
    {apiVersion: apps/v1, kind: Deployment, metadata: {name: edge, namespace: edge}, spec: {selector: {matchLabels: {app: edge}}, template: {metadata: {labels: {app: edge}}, spec: {containers: [{name: c, image: i}]}}}}
    {apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: edge}, spec: {controller: a.b/c}}
    {apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: edge}, webhooks: []}
    JOB",
    "
    {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: queues.a.b}, spec: {}}
    {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: s}, rules: []}
    JOB",
    "
    {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: g}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: g}}
    {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: g}, spec: {selector: {matchLabels: {app: g}}, template: {metadata: {labels: {app: g}}, spec: {containers: [{name: c, image: i}]}}}}
    JOB",
    "
    {apiVersion: v1, kind: Service, metadata: {name: domain}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
    JOB",
    "
    {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: default, namespace: default}]}
    JOB",
    "
    {apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: gpu}, spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.a.b}}]}}}}
    JOB",
    "
    {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
    {apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: b}}
    {apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: None, ports: [{port: 80}]}}
    {apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web}, spec: {serviceName: web, selector: {matchLabels: {app: w}}, template: {metadata: {labels: {app: w}}, spec: {containers: [{name: c, image: i}]}}}}
    {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {minAvailable: 1, selector: {matchLabels: {app: w}}}}
    {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: web}, spec: {podSelector: {}}}
    {apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web}, spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}}
    JOB",
];

#[test]
fn files_of_the_shape_of_public_manifests_run() {
    for manifest in MANIFESTS {
        let documents = manifest.trim().lines().map(|line| match line.trim() {
            "JOB" => job("j").to_string(),
            document => document.to_owned(),
        });
        let output = run_text(&documents.collect::<Vec<_>>().join("\n---\n"));
        assert_eq!(completed(&output), ["j"], "{manifest}");
        // Only one of these kinds is not served: objects of its kinds could have any form.
        let said = stderr(&output);
        let skips = manifest.contains("CustomResourceDefinition");
        assert_eq!(said.contains("Warning"), skips, "{said}");
    }
}

#[test]
fn objects_beside_a_job_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let service =
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}";
    write(&folder, "f.yaml", format!("{service}\n---\n{}", job("j")));
    let path = folder.path().join("f.yaml").display().to_string();
    let serving = Serving::start_with(&["-f", &path, "--pod-duration", "1h"]);
    let config = fs::read_to_string(serving.kubeconfig()).expect("it is there");
    let server = config
        .lines()
        .find_map(|line| line.trim().strip_prefix("server: http://"));
    let address = server.expect("a server").parse().expect("an address");
    // The kubeconfig exists before the objects do.
    let path = "/api/v1/namespaces/default/services/web";
    let started = std::time::Instant::now();
    loop {
        let answer = support::http_get(address, path).expect("an answer");
        if answer.contains("\"port\":80") {
            break;
        }
        assert!(started.elapsed() < support::PATIENCE, "{answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
