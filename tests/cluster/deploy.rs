//! The manifests below deploy/: what is rendered is what we mean, and grants what we call.

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use lakh::embedded::manifest::{self, Document, Source};
use serde_json::{Value, json};

use crate::support::{self, project};

/// What the controller does: verb, resource, API group.
const CALLS: &[(&str, &str, &str)] = &[
    ("get", "jobs", "batch"),
    ("list", "jobs", "batch"),
    ("watch", "jobs", "batch"),
    ("delete", "jobs", "batch"),
    ("patch", "jobs/status", "batch"),
    ("list", "pods", ""),
    ("watch", "pods", ""),
    ("get", "pods", ""),
    ("create", "pods", ""),
    ("patch", "pods", ""),
    ("delete", "pods", ""),
    ("create", "events", ""),
    ("patch", "events", ""),
];

/// What it does to the Lease of its election, in its own namespace.
const CALLS_OF_THE_ELECTION: &[(&str, &str, &str)] = &[
    ("get", "leases", "coordination.k8s.io"),
    ("watch", "leases", "coordination.k8s.io"),
    ("create", "leases", "coordination.k8s.io"),
    ("update", "leases", "coordination.k8s.io"),
];

/// What it does besides, where it runs CronJobs.
const CALLS_FOR_CRON_JOBS: &[(&str, &str, &str)] = &[
    ("create", "jobs", "batch"),
    ("get", "cronjobs", "batch"),
    ("list", "cronjobs", "batch"),
    ("watch", "cronjobs", "batch"),
    ("patch", "cronjobs/status", "batch"),
];

/// What it does besides, where gangs are asked for.
const CALLS_FOR_GANGS: &[(&str, &str, &str)] = &[
    ("list", "workloads", "scheduling.k8s.io"),
    ("watch", "workloads", "scheduling.k8s.io"),
    ("create", "workloads", "scheduling.k8s.io"),
    ("list", "podgroups", "scheduling.k8s.io"),
    ("watch", "podgroups", "scheduling.k8s.io"),
    ("create", "podgroups", "scheduling.k8s.io"),
];

/// Rights that no call asks for by itself: for owners whose deletion waits for what they own.
const FOR_JOBS_AS_OWNERS: (&str, &str, &str) = ("update", "jobs/finalizers", "batch");
const FOR_CRON_JOBS_AS_OWNERS: (&str, &str, &str) = ("update", "cronjobs/finalizers", "batch");

/// An overlay as it would be applied; none, and why, if kubectl is not there.
fn rendered(overlay: &str) -> Option<Vec<Document>> {
    kustomized(&project(&format!("deploy/overlays/{overlay}")))
}

fn kustomized(path: &str) -> Option<Vec<Document>> {
    let output = Command::new("kubectl").args(["kustomize", path]).output();
    let output = output.ok()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("text");
    Some(manifest::load(&[Source::new(path, text)]).expect("good YAML"))
}

fn kind<'a>(documents: &'a [Document], kind: &str) -> &'a Value {
    let found = documents.iter().find(|document| document.kind == kind);
    &found.unwrap_or_else(|| panic!("no {kind}")).body
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

#[test]
fn every_file_is_a_manifest() {
    for folder in [
        "base",
        "overlays/replace",
        "overlays/managed-by",
        "components/cron-jobs",
        "components/gang-scheduling",
    ] {
        for entry in fs::read_dir(project(&format!("deploy/{folder}"))).expect("it is there") {
            let path = entry.expect("an entry can be read").path();
            if path.ends_with("kustomization.yaml") {
                continue;
            }
            let source = Source::read_file(&path).expect("it can be read");
            assert!(!manifest::load(&[source]).expect("good YAML").is_empty());
        }
    }
}

