//! Renders the manifests below deploy/ with Helm, and with kustomize from the rendered files.

#![allow(clippy::print_stdout, reason = "what was left out must be said")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use lakh::embedded::manifest::{self, Document, Source};

use super::project;

/// Overlays: folder below deploy/overlays, namespace of lakh, and values of the chart.
pub const OVERLAYS: [(&str, &str, &[&str]); 3] = [
    ("managed-by", "lakh-system", &[]),
    ("replace", "lakh-system", &["mode=replace"]),
    ("namespaced", "team-a", &["namespaces={team-a}"]),
];

/// Components: folder below deploy/components, the chart's template, and the values with which it is rendered.
pub const COMPONENTS: [(&str, &str, &[&str]); 7] = [
    ("cron-jobs", "cron-jobs", &["cronJobs=true"]),
    (
        "gang-scheduling",
        "gang-scheduling",
        &["gangScheduling=true"],
    ),
    ("metrics", "metrics", &["metrics.service=true"]),
    (
        "service-monitor",
        "service-monitor",
        &["metrics.service=true", "metrics.serviceMonitor=true"],
    ),
    (
        "network-policy",
        "network-policy",
        &["networkPolicy.enabled=true"],
    ),
    (
        "flow-control",
        "flow-control",
        &["flowControl.enabled=true"],
    ),
    ("ui", "ui", &["ui.enabled=true", "ui.plainHttp=true"]),
];

/// An overlay with components on top of it.
pub type Variant = (&'static str, &'static [&'static str]);

/// Typical combinations: each component at least once, and each overlay with all components that fit it. None fits
/// `namespaced`: they are rendered for lakh-system. The chart's network policy opens the UI's port for
/// `networkPolicy.uiFrom`, which has no component.
pub const VARIANTS: [Variant; 7] = [
    ("managed-by", &[]),
    ("replace", &[]),
    ("namespaced", &[]),
    ("managed-by", &["cron-jobs"]),
    (
        "managed-by",
        &[
            "cron-jobs",
            "gang-scheduling",
            "metrics",
            "service-monitor",
            "network-policy",
            "flow-control",
        ],
    ),
    ("managed-by", &["ui"]),
    (
        "replace",
        &[
            "gang-scheduling",
            "metrics",
            "network-policy",
            "flow-control",
        ],
    ),
];

/// Returns the path of the rendered file of an overlay or a component.
pub fn rendered_file(folder: &str) -> PathBuf {
    project(&format!("deploy/{folder}/lakh.yaml")).into()
}

/// Reads the objects of a file.
pub fn read(path: &Path) -> Vec<Document> {
    objects(&fs::read_to_string(path).expect("it can be read"))
}

/// Parses the objects of a text.
pub fn objects(text: &str) -> Vec<Document> {
    manifest::load(&[Source::new("rendered", text)]).expect("good YAML")
}

/// Returns the arguments that a component adds to the controller's.
pub fn added_arguments(component: &str) -> Vec<String> {
    let path = project(&format!("deploy/components/{component}/kustomization.yaml"));
    let text = fs::read_to_string(path).expect("it can be read");
    let values = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("value: "));
    values.map(str::to_owned).collect()
}

/// Returns a variant's namespace and values for Helm.
fn told((overlay, components): Variant) -> (&'static str, Vec<&'static str>) {
    let (_, namespace, set) = OVERLAYS
        .into_iter()
        .find(|(name, ..)| *name == overlay)
        .expect("an overlay");
    let more = COMPONENTS
        .iter()
        .filter(|(name, ..)| components.contains(name))
        .flat_map(|(_, _, set)| *set);
    (namespace, set.iter().chain(more).copied().collect())
}

/// Renders a variant with Helm. Without Helm it prints a notice and returns `None`.
pub fn helm(variant: Variant) -> Option<String> {
    let (namespace, set) = told(variant);
    helm_template(namespace, &set, &[])
}

/// Renders the chart with Helm and additional arguments.
pub fn helm_template(namespace: &str, set: &[&str], more: &[&str]) -> Option<String> {
    let set = set.iter().flat_map(|value| ["--set", *value]);
    run(Command::new("helm")
        .args(["template", "lakh", &project("deploy/chart")])
        .args(["--namespace", namespace])
        .args(set)
        .args(more))
}

/// Renders a variant as kubectl would apply it. Without kubectl it prints a notice and returns `None`.
pub fn kustomize((overlay, components): Variant) -> Option<String> {
    let overlay = format!("deploy/overlays/{overlay}");
    if components.is_empty() {
        return run(Command::new("kubectl").args(["kustomize", &project(&overlay)]));
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let place = folder.path().canonicalize().expect("it is there");
    // kustomize takes only relative paths.
    let up = "../".repeat(place.components().count() - 1);
    let path = |path: &str| format!("{up}{}", project(path).trim_start_matches('/'));
    let components = components
        .iter()
        .map(|name| path(&format!("deploy/components/{name}")));
    let text = format!(
        "resources: [{}]\ncomponents: [{}]\n",
        path(&overlay),
        components.collect::<Vec<_>>().join(", ")
    );
    fs::write(place.join("kustomization.yaml"), text).expect("it can be written");
    run(Command::new("kubectl").arg("kustomize").arg(&place))
}

/// Returns the output of a command, which must succeed. Without the program it prints a notice and returns `None`.
fn run(command: &mut Command) -> Option<String> {
    let Ok(output) = command.output() else {
        println!("{:?} is not installed: skipped", command.get_program());
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    Some(String::from_utf8(output.stdout).expect("text"))
}
