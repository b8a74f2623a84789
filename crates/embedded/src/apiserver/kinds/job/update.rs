//! Validates updates of a Job's spec.
//!
//! Responsible for: immutable fields, and the template of suspended Jobs. Must not: validate the new spec by itself;
//! `validate` does.

use serde_json::Value;

use super::{policies, selector, status::condition_is, validate};
use crate::apiserver::{
    kinds::metadata,
    object::{CheckedField, JsonView, Tree, tree},
};

/// Validates a Job against its previous state.
#[doc(alias = "ValidateJobUpdate")]
pub(crate) fn validate_update(job: &CheckedField<'_, '_>) {
    let spec = job.at("spec");
    let has_changed = spec.has_changed();
    if has_changed {
        validate::check_generated(job, &spec);
        validate::check_spec(&spec);
        validate::check_selector(&spec);
        validate::check_hostnames(job, &spec);
    }
    metadata::check_again(job);
    if !has_changed {
        return;
    }
    // Upstream validates the spec twice: above as that of a new Job, here as an update.
    validate::check_spec(&spec);
    validate::check_selector(&spec);
    check_completions(&spec);
    check_immutable(&spec.at("selector"), "selector");
    check_template(&spec, job.at("status").old());
    for field in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        check_immutable(&spec.at(field), field);
    }
}

fn check_immutable(field: &CheckedField<'_, '_>, name: &str) {
    let is_policy = ["successPolicy", "podFailurePolicy"].contains(&name);
    if is_policy && field.is_set() && field.has_changed() {
        field.invalid_as(policies::shown(name, field.value()), "field is immutable");
    } else if name == "selector" && field.has_changed() {
        field.invalid_as(selector::shown(**field), "field is immutable");
    } else {
        field.must_not_change();
    }
}

/// `completions` of an Indexed Job may change together with `parallelism`.
fn check_completions(spec: &CheckedField<'_, '_>) {
    let completions = spec.at("completions");
    if !completions.has_changed() {
        return;
    }
    let is_indexed = spec.old().at("completionMode").text() == "Indexed";
    if !is_indexed || !completions.old().is_set() {
        completions.invalid("field is immutable");
    } else if completions.is_set() && completions.value() != spec.at("parallelism").value() {
        completions.invalid("can only be modified in tandem with spec.parallelism");
    }
}

fn check_template(spec: &CheckedField<'_, '_>, status: JsonView<'_>) {
    let template = spec.at("template");
    if !template.has_changed() {
        return;
    }
    let not_started = !status.at("startTime").is_set() || condition_is(status, "Suspended", "True");
    let idle = status.at("active").number() == 0;
    if !(spec.old().at("suspend").flag() && not_started && idle) {
        template.invalid("field is immutable");
    } else if but_directives(template.value()) != but_directives(template.old().value()) {
        template.at("spec").invalid("field is immutable");
    }
}

/// Returns the template without the fields that may change while a Job is suspended: scheduling fields, labels,
/// annotations and resources.
fn but_directives(template: &Value) -> Tree {
    let mut template = template.as_object().cloned().unwrap_or_default();
    for path in [
        "metadata.labels",
        "metadata.annotations",
        "spec.nodeSelector",
        "spec.tolerations",
        "spec.schedulingGates",
        "spec.affinity.nodeAffinity",
    ] {
        remove_at(&mut template, path);
    }
    let pod = tree::section_mut(&mut template, "spec");
    for list in ["containers", "initContainers"] {
        for container in tree::objects_mut(pod, list) {
            if let Some(Value::Object(resources)) = container.get_mut("resources") {
                resources.remove("requests");
                resources.remove("limits");
            }
        }
    }
    template
}

/// Removes the value at a path, and its parents that become empty.
fn remove_at(tree: &mut Tree, path: &str) {
    let Some((name, rest)) = path.split_once('.') else {
        tree.remove(path);
        return;
    };
    if let Some(Value::Object(section)) = tree.get_mut(name) {
        remove_at(section, rest);
        if section.is_empty() {
            tree.remove(name);
        }
    }
}