#[test]
fn overlays_differ_in_their_mode_and_in_cron_jobs_only() {
    let mode = [
        ("replace", json!(["--mode=replace"])),
        (
            "managed-by",
            json!([
                "--mode=managed-by",
                "--managed-by-name=lakh.dev/job-controller",
                "--controllers=*,-cronjob"
            ]),
        ),
    ];
    for (overlay, args) in mode {
        let Some(documents) = rendered(overlay) else {
            return;
        };
        let kinds: BTreeSet<&str> = documents
            .iter()
            .map(|document| document.kind.as_str())
            .collect();
        assert_eq!(
            kinds,
            [
                "Namespace",
                "ServiceAccount",
                "ClusterRole",
                "ClusterRoleBinding",
                "Role",
                "RoleBinding",
                "PodDisruptionBudget",
                "Deployment"
            ]
            .into()
        );
        let deployment = kind(&documents, "Deployment");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let all: Vec<&str> = texts(&container["args"]).collect();
        let common = [
            "controller",
            "--listen=0.0.0.0:8080",
            "--leader-elect-resource-namespace=lakh-system",
        ];
        assert_eq!(all[..3], common);
        assert_eq!(json!(all[3..]), args, "{overlay}");
        check_hardening(deployment);
        let mut wanted: BTreeSet<_> = CALLS.iter().copied().collect();
        wanted.insert(FOR_JOBS_AS_OWNERS);
        if overlay == "replace" {
            wanted.extend(CALLS_FOR_CRON_JOBS);
            wanted.insert(FOR_CRON_JOBS_AS_OWNERS);
        }
        let roles = documents.iter().filter(|it| it.kind == "ClusterRole");
        let granted: BTreeSet<_> = roles.flat_map(|role| grants(&role.body)).collect();
        assert_eq!(granted, wanted, "{overlay}");
        let own = CALLS_OF_THE_ELECTION.iter().copied().collect();
        assert_eq!(grants(kind(&documents, "Role")), own, "{overlay}");
        check_binding(&documents, ["ClusterRole", "ClusterRoleBinding"]);
        check_binding(&documents, ["Role", "RoleBinding"]);
        check_arguments(&all);
    }
}

#[test]
fn the_component_adds_the_gate_and_its_rights() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let place = folder.path().canonicalize().expect("it is there");
    // kustomize takes paths that lead there from here, and no others.
    let up = "../".repeat(place.components().count() - 1);
    let path = |path: &str| format!("{up}{}", project(path).trim_start_matches('/'));
    let text = format!(
        "resources: [{}]\ncomponents: [{}]\n",
        path("deploy/overlays/managed-by"),
        path("deploy/components/gang-scheduling")
    );
    fs::write(place.join("kustomization.yaml"), text).expect("it can be written");
    let Some(documents) = kustomized(&place.display().to_string()) else {
        return;
    };
    let deployment = kind(&documents, "Deployment");
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let args: Vec<&str> = texts(args).collect();
    assert_eq!(args.last(), Some(&"--feature-gates=WorkloadWithJob=true"));
    check_arguments(&args);
    let named = |kind: &str| {
        let name = |document: &&Document| document.name.to_string() == "lakh-gang-scheduling";
        let mut found = documents.iter().filter(|document| document.kind == kind);
        found.find(name).map(|document| &document.body).expect(kind)
    };
    let wanted = CALLS_FOR_GANGS.iter().copied();
    assert_eq!(grants(named("ClusterRole")), wanted.collect());
    let binding = named("ClusterRoleBinding");
    assert_eq!(
        binding["subjects"],
        kind(&documents, "ClusterRoleBinding")["subjects"]
    );
    assert_eq!(binding["roleRef"]["name"], "lakh-gang-scheduling");
}

/// The binary takes the arguments; that there is no cluster is all it complains of.
fn check_arguments(args: &[&str]) {
    let mut args = args.to_vec();
    args.extend(["--kubeconfig", "/nowhere/config"]);
    let output = support::run(&args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("/nowhere/config"), "{said}");
}

fn check_hardening(deployment: &Value) {
    assert_eq!(deployment["spec"]["replicas"], 2);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    let container = &pod["containers"][0];
    assert_eq!(
        container["securityContext"],
        json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        })
    );
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/livez");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert!(container["resources"]["requests"]["cpu"].is_string());
    assert!(container["resources"]["limits"]["memory"].is_string());
}

