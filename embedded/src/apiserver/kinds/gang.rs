//! Workloads and PodGroups: their rules.
//!
//! Responsible for: what the controller's objects are checked for, and what never changes. Must not:
//! look at other objects; that is the server's `admission`.
//!
//! Different from a real server: fields behind further alpha gates (constraints, resource claims,
//! priorities, disruption) are checked for their types only; a PodGroup has no finalizer that keeps
//! it while its Pods are there; nothing schedules by it.

use serde_json::{Value, json};

use crate::apiserver::object::{
    field_errors::FieldErrors,
    names,
    tree::{self, Tree},
};

/// How many templates a Workload may have.
const MAX_TEMPLATES: usize = 8;

/// Checks a new Workload.
pub(crate) fn validate_workload(tree: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = tree::section(tree, "spec");
    if spec.contains_key("controllerRef") {
        let reference = tree::section(spec, "controllerRef");
        for field in ["kind", "name"] {
            if tree::text(reference, field).is_empty() {
                errors.required(format!("spec.controllerRef.{field}"), "");
            }
        }
    }
    let path = "spec.podGroupTemplates";
    let templates = tree::items(spec, "podGroupTemplates");
    match templates.len() {
        0 => errors.required(path, ""),
        have if have > MAX_TEMPLATES => errors.too_many(path, have, MAX_TEMPLATES),
        _ => {}
    }
    let mut known: Vec<&str> = Vec::new();
    for (index, template) in templates.iter().filter_map(Value::as_object).enumerate() {
        let path = format!("{path}[{index}]");
        let name = tree::text(template, "name");
        check_label(&format!("{path}.name"), name, &mut errors);
        if known.contains(&name) {
            errors.duplicate(&path, json!({"name": name}));
        }
        known.push(name);
        check_policy(&path, template, &mut errors);
    }
    errors
}

/// Checks a new PodGroup.
pub(crate) fn validate_pod_group(tree: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = tree::section(tree, "spec");
    if spec.contains_key("podGroupTemplateRef") {
        let path = "spec.podGroupTemplateRef";
        let reference = tree::section(spec, "podGroupTemplateRef");
        if !reference.contains_key("workload") {
            errors.invalid(path, r#""""#, "must specify one of: `workload`");
        } else {
            let workload = tree::section(reference, "workload");
            if tree::text(workload, "workloadName").is_empty() {
                errors.required(format!("{path}.workload.workloadName"), "");
            }
            let template = tree::text(workload, "podGroupTemplateName");
            check_label(
                &format!("{path}.workload.podGroupTemplateName"),
                template,
                &mut errors,
            );
        }
    }
    check_policy("spec", spec, &mut errors);
    errors
}

/// Checks that the fields of a spec that never change have not.
pub(crate) fn validate_update(fields: &[&str], tree: &Tree, old: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, old) = (tree::section(tree, "spec"), tree::section(old, "spec"));
    for field in fields {
        errors.immutable(format!("spec.{field}"), spec.get(*field), old.get(*field));
    }
    errors
}

fn check_label(path: &str, name: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.required(path, "");
    } else if let Some(problem) = names::dns_label_problem(name) {
        errors.invalid(path, Value::from(name), &problem);
    }
}

/// Checks that a scheduling policy is one of the two there are.
fn check_policy(path: &str, parent: &Tree, errors: &mut FieldErrors) {
    let path = format!("{path}.schedulingPolicy");
    let policy = tree::section(parent, "schedulingPolicy");
    let set = ["basic", "gang"].map(|member| policy.contains_key(member));
    let one_of = "one of: `basic`, `gang`";
    match set {
        [false, false] => errors.invalid(&path, r#""""#, &format!("must specify {one_of}")),
        [true, true] => {
            let why = format!("must specify exactly {one_of}");
            errors.invalid(&path, r#""{`basic`, `gang`}""#, &why);
        }
        [_, gang] => {
            let count = tree::int(tree::section(policy, "gang"), "minCount");
            match count.unwrap_or_default() {
                0 if gang => errors.required(format!("{path}.gang.minCount"), ""),
                count if gang && count < 1 => {
                    let path = format!("{path}.gang.minCount");
                    errors.invalid(path, count, "must be greater than or equal to 1");
                }
                _ => {}
            }
        }
    }
}
