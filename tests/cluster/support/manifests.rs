//! The manifests below deploy/, as Helm renders the chart and as kustomize puts together what was rendered of it.

#![allow(clippy::print_stdout, reason = "what was left out must be said")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use lakh::embedded::manifest::{self, Document, Source};

use super::project;

/// Where an overlay puts lakh, by its folder below deploy/overlays, and what the chart is told for it.
pub const OVERLAYS: [(&str, &str, &[&str]); 3] = [
    ("managed-by", "lakh-system", &[]),
    ("replace", "lakh-system", &["mode=replace"]),
    ("namespaced", "team-a", &["namespaces={team-a}"]),
];

/// What a component is rendered of, by its folder below deploy/components: a template, and what the chart is told to
/// render it.
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

/// What somebody may want: each component at least once, each overlay with all that fit it. None fits `namespaced`: they
/// are rendered for lakh-system. The chart's network policy opens the page's port for `networkPolicy.uiFrom`, which has no
/// component.
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

/// The file of an overlay or a component that was rendered.
pub fn rendered_file(folder: &str) -> PathBuf {
    project(&format!("deploy/{folder}/lakh.yaml")).into()
}

/// The objects of a file.
pub fn read(path: &Path) -> Vec<Document> {
    objects(&fs::read_to_string(path).expect("it can be read"))
}

/// The objects of a text.
pub fn objects(text: &str) -> Vec<Document> {
    manifest::load(&[Source::new("rendered", text)]).expect("good YAML")
}

/// The arguments that a component adds to the controller's.
pub fn added_arguments(component: &str) -> Vec<String> {
    let path = project(&format!("deploy/components/{component}/kustomization.yaml"));
    let text = fs::read_to_string(path).expect("it can be read");
    let values = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("value: "));
    values.map(str::to_owned).collect()
}

/// What a variant is told by, for Helm: the namespace, and what is set.
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

/// A variant as Helm renders it; none, said, if there is no Helm.
pub fn helm(variant: Variant) -> Option<String> {
    let (namespace, set) = told(variant);
    helm_template(namespace, &set, &[])
}

/// What Helm renders, with more arguments.
pub fn helm_template(namespace: &str, set: &[&str], more: &[&str]) -> Option<String> {
    let set = set.iter().flat_map(|value| ["--set", *value]);
    run(Command::new("helm")
        .args(["template", "lakh", &project("deploy/chart")])
        .args(["--namespace", namespace])
        .args(set)
        .args(more))
}

/// A variant as kubectl would apply it; none, said, if there is no kubectl.
pub fn kustomize((overlay, components): Variant) -> Option<String> {
    let overlay = format!("deploy/overlays/{overlay}");
    if components.is_empty() {
        return run(Command::new("kubectl").args(["kustomize", &project(&overlay)]));
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let place = folder.path().canonicalize().expect("it is there");
    // kustomize takes paths that lead there from here, and no others.
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

/// What a command prints, which must succeed; none, said, if there is no such program.
fn run(command: &mut Command) -> Option<String> {
    let Ok(output) = command.output() else {
        println!("{:?} is not installed: skipped", command.get_program());
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    Some(String::from_utf8(output.stdout).expect("text"))
}
