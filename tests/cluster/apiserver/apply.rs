//! Drives server-side apply on the embedded API server with the real kubectl, if it is installed.

use crate::support::kubectl::{Kubectl, with_kubectl};

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata:
  name: demo
  labels: {team: a}
spec:
  suspend: true
  parallelism: 2
  completions: 4
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: busybox:1.36
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_applies_on_the_server() {
    with_kubectl(session).await;
}

fn session(kubectl: &Kubectl<'_>) {
    // A diff shows the changes without a write, also for an object that does not exist yet.
    let diff = "diff --server-side -f -";
    kubectl.differs(diff, JOB, &["+  name: demo", "+    team: a"]);
    kubectl.refuse("get job demo", "", "not found");
    let apply = "apply --server-side -f -";
    kubectl.check(apply, JOB, &["job.batch/demo serverside-applied"]);
    kubectl.check(diff, JOB, &[]);
    let changed = JOB.replace("parallelism: 2", "parallelism: 3");
    kubectl.differs(diff, &changed, &["-  parallelism: 2", "+  parallelism: 3"]);
    // Other writers take fields over; applying such a field is a conflict.
    kubectl.check("label job demo team=b --overwrite", "", &["labeled"]);
    kubectl.refuse(
        apply,
        JOB,
        "Apply failed with 1 conflict: conflict with \"kubectl-label\" using batch/v1: \
         .metadata.labels.team",
    );
    let force = "apply --server-side --force-conflicts -f -";
    kubectl.check(force, JOB, &["serverside-applied"]);
    let named = "apply --server-side --field-manager=robot -f -";
    kubectl.refuse(
        named,
        &changed,
        "conflict with \"kubectl\": .spec.parallelism",
    );
    kubectl.check(
        "patch job demo --type=merge -p {\"spec\":{\"backoffLimit\":1}}",
        "",
        &["patched"],
    );
    let shown = "get job demo -o yaml --show-managed-fields";
    kubectl.check(
        shown,
        "",
        &[
            "manager: kubectl\n    operation: Apply",
            "manager: kubectl-patch\n    operation: Update",
            "f:backoffLimit: {}",
            "k:{\"name\":\"main\"}:",
        ],
    );
    // A field that is no longer applied is removed.
    kubectl.check(apply, &JOB.replace("  labels: {team: a}\n", ""), &[]);
    let labels = kubectl.check("get job demo -o jsonpath={.metadata.labels}", "", &[]);
    assert!(!labels.contains("team"), "{labels}");
    // A client may switch from client-side to server-side apply.
    let mine = JOB.replace("demo", "mine");
    kubectl.check("apply -f -", &mine, &["created"]);
    let more = mine.replace("parallelism: 2", "parallelism: 5");
    kubectl.check(apply, &more, &["serverside-applied"]);
    let managed = kubectl.check("get job mine -o yaml --show-managed-fields", "", &[]);
    assert!(!managed.contains("kubectl-client-side-apply"), "{managed}");
    kubectl.check("apply -f -", &mine, &["configured"]);
    kubectl.check("create job made --image=busybox", "", &["created"]);
    kubectl.check(
        "get job made -o yaml --show-managed-fields",
        "",
        &["manager: kubectl-create"],
    );
    let wrong = JOB.replace("parallelism", "parallelsim");
    kubectl.refuse(
        "apply --server-side --validate=false -f -",
        &wrong,
        ".spec.parallelsim: field not declared in schema",
    );
}
