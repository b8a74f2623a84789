//! What may be written to Pods.
//!
//! Responsible for: checks of create, update and status. Must not: apply defaults.

use serde_json::{Value, json};

use crate::apiserver::{
    fields::{FieldErrors, shown},
    meta, names,
    object::Tree,
    template,
};

/// Checks a new Pod.
pub(crate) fn validate_create(tree: &Tree) -> FieldErrors {
    let spec = meta::section(tree, "spec");
    let mut errors = template::validate_spec(spec, "spec");
    if !meta::items(spec, "ephemeralContainers").is_empty() {
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    errors
}

/// Members of the spec that an update may change.
const MUTABLE: [&str; 4] = [
    "activeDeadlineSeconds",
    "tolerations",
    "terminationGracePeriodSeconds",
    "schedulingGates",
];

const IMMUTABLE: &str = "pod updates may not change fields other than \
                         `spec.containers[*].image`,`spec.initContainers[*].image`,\
                         `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
                         existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to \
                         be set to 1 if it was previously negative)";

/// Checks a change of a Pod's main resource. The difference is not shown as a real server does.
pub(crate) fn validate_update(tree: &Tree, old: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, old_spec) = (meta::section(tree, "spec"), meta::section(old, "spec"));
    if spec == old_spec {
        return errors;
    }
    check_deadline(spec, old_spec, &mut errors);
    let gated = !meta::items(old_spec, "schedulingGates").is_empty();
    let old_gates = meta::items(old_spec, "schedulingGates");
    let lost = meta::items(old_spec, "tolerations")
        .iter()
        .any(|toleration| !has_toleration(spec, toleration));
    let same = |name: &String| {
        let free = MUTABLE.contains(&name.as_str())
            || (gated && matches!(name.as_str(), "nodeSelector" | "affinity"));
        free || match name.as_str() {
            "containers" | "initContainers" => same_but_images(spec, old_spec, name),
            _ => spec.get(name) == old_spec.get(name),
        }
    };
    for (index, gate) in meta::items(spec, "schedulingGates").iter().enumerate() {
        if !old_gates.contains(gate) {
            let name = gate.get("name").and_then(Value::as_str).unwrap_or_default();
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(format!("spec.schedulingGates[{index}].name"), &detail);
        }
    }
    let (selector, before) = (spec.get("nodeSelector"), old_spec.get("nodeSelector"));
    let kept = before.and_then(Value::as_object).is_none_or(|before| {
        before
            .iter()
            .all(|(key, value)| selector.and_then(|now| now.get(key)) == Some(value))
    });
    if gated && !kept {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid("spec.nodeSelector", shown(selector), detail);
    }
    if lost || !spec.keys().chain(old_spec.keys()).all(same) {
        errors.forbidden("spec", IMMUTABLE);
    }
    errors
}

fn has_toleration(spec: &Tree, wanted: &Value) -> bool {
    let comparable = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Value::Object(members) = &mut toleration {
            members.remove("tolerationSeconds");
        }
        toleration
    };
    let wanted = comparable(wanted);
    meta::items(spec, "tolerations")
        .iter()
        .any(|have| comparable(have) == wanted)
}

fn same_but_images(spec: &Tree, old: &Tree, list: &str) -> bool {
    let (new, old) = (meta::items(spec, list), meta::items(old, list));
    let comparable = |container: &Value| {
        let mut container = container.clone();
        if let Value::Object(members) = &mut container {
            members.remove("image");
        }
        container
    };
    new.len() == old.len()
        && new
            .iter()
            .zip(old)
            .all(|(new, old)| comparable(new) == comparable(old))
}

fn check_deadline(spec: &Tree, old: &Tree, errors: &mut FieldErrors) {
    let path = "spec.activeDeadlineSeconds";
    let before = meta::int(old, "activeDeadlineSeconds");
    match (meta::int(spec, "activeDeadlineSeconds"), before) {
        (Some(seconds), _) if !(1..=i64::from(i32::MAX)).contains(&seconds) => {
            errors.invalid(path, seconds, "must be between 1 and 2147483647, inclusive");
        }
        (Some(seconds), Some(before)) if seconds > before => {
            errors.invalid(
                path,
                seconds,
                "must be less than or equal to previous value",
            );
        }
        (None, Some(_)) => {
            errors.invalid(
                path,
                "null",
                "must not update from a positive integer to nil value",
            );
        }
        _ => {}
    }
}

/// Restores what a status write must not change and mirrors addresses.
pub(crate) fn prepare_status(tree: &mut Tree, old: &Tree) {
    meta::restore(meta::of_mut(tree), meta::of(old), "ownerReferences");
    let old_status = meta::section(old, "status");
    let status = meta::section_mut(tree, "status");
    if !status.contains_key("qosClass") {
        meta::restore(status, old_status, "qosClass");
    }
    if !status.contains_key("observedGeneration") {
        meta::restore(status, old_status, "observedGeneration");
    }
    let address = meta::text(status, "podIP").to_owned();
    if !address.is_empty() && meta::items(status, "podIPs").is_empty() {
        status.insert("podIPs".into(), json!([{"ip": address}]));
    }
    meta::condition_times(status);
    for list in ["containerStatuses", "initContainerStatuses"] {
        let Some(Value::Array(containers)) = status.get_mut(list) else {
            continue;
        };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            meta::default(container, "state", json!({}));
            meta::default(container, "lastState", json!({}));
        }
    }
}

/// Checks a change of a Pod's status.
pub(crate) fn validate_status(tree: &Tree, old: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (status, old_status) = (meta::section(tree, "status"), meta::section(old, "status"));
    let class = status.get("qosClass");
    if class != old_status.get("qosClass") {
        errors.invalid("status.qosClass", shown(class), "field is immutable");
    }
    let known = meta::items(old_status, "conditions");
    for (index, condition) in meta::items(status, "conditions").iter().enumerate() {
        let kind = condition.get("type");
        if known.iter().any(|have| have.get("type") == kind) {
            continue;
        }
        let kind = kind.and_then(Value::as_str).unwrap_or_default();
        for problem in names::qualified_name_problems(kind) {
            errors.invalid(
                format!("status.conditions[{index}].Type"),
                json!(kind),
                &problem,
            );
        }
    }
    let policy = meta::text(meta::section(old, "spec"), "restartPolicy");
    if policy != "Always" {
        check_states(status, old_status, "containerStatuses", policy, &mut errors);
    }
    if policy == "Never" {
        check_states(
            status,
            old_status,
            "initContainerStatuses",
            policy,
            &mut errors,
        );
    }
    errors
}

/// A container that may not restart stays terminated.
fn check_states(status: &Tree, old: &Tree, list: &str, policy: &str, errors: &mut FieldErrors) {
    for before in meta::items(old, list) {
        let Some(terminated) = before.pointer("/state/terminated") else {
            continue;
        };
        let exit_code = terminated
            .get("exitCode")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        if policy == "OnFailure" && exit_code != 0 {
            continue;
        }
        let name = before.get("name");
        let now = meta::items(status, list);
        let Some(index) = now.iter().position(|now| now.get("name") == name) else {
            continue;
        };
        if now[index].pointer("/state/terminated").is_none() {
            let path = format!("status.{list}[{index}].state");
            errors.forbidden(path, "may not be transitioned to non-terminated state");
        }
    }
}