/// Verb, resource and API group of all that a role allows.
fn grants(role: &Value) -> BTreeSet<(&str, &str, &str)> {
    let mut granted = BTreeSet::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    assert!(granted.insert((verb, resource, group)), "twice: {rule}");
                }
            }
        }
    }
    granted
}

/// Each role of this kind is the account's.
fn check_binding(documents: &[Document], [role, binding]: [&'static str; 2]) {
    let account = kind(documents, "ServiceAccount");
    let named = |kind: &'static str| documents.iter().filter(move |it| it.kind == kind);
    let roles: Vec<&Value> = named(role)
        .map(|role| &role.body["metadata"]["name"])
        .collect();
    let bindings: Vec<&Value> = named(binding).map(|it| &it.body).collect();
    let bound: Vec<&Value> = bindings.iter().map(|it| &it["roleRef"]["name"]).collect();
    assert_eq!(bound, roles);
    for binding in bindings {
        for field in ["name", "namespace"] {
            assert_eq!(binding["subjects"][0][field], account["metadata"][field]);
        }
    }
}

/// Each call is named with its verb and resource where it is made: there the table is read off.
#[test]
fn the_table_is_that_of_the_calls_in_the_source() {
    let mut called = BTreeSet::new();
    let mut paths = vec![PathBuf::from(project("src/shard"))];
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("it is there");
            paths.extend(entries.map(|entry| entry.expect("an entry can be read").path()));
            continue;
        }
        let text = fs::read_to_string(&path).expect("it can be read");
        // What rustfmt put on lines of its own comes together.
        let text: String = text.split_whitespace().collect();
        // Within its own type it is called by another name.
        let text = text.replace("Self::new(", "Named::new(");
        for call in text.split("Named::new(").skip(1) {
            let mut words = call.split('"');
            let (before, verb) = (words.next(), words.next());
            let (comma, resource) = (words.next(), words.next());
            if (before, comma) == (Some(""), Some(",")) {
                called.extend(
                    verb.zip(resource)
                        .map(|(v, r)| (v.to_owned(), r.to_owned())),
                );
            }
        }
    }
    // Objects of gangs are made by one call for both kinds.
    for kind in ["workloads", "podgroups"] {
        called.insert(("create".to_owned(), kind.to_owned()));
    }
    // The informers list and watch whichever kind they are for.
    for kind in ["jobs", "pods", "cronjobs", "workloads", "podgroups"] {
        for verb in ["list", "watch"] {
            called.insert((verb.to_owned(), kind.to_owned()));
        }
    }
    let table = CALLS
        .iter()
        .chain(CALLS_FOR_CRON_JOBS)
        .chain(CALLS_FOR_GANGS)
        .map(|(verb, resource, _)| (verb.to_string(), resource.to_string()));
    assert_eq!(called, table.collect());
}

#[test]
fn the_image_is_built_of_what_is_not_ignored() {
    let ignored = fs::read_to_string(project(".dockerignore")).expect("it is there");
    for needed in [
        "Cargo.toml",
        "Cargo.lock",
        "clock",
        "core",
        "embedded",
        "src",
        "loadtest",
    ] {
        assert!(!ignored.lines().any(|line| line == needed), "{needed}");
    }
    assert!(ignored.lines().any(|line| line == "target"));
    let docker = fs::read_to_string(project("deploy/Dockerfile")).expect("it is there");
    assert!(
        docker.contains("RUN cargo build --release --locked --no-default-features --bin lakh\n")
    );
    let manifest = fs::read_to_string(project("Cargo.toml")).expect("it is there");
    let version = docker
        .split("rust:")
        .nth(1)
        .and_then(|rest| rest.split('-').next());
    let version = version.expect("the image names a version");
    assert!(
        manifest.contains(&format!("rust-version = \"{version}\"")),
        "{version}"
    );
}
