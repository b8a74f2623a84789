//! Workloads and PodGroups: their rules.
//!
//! Responsible for: what the controller's objects are checked for, and what never changes. Must not:
//! look at other objects; that is the server's `admission`.
//!
//! Different from a real server: fields behind further alpha gates (constraints, resource claims,
//! priorities, disruption) are checked for their types only; a PodGroup has no finalizer that keeps
//! it while its Pods are there; nothing schedules by it.

use serde_json::json;

use crate::apiserver::object::CheckedField;

/// How many templates a Workload may have.
const MAX_TEMPLATES: usize = 8;

/// Checks a new Workload.
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

/// Checks a new PodGroup.
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

/// Checks that these fields of a spec have not changed.
pub(crate) fn must_not_change(fields: &[&str], object: &CheckedField<'_, '_>) {
    for field in fields {
        object.at("spec").at(field).must_not_change();
    }
}

/// Checks that a scheduling policy is one of the two there are.
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
