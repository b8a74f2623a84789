//! Tests the manifests below deploy/: kustomize and Helm render the same, and the binary accepts its arguments. The
//! controller's rights are tested in `rights`, and the installation commands in `guides`.
//!
//! Parts that need Helm or kubectl are skipped with a notice if it is not installed.

#![allow(clippy::print_stdout, reason = "a test that was left out must say so")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use lakh::model::stable_hash;
use serde_json::{Value, json};

use crate::support::{
    self,
    manifests::{
        COMPONENTS, OVERLAYS, VARIANTS, helm, helm_template, kustomize, objects, read,
        rendered_file,
    },
    project,
};

/// First line of every rendered file.
const HEADER: &str = "# Rendered from deploy/chart, which is what to change; then `just deploy`.\n";

/// Digest of the chart and the rendered files at the last rendering.
const DIGEST: &str = "deploy/rendered.digest";

/// Returns each rendered file and Helm's output for it; `None` without Helm.
fn renderings() -> Option<Vec<(PathBuf, String)>> {
    let overlay = |(name, namespace, set): (&str, &str, &[&str])| {
        let text = helm_template(namespace, set, &[])?;
        Some((rendered_file(&format!("overlays/{name}")), text))
    };
    let component = |(name, template, set): (&str, &str, &[&str])| {
        let only = format!("templates/{template}.yaml");
        let text = helm_template("lakh-system", set, &["--show-only", &only])?;
        Some((rendered_file(&format!("components/{name}")), text))
    };
    // Versions of Helm differ in their empty lines.
    let filled = |text: &str| -> String {
        let lines = text.split_inclusive('\n');
        lines.filter(|line| !line.trim().is_empty()).collect()
    };
    let all = OVERLAYS.into_iter().map(overlay);
    all.chain(COMPONENTS.into_iter().map(component))
        .map(|rendered| rendered.map(|(path, text)| (path, format!("{HEADER}{}", filled(&text)))))
        .collect()
}

/// Rewrites the files if `UPDATE_DEPLOY` is set.
#[test]
fn rendered_files_match_the_chart() {
    let renderings = renderings();
    if std::env::var_os("UPDATE_DEPLOY").is_some() {
        for (path, text) in renderings.as_ref().expect("helm is on the path") {
            fs::write(path, text).expect("it can be written");
        }
        fs::write(project(DIGEST), digest()).expect("it can be written");
    }
    for (path, text) in renderings.iter().flatten() {
        let there = fs::read_to_string(path).expect("it can be read");
        let path = path.display();
        assert!(there == *text, "{path} is out of date: run `just deploy`");
    }
    // The digest reveals a change also where Helm is missing.
    let there = fs::read_to_string(project(DIGEST)).expect("it can be read");
    assert_eq!(there, digest(), "something changed: run `just deploy`");
}

/// Returns a digest of the chart and of all rendered files.
fn digest() -> String {
    let mut files = files_below(Path::new(&project("deploy/chart")));
    let folders = OVERLAYS.map(|(name, ..)| format!("overlays/{name}"));
    files.extend(folders.iter().map(|folder| rendered_file(folder)));
    let folders = COMPONENTS.map(|(name, ..)| format!("components/{name}"));
    files.extend(folders.iter().map(|folder| rendered_file(folder)));
    files.sort();
    let bytes = files.iter().flat_map(|file| {
        let name = file.strip_prefix(project("deploy")).expect("it is there");
        let mut bytes = name.display().to_string().into_bytes();
        bytes.push(0);
        bytes.extend(fs::read(file).expect("it can be read"));
        bytes
    });
    format!("{:016x}\n", stable_hash(bytes))
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("it can be read");
    let paths = entries.map(|entry| entry.expect("an entry can be read").path());
    let below = |path: PathBuf| match path.is_dir() {
        true => files_below(&path),
        false => vec![path],
    };
    paths.flat_map(below).collect()
}

/// Returns objects by kind, namespace and name, without lakh's Namespace: Helm creates that by itself.
fn by_name(text: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for document in objects(text) {
        if document.kind == "Namespace" {
            continue;
        }
        let namespace = document.namespace.unwrap_or_default();
        let key = format!("{} {namespace}/{}", document.kind, document.name);
        let before = all.insert(key.clone(), document.body);
        assert_eq!(before, None, "twice: {key}");
    }
    all
}

#[test]
fn kustomize_and_helm_give_the_same() {
    for variant in VARIANTS {
        let Some((helm, kustomize)) = helm(variant).zip(kustomize(variant)) else {
            return;
        };
        let (helm, kustomize) = (by_name(&helm), by_name(&kustomize));
        let keys = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&helm), keys(&kustomize), "{variant:?}");
        for (key, object) in helm {
            assert_eq!(object, kustomize[&key], "{variant:?}: {key}");
        }
    }
}

