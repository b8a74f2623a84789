//! Implements the rules of Workloads and PodGroups.
//!
//! Responsible for: validation and immutable fields. Must not: access other objects; the server's `admission` does.
//!
//! Different from a real server: fields behind further alpha gates (constraints, resource claims, priorities,
//! disruption) are checked for their types only. A PodGroup has no finalizer that keeps it while its Pods exist. No
//! scheduler uses PodGroups.

use serde_json::json;

use crate::apiserver::object::CheckedField;

/// The largest number of templates in a Workload.
const MAX_TEMPLATES: usize = 8;

/// Validates a new Workload.
pub(crate) fn validate_workload(workload: &CheckedField<'_, '_>) {
    let reference = workload.at("spec.controllerRef");
    if reference.is_set() {
        reference.at("kind").must_be_given();
        reference.at("name").must_be_given();
    }
    let templates = workload.at("spec.podGroupTemplates");
    if templates.list().is_empty() {
        templates.required("");
    }
    templates.must_have_at_most(MAX_TEMPLATES);
    let mut known: Vec<&str> = Vec::new();
    for template in templates.items() {
        let name = template.at("name").text();
        template.at("name").must_be_dns_label();
        if known.contains(&name) {
            template.duplicate_as(json!({"name": name}));
        }
        known.push(name);
        check_policy(&template);
    }
}

/// Validates a new PodGroup.
pub(crate) fn validate_pod_group(group: &CheckedField<'_, '_>) {
    let spec = group.at("spec");
    let reference = spec.at("podGroupTemplateRef");
    let workload = reference.at("workload");
    if workload.is_set() {
        workload.at("workloadName").must_be_given();
        workload.at("podGroupTemplateName").must_be_dns_label();
    } else if reference.is_set() {
        reference.invalid_as(r#""""#, "must specify one of: `workload`");
    }
    check_policy(&spec);
}

/// Requires that these fields of the spec have not changed.
pub(crate) fn must_not_change(fields: &[&str], object: &CheckedField<'_, '_>) {
    for field in fields {
        object.at("spec").at(field).must_not_change();
    }
}

/// Requires exactly one of the two scheduling policies.
fn check_policy(parent: &CheckedField<'_, '_>) {
    let policy = parent.at("schedulingPolicy");
    let gang = policy.at("gang");
    let one_of = "one of: `basic`, `gang`";
    match (policy.at("basic").is_set(), gang.is_set()) {
        (false, false) => policy.invalid_as(r#""""#, &format!("must specify {one_of}")),
        (true, true) => {
            let why = format!("must specify exactly {one_of}");
            policy.invalid_as(r#""{`basic`, `gang`}""#, &why);
        }
        (_, false) => {}
        (_, true) => {
            let count = gang.at("minCount");
            match count.number() {
                0 => count.required(""),
                ..0 => count.invalid("must be greater than or equal to 1"),
                1.. => {}
            }
        }
    }
}
