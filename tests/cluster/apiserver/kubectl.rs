//! Drives the embedded API server with the real kubectl, if it is installed.

use crate::support::kubectl::{Kubectl, with_kubectl};

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata:
  name: demo
spec:
  completions: 3
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: busybox:1.36
        command: [sleep, '1']
        resources:
          requests: {cpu: '1'}
";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: alone
spec:
  containers:
  - name: main
    image: busybox
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_works_unmodified() {
    with_kubectl(session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_lists_objects() {
    with_kubectl(what_there_is).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_changes_and_compares_jobs() {
    with_kubectl(changes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_reports_missing_objects() {
    with_kubectl(what_there_is_not).await;
}

fn what_there_is_not(kubectl: &Kubectl<'_>) {
    const REPLICA_SET: &str = "
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: r}
";
    for verb in ["apply", "create"] {
        kubectl.refuse(
            &format!("{verb} -f -"),
            REPLICA_SET,
            "no matches for kind \"ReplicaSet\" in version \"apps/v1\"",
        );
    }
    // The server still validates objects of the kinds that it serves.
    let wrong = JOB.replace("parallelism", "parallelsim");
    kubectl.refuse("apply -f -", &wrong, "unknown field \"spec.parallelsim\"");
    kubectl.check("create quota q --hard=pods=1", "", &["quota/q created"]);
    kubectl.check("get quota", "", &["q"]);
    kubectl.check("create -f -", POD, &["created"]);
    let more = POD.replace("alone", "more");
    kubectl.refuse("create -f -", &more, "exceeded quota: q");
}

fn session(kubectl: &Kubectl<'_>) {
    kubectl.check("version", "", &["Server Version: v1.36"]);
    kubectl.check("api-resources", "", &["jobs", "batch/v1", "po ", "Lease"]);
    kubectl.check("get namespaces", "", &["default", "kube-system", "Active"]);
    kubectl.check("auth can-i create jobs", "", &["yes"]);
    kubectl.check("apply -f -", JOB, &["job.batch/demo created"]);
    kubectl.check("apply -f -", JOB, &["job.batch/demo unchanged"]);
    let changed = JOB.replace("parallelism: 2", "parallelism: 3");
    kubectl.check("apply -f -", &changed, &["job.batch/demo configured"]);
    kubectl.check(
        "apply --server-side --force-conflicts -f -",
        &changed,
        &["serverside-applied"],
    );
    let wrong = JOB.replace("parallelism", "parallelsim");
    kubectl.refuse("apply -f -", &wrong, "unknown field \"spec.parallelsim\"");
    kubectl.check(
        "get jobs",
        "",
        &["NAME", "COMPLETIONS", "demo", "Running", "0/3"],
    );
    kubectl.check("get jobs -o wide", "", &["busybox:1.36", "controller-uid="]);
    kubectl.check("get job demo -o yaml", "", &["completionMode: Indexed"]);
    kubectl.check(
        "describe job demo",
        "",
        &["Completion Mode:", "Indexed", "busybox:1.36"],
    );
    kubectl.check("label job demo team=a", "", &["labeled"]);
    kubectl.check("annotate job demo note=b", "", &["annotated"]);
    kubectl.check(
        "patch job demo --type=merge -p {\"spec\":{\"suspend\":true}}",
        "",
        &["patched"],
    );
    kubectl.check("get jobs -l team=a", "", &["demo", "Running"]);
    kubectl.check("create -f -", POD, &["pod/alone created"]);
    kubectl.check("get pods", "", &["READY", "alone", "0/1", "Pending"]);
    kubectl.check("get pods -A -o wide", "", &["default", "NODE", "<none>"]);
    kubectl.check("describe pod alone", "", &["QoS Class:", "BestEffort"]);
    kubectl.check(
        "get pods -w --request-timeout=1s --output-watch-events",
        "",
        &["ADDED", "alone"],
    );
    kubectl.check("get all", "", &["pod/alone", "job.batch/demo"]);
    kubectl.check("get events", "", &[]);
    kubectl.check("get --raw /readyz", "", &["ok"]);
    kubectl.check(
        "wait pod/alone --for=jsonpath={.status.phase}=Pending",
        "",
        &["condition met"],
    );
    kubectl.check("delete pod alone", "", &["deleted"]);
    kubectl.refuse("get pod alone", "", "pods \"alone\" not found");
    for cascade in ["background", "foreground", "orphan"] {
        kubectl.check(
            &format!("delete job demo --cascade={cascade}"),
            "",
            &["deleted"],
        );
        kubectl.refuse("get job demo", "", "jobs.batch \"demo\" not found");
        kubectl.check("create -f -", JOB, &["created"]);
    }
    kubectl.check(
        "create job quick --image=busybox",
        "",
        &["job.batch/quick created"],
    );
    kubectl.check("delete jobs --all", "", &["quick"]);
    kubectl.check("create namespace other", "", &["created"]);
    kubectl.check(
        "create configmap c --from-literal=a=b -n other",
        "",
        &["created"],
    );
    kubectl.check("delete namespace other", "", &["deleted"]);
}

fn what_there_is(kubectl: &Kubectl<'_>) {
    kubectl.check(
        "api-versions",
        "",
        &["batch/v1", "coordination.k8s.io/v1", "v1"],
    );
    let batch = kubectl.check("api-resources --api-group=batch --no-headers", "", &[]);
    let words: Vec<Vec<&str>> = batch
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        words,
        [
            vec!["cronjobs", "cj", "batch/v1", "true", "CronJob"],
            vec!["jobs", "batch/v1", "true", "Job"],
        ]
    );
    kubectl.check("auth can-i * *", "", &["yes"]);
    kubectl.check("auth can-i get pods/log -n other", "", &["yes"]);
    kubectl.check("auth can-i --list", "", &["*.*", "[*]"]);
    // The descriptions come with the types, and change with them.
    kubectl.check(
        "explain job.spec.podFailurePolicy",
        "",
        &[
            "GROUP:      batch\nKIND:       Job\nVERSION:    v1\n",
            "FIELD: podFailurePolicy <PodFailurePolicy>",
            "DESCRIPTION:\n    Specifies the policy of handling failed pods.",
            "FIELDS:\n  rules\t<[]PodFailurePolicyRule> -required-\n    A list",
        ],
    );
    kubectl.check(
        "explain job.spec.podFailurePolicy.rules.onExitCodes.operator",
        "",
        &["FIELD: operator <string>\nENUM:\n    In\n    NotIn\n"],
    );
    kubectl.check(
        "explain cronjob.spec --recursive",
        "",
        &[
            "schedule\t<string> -required-",
            "concurrencyPolicy\t<string>",
            "requests\t<map[string]Quantity>",
        ],
    );
    kubectl.check(
        "explain pod.spec.restartPolicy",
        "",
        &["Always", "OnFailure"],
    );
    kubectl.refuse(
        "explain job.spec.nothing",
        "",
        "field \"nothing\" does not exist",
    );
    kubectl.refuse(
        "get nothing",
        "",
        "the server doesn't have a resource type \"nothing\"",
    );
}

fn changes(kubectl: &Kubectl<'_>) {
    kubectl.differs("diff -f -", JOB, &["+kind: Job", "+  name: demo"]);
    kubectl.refuse("get job demo", "", "jobs.batch \"demo\" not found");
    kubectl.check("apply -f -", JOB, &["job.batch/demo created"]);
    let same = kubectl.check("diff -f -", JOB, &[]);
    assert_eq!(same, "");
    let changed = JOB.replace("parallelism: 2", "parallelism: 3");
    let parts = ["-  parallelism: 2", "+  parallelism: 3", "+  generation: 2"];
    kubectl.differs("diff -f -", &changed, &parts);
    // The server reports unknown fields and wrong types.
    let wrong = JOB.replace("parallelism", "parallelsim");
    kubectl.refuse(
        "create -f -",
        &wrong.replace("demo", "other"),
        "strict decoding error: unknown field \"spec.parallelsim\"",
    );
    let output = kubectl.run("apply -f - --validate=warn", &wrong);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(
        errors.contains("Warning: unknown field \"spec.parallelsim\""),
        "{errors}"
    );
    kubectl.check("apply -f - --validate=ignore", &wrong, &["configured"]);

    // Jobs have no scale; they are scaled by patch.
    kubectl.refuse(
        "scale job demo --replicas=5",
        "",
        "the server could not find the requested resource",
    );
    for (number, patch) in [
        "--patch={\"spec\":{\"parallelism\":4}}",
        "--type=merge -p {\"spec\":{\"parallelism\":5}}",
        "--type=json -p [{\"op\":\"replace\",\"path\":\"/spec/parallelism\",\"value\":6}]",
    ]
    .iter()
    .enumerate()
    {
        kubectl.check(&format!("patch job demo {patch}"), "", &["patched"]);
        let shown = kubectl.check("get job demo -o jsonpath={.spec.parallelism}", "", &[]);
        assert_eq!(shown, (number + 4).to_string());
    }
    kubectl.refuse(
        "patch job demo --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/no/x\",\"value\":1}]",
        "",
        "The request is invalid: the server rejected our request due to an error in our request",
    );
    kubectl.refuse(
        "patch job demo --type=merge -p {\"spec\":{\"completionMode\":\"NonIndexed\"}}",
        "",
        "The Job \"demo\" is invalid: spec.completionMode: Invalid value: \"NonIndexed\": field is \
         immutable",
    );
    kubectl.refuse(
        "set image job/demo main=busybox:2",
        "",
        "spec.template: Invalid value",
    );
    kubectl.check(
        "patch job demo --subresource=status --type=merge -p {\"status\":{\"active\":1}}",
        "",
        &["patched"],
    );
    kubectl.check(
        "get jobs -o custom-columns=N:.metadata.name,A:.status.active",
        "",
        &["N      A\ndemo   1\n"],
    );
    kubectl.check(
        "wait job/demo --for=jsonpath={.status.active}=1 --timeout=5s",
        "",
        &["job.batch/demo condition met"],
    );
    kubectl.refuse(
        "wait job/demo --for=condition=complete --timeout=1s",
        "",
        "timed out waiting for the condition on jobs/demo",
    );
    kubectl.check("apply view-last-applied job demo", "", &["parallelsim: 2"]);
    kubectl.refuse("logs nope", "", "pods \"nope\" not found");
    kubectl.check("create -f -", POD, &["created"]);
    kubectl.refuse("get jobs -l a@in(b", "", "unable to parse requirement");
    kubectl.refuse(
        "get jobs --field-selector=x=y",
        "",
        "field label \"x\" not supported for Job",
    );
    kubectl.check(
        "create cronjob cj --image=busybox --schedule=@daily",
        "",
        &["cronjob.batch/cj created"],
    );
    kubectl.check(
        "create job from --from=cronjob/cj",
        "",
        &["job.batch/from created"],
    );
    kubectl.check(
        "describe cronjob cj",
        "",
        &["Schedule:", "@daily", "Active Jobs:"],
    );
    kubectl.check("delete cj cj", "", &["deleted"]);
    kubectl.check(
        "delete pod alone --grace-period=0 --force",
        "",
        &["pod \"alone\" force deleted"],
    );
}
