//! Applies the defaults of Jobs and generates their selector and labels.
//!
//! Responsible for: setting fields. Must not: reject anything.

use serde_json::{Value, json};

use crate::apiserver::{
    kinds::{defaults, template},
    object::{Tree, names, tree},
};

/// Labels that the server sets on the pod template, with the metadata field of their value.
pub(super) const GENERATED: [(&str, &str); 4] = [
    ("controller-uid", "uid"),
    ("job-name", "name"),
    ("batch.kubernetes.io/controller-uid", "uid"),
    ("batch.kubernetes.io/job-name", "name"),
];

/// The label in the generated selector.
pub(super) const SELECTOR_LABEL: &str = "batch.kubernetes.io/controller-uid";

/// Applies the defaults of a Job.
pub(crate) fn default(tree: &mut Tree) {
    default_spec(tree::section_mut(tree, "spec"));
    default_labels(tree);
}

/// Applies the defaults of a CronJob.
#[doc(alias = "SetDefaults_CronJob")]
pub(crate) fn default_cron_job(tree: &mut Tree) {
    let spec = tree::section_mut(tree, "spec");
    if tree::text(spec, "concurrencyPolicy").is_empty() {
        spec.insert("concurrencyPolicy".into(), "Allow".into());
    }
    defaults::fill(spec, "cronJobSpec");
    let job = tree::section_mut(spec, "jobTemplate");
    tree::section_mut(job, "metadata");
    let template = tree::section_mut(tree::section_mut(job, "spec"), "template");
    tree::section_mut(template, "metadata");
    template::default_spec(tree::section_mut(template, "spec"));
}

fn default_spec(spec: &mut Tree) {
    if !spec.contains_key("parallelism") {
        tree::default(spec, "completions", 1);
        tree::default(spec, "parallelism", 1);
    }
    let unlimited = spec.contains_key("backoffLimitPerIndex");
    tree::default(spec, "backoffLimit", if unlimited { i32::MAX } else { 6 });
    defaults::fill(spec, "jobSpec");
    tree::default(spec, "podReplacementPolicy", replacement_policy(spec));
    if let Some(Value::Object(policy)) = spec.get_mut("podFailurePolicy") {
        let rules = tree::objects_mut(policy, "rules");
        for pattern in rules.flat_map(|rule| tree::objects_mut(rule, "onPodConditions")) {
            if tree::text(pattern, "status").is_empty() {
                pattern.insert("status".into(), "True".into());
            }
        }
    }
    let template = tree::section_mut(spec, "template");
    template::default_spec(tree::section_mut(template, "spec"));
}

/// The default of `podReplacementPolicy`.
pub(super) fn replacement_policy(spec: &Tree) -> &'static str {
    match spec.contains_key("podFailurePolicy") {
        true => "Failed",
        false => "TerminatingOrFailed",
    }
}

/// Copies the template's labels, including generated ones, to a Job without labels.
fn default_labels(tree: &mut Tree) {
    if !tree::section(tree, "metadata.labels").is_empty() {
        return;
    }
    let template = tree::section(tree, "spec.template.metadata");
    if let Some(labels) = template.get("labels").cloned() {
        tree::metadata_mut(tree).insert("labels".into(), labels);
    }
}

/// Normalizes a written status: removes counters of zero and sets missing times of conditions to null.
pub(crate) fn prepare_status(tree: &mut Tree) {
    let status = tree::section_mut(tree, "status");
    for counter in ["active", "succeeded", "failed"] {
        if tree::int(status, counter) == Some(0) {
            status.remove(counter);
        }
    }
    defaults::fill(status, "jobStatus");
}

/// Resets the status and generates selector and labels.
pub(crate) fn prepare_create(tree: &mut Tree) {
    tree.insert("status".into(), json!({}));
    let metadata = tree::metadata(tree).clone();
    let spec = tree::section_mut(tree, "spec");
    if !tree::flag(spec, "manualSelector") {
        let template = tree::section_mut(tree::section_mut(spec, "template"), "metadata");
        let labels = tree::section_mut(template, "labels");
        for (label, field) in GENERATED {
            tree::default(labels, label, tree::text(&metadata, field));
        }
        let selector = tree::section_mut(spec, "selector");
        let labels = tree::section_mut(selector, "matchLabels");
        tree::default(labels, SELECTOR_LABEL, tree::text(&metadata, "uid"));
    }
    default_labels(tree);
}

/// Warns about a name that is not a DNS label.
pub(super) fn name_warning(tree: &Tree) -> Option<String> {
    let problems = names::dns_label_problems(tree::text(tree, "metadata.name"));
    (!problems.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
             label is recommended: [{}]",
            problems.join(" ")
        )
    })
}

/// Warnings for a new Job.
pub(crate) fn warnings(tree: &Tree) -> Vec<String> {
    let mut warnings: Vec<String> = name_warning(tree).into_iter().collect();
    warnings.extend(spec_warnings("spec", tree::section(tree, "spec")));
    warnings
}

/// Warnings for an update of a Job.
pub(crate) fn update_warnings(tree: &Tree, old: &Tree) -> Vec<String> {
    match tree.get("spec") == old.get("spec") {
        true => Vec::new(),
        false => spec_warnings("spec", tree::section(tree, "spec")),
    }
}

/// Warnings for the spec of a Job; `path` is the path of that spec.
#[doc(alias = "WarningsForJobSpec")]
pub(super) fn spec_warnings(path: &str, spec: &Tree) -> Vec<String> {
    let mut warnings = Vec::new();
    let above = |field: &str, limit: i64| tree::int(spec, field).is_some_and(|have| have > limit);
    if tree::text(spec, "completionMode") == "Indexed"
        && above("completions", 100_000)
        && above("parallelism", 10_000)
    {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a \
             parallelism higher than 10^4, Kubernetes might not be able to track \
             completedIndexes when a big number of indexes fail"
        ));
    }
    let template = tree::section(spec, "template");
    warnings.extend(template::warnings(&format!("{path}.template"), template));
    warnings
}
