//! What may change in a Job's spec.
//!
//! Responsible for: immutable fields and the template of suspended Jobs. Must not: check the new
//! spec by itself; that is `validate`.

use serde_json::Value;

use super::{policies, validate};
use crate::apiserver::object::{
    field_errors::{FieldErrors, shown},
    tree::{self, Tree},
};

/// Checks a changed Job against its old state.
#[doc(alias = "ValidateJobUpdate")]
pub(crate) fn validate_update(tree: &Tree, old: &Tree) -> FieldErrors {
    let spec = tree::section(tree, "spec");
    let old_spec = tree::section(old, "spec");
    let mut errors = FieldErrors::new();
    if spec == old_spec {
        return errors;
    }
    errors.append(validate::check_generated_on_update(tree, spec));
    // The spec is looked at once as a new one's, and once more as a changed one's.
    for _ in 0..2 {
        errors.append(validate::check_spec(spec));
        validate::check_selector(spec, &mut errors);
    }
    check_immutable(spec, old_spec, &mut errors);
    check_template(spec, old_spec, tree::section(old, "status"), &mut errors);
    validate::check_hostnames(tree, spec, &mut errors);
    errors
}

fn check_immutable(spec: &Tree, old: &Tree, errors: &mut FieldErrors) {
    check_completions(spec, old, errors);
    for field in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        let path = format!("spec.{field}");
        match (field, spec.get(field)) {
            ("successPolicy" | "podFailurePolicy", Some(policy))
                if old.get(field) != Some(policy) =>
            {
                errors.invalid(path, policies::shown(field, policy), "field is immutable");
            }
            (_, value) => errors.immutable(path, value, old.get(field)),
        }
    }
}

/// Completions of an Indexed Job may follow its parallelism.
fn check_completions(spec: &Tree, old: &Tree, errors: &mut FieldErrors) {
    let (now, before) = (spec.get("completions"), old.get("completions"));
    if now == before {
        return;
    }
    let path = "spec.completions";
    if tree::text(old, "completionMode") != "Indexed" || before.is_none() {
        errors.invalid(path, shown(now), "field is immutable");
    } else if now.is_some() && now != spec.get("parallelism") {
        errors.invalid(
            path,
            shown(now),
            "can only be modified in tandem with spec.parallelism",
        );
    }
}

fn check_template(spec: &Tree, old: &Tree, status: &Tree, errors: &mut FieldErrors) {
    let (template, old_template) = (spec.get("template"), old.get("template"));
    if template == old_template {
        return;
    }
    let not_started = !status.contains_key("startTime") || is_suspended(status);
    let idle = tree::int(status, "active").unwrap_or_default() == 0;
    if !(tree::flag(old, "suspend") && not_started && idle) {
        errors.invalid("spec.template", shown(template), "field is immutable");
        return;
    }
    let strict = |template: Option<&Value>| {
        let mut template = template.cloned().unwrap_or_default();
        drop_directives(&mut template);
        template
    };
    if strict(template) != strict(old_template) {
        let pod = template.and_then(|template| template.get("spec"));
        errors.invalid("spec.template.spec", shown(pod), "field is immutable");
    }
}

fn is_suspended(status: &Tree) -> bool {
    tree::items(status, "conditions").iter().any(|condition| {
        let is = |name: &str, value: &str| condition.get(name).is_some_and(|have| have == value);
        is("type", "Suspended") && is("status", "True")
    })
}

/// Takes out what may change while a Job is suspended: where its Pods go, and how much they ask.
fn drop_directives(template: &mut Value) {
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("labels");
        metadata.remove("annotations");
        if metadata.is_empty()
            && let Some(template) = template.as_object_mut()
        {
            template.remove("metadata");
        }
    }
    let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        pod.remove(field);
    }
    if let Some(affinity) = pod.get_mut("affinity").and_then(Value::as_object_mut) {
        affinity.remove("nodeAffinity");
        if affinity.is_empty() {
            pod.remove("affinity");
        }
    }
    for list in ["containers", "initContainers"] {
        let containers = pod
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            if let Some(Value::Object(resources)) = container.get_mut("resources") {
                resources.remove("requests");
                resources.remove("limits");
            }
        }
    }
}