#[test]
fn unknown_chart_values_are_refused_by_name() {
    let namespaced = "namespaces={team-a}";
    let cases: [(&[&str], &str); 11] = [
        (&["replicasShare=1"], "replicasShare"),
        (&["mode=beside"], "mode"),
        (&["gangSchedulng=true"], "gangSchedulng"),
        (&["flowControl.shares=3"], "shares"),
        (&["extraArgs={qps}"], "extraArgs"),
        (&["metrics.serviceMonitor=true"], "needs metrics.service"),
        (&["replicas=0"], "replicas"),
        (&["shardSelector=true"], "needs replicasShare"),
        (&["ui.enabled=true"], "needs ui.tlsSecretName"),
        (
            &[
                "ui.enabled=true",
                "ui.plainHttp=true",
                "networkPolicy.enabled=true",
            ],
            "networkPolicy.uiFrom",
        ),
        (&[namespaced, "flowControl.enabled=true"], "cluster-wide"),
    ];
    for (set, name) in cases {
        let set: Vec<&str> = set.iter().flat_map(|value| ["--set", *value]).collect();
        let chart = project("deploy/chart");
        let output = Command::new("helm")
            .args(["template", "lakh", &chart])
            .args(&set)
            .output();
        let Ok(output) = output else {
            println!("helm is not installed: skipped");
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{set:?}");
        assert!(said.contains(name), "{set:?}: {said}");
    }
}

#[test]
fn the_binary_takes_the_arguments() {
    let files = OVERLAYS.map(|(name, ..)| rendered_file(&format!("overlays/{name}")));
    let overlays = files.iter().flat_map(|file| read(file));
    let variants = VARIANTS.into_iter().filter_map(kustomize);
    let sharing = ["replicasShare=8", "shardSelector=true"];
    let sharing = helm_template("lakh-system", &sharing, &[]);
    if let Some(text) = &sharing {
        assert!(text.contains("- --replicas-share=8"), "{text}");
        assert!(text.contains("- --shard-selector"), "{text}");
    }
    let variants = variants.chain(sharing);
    let all = overlays.chain(variants.flat_map(|text| objects(&text)));
    for deployment in all.filter(|object| object.kind == "Deployment") {
        let container = &deployment.body["spec"]["template"]["spec"]["containers"][0];
        let args = container["args"].as_array().expect("arguments");
        let mut args: Vec<&str> = args.iter().filter_map(Value::as_str).collect();
        args.extend(["--kubeconfig", "/nowhere/config"]);
        // The missing cluster must be the only error.
        let output = support::run(&args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("/nowhere/config"), "{args:?}: {said}");
    }
}

#[test]
fn the_pod_meets_the_strictest_standard() {
    let documents = read(&rendered_file("overlays/managed-by"));
    let mut deployments = documents.iter().filter(|it| it.kind == "Deployment");
    let deployment = &deployments.next().expect("a Deployment").body;
    assert_eq!(deployment["spec"]["replicas"], 2);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let profile = &pod["securityContext"]["seccompProfile"]["type"];
    assert_eq!(profile, "RuntimeDefault");
    let container = &pod["containers"][0];
    let context = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"]},
    });
    assert_eq!(container["securityContext"], context);
    assert!(container["resources"]["limits"]["memory"].is_string());
}

#[test]
fn the_chart_is_of_this_version() {
    let chart = fs::read_to_string(project("deploy/chart/Chart.yaml")).expect("it is there");
    for field in ["version", "appVersion"] {
        let line = format!("{field}: {}", env!("CARGO_PKG_VERSION"));
        assert!(chart.lines().any(|it| it == line), "no {line}");
    }
}

#[test]
fn the_image_is_built_from_files_that_are_not_ignored() {
    let ignored = fs::read_to_string(project(".dockerignore")).expect("it is there");
    for needed in ["Cargo.toml", "Cargo.lock", "crates", "src", "loadtest"] {
        assert!(!ignored.lines().any(|line| line == needed), "{needed}");
    }
    assert!(ignored.lines().any(|line| line == "target"));
    let docker = fs::read_to_string(project("deploy/Dockerfile")).expect("it is there");
    let script = "deploy/build.sh";
    assert!(docker.contains(script) && ignored.contains(&format!("!{script}\n")));
    let build = fs::read_to_string(project(script)).expect("it is there");
    assert!(
        build.contains(
            "cargo build --profile production --locked --no-default-features --bin lakh "
        )
    );
    let version = format!("ARG VERSION={}\n", env!("CARGO_PKG_VERSION"));
    assert!(docker.contains(&version), "no {version}");
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
    let release = fs::read_to_string(project(".github/workflows/release.yml"));
    let installs = format!("rustup toolchain install {version} ");
    assert!(
        release.expect("it is there").contains(&installs),
        "{installs}"
    );
}
