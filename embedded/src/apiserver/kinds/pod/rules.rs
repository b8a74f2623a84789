//! What may be written to Pods.
//!
//! Responsible for: checks of create, update and status. Must not: apply defaults.

use hashbrown::HashSet;
use serde_json::{Value, json};

use crate::apiserver::{
    kinds::template,
    object::{
        field_errors::{FieldErrors, shown},
        names,
        tree::{self, Tree},
    },
};

/// Checks a new Pod.
#[doc(alias = "ValidatePodCreate")]
pub(crate) fn validate_create(tree: &Tree) -> FieldErrors {
    let spec = tree::section(tree, "spec");
    let mut errors = template::validate_spec(spec, "spec");
    if !tree::items(spec, "ephemeralContainers").is_empty() {
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
#[doc(alias = "ValidatePodUpdate")]
pub(crate) fn validate_update(tree: &Tree, old: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, old_spec) = (tree::section(tree, "spec"), tree::section(old, "spec"));
    if spec == old_spec {
        return errors;
    }
    errors.append(template::validate_spec(spec, "spec"));
    for list in ["containers", "initContainers"] {
        if tree::items(spec, list).len() != tree::items(old_spec, list).len() {
            let detail = "pod updates may not add or remove containers";
            errors.forbidden(format!("spec.{list}"), detail);
            return errors;
        }
    }
    check_deadline(spec, old_spec, &mut errors);
    let gated = !tree::items(old_spec, "schedulingGates").is_empty();
    let old_gates = tree::items(old_spec, "schedulingGates");
    let tolerations = |spec| tree::items(spec, "tolerations").iter().map(but_for_time);
    let now: HashSet<Value> = tolerations(spec).collect();
    let lost = tolerations(old_spec).any(|toleration| !now.contains(&toleration));
    let same = |name: &String| {
        let free = MUTABLE.contains(&name.as_str())
            || (gated && matches!(name.as_str(), "nodeSelector" | "affinity"));
        free || match name.as_str() {
            "containers" | "initContainers" => same_but_images(spec, old_spec, name),
            _ => spec.get(name) == old_spec.get(name),
        }
    };
    for (index, gate) in tree::items(spec, "schedulingGates").iter().enumerate() {
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

/// A toleration without how long it holds, which may change.
fn but_for_time(toleration: &Value) -> Value {
    let mut toleration = toleration.clone();
    if let Value::Object(members) = &mut toleration {
        members.remove("tolerationSeconds");
    }
    toleration
}

fn same_but_images(spec: &Tree, old: &Tree, list: &str) -> bool {
    let (new, old) = (tree::items(spec, list), tree::items(old, list));
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
    let before = tree::int(old, "activeDeadlineSeconds");
    match (tree::int(spec, "activeDeadlineSeconds"), before) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            errors.invalid(path, seconds, "must be between 0 and 2147483647, inclusive");
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
    tree::restore(
        tree::metadata_mut(tree),
        tree::metadata(old),
        "ownerReferences",
    );
    let old_status = tree::section(old, "status");
    let status = tree::section_mut(tree, "status");
    if !status.contains_key("qosClass") {
        tree::restore(status, old_status, "qosClass");
    }
    if !status.contains_key("observedGeneration") {
        tree::restore(status, old_status, "observedGeneration");
    }
    let address = tree::text(status, "podIP").to_owned();
    if !address.is_empty() && tree::items(status, "podIPs").is_empty() {
        status.insert("podIPs".into(), json!([{"ip": address}]));
    }
    tree::condition_times(status);
    for list in ["containerStatuses", "initContainerStatuses"] {
        let Some(Value::Array(containers)) = status.get_mut(list) else {
            continue;
        };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            tree::default(container, "state", json!({}));
            tree::default(container, "lastState", json!({}));
            for state in ["state", "lastState"] {
                for (kind, times) in TIMES {
                    let state = container
                        .get_mut(state)
                        .and_then(|state| state.get_mut(kind));
                    if let Some(Value::Object(state)) = state {
                        for time in times {
                            tree::default(state, time, Value::Null);
                        }
                    }
                }
            }
        }
    }
}

/// Times of a container's states that are there also where nobody has said them.
const TIMES: [(&str, &[&str]); 2] = [
    ("running", &["startedAt"]),
    ("terminated", &["startedAt", "finishedAt"]),
];

/// Checks a change of a Pod's status.
#[doc(alias = "ValidatePodStatusUpdate")]
pub(crate) fn validate_status(tree: &Tree, old: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (status, old_status) = (tree::section(tree, "status"), tree::section(old, "status"));
    let class = status.get("qosClass");
    if class != old_status.get("qosClass") {
        errors.invalid("status.qosClass", shown(class), "field is immutable");
    }
    let known = tree::items(old_status, "conditions");
    for (index, condition) in tree::items(status, "conditions").iter().enumerate() {
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
    let spec = tree::section(old, "spec");
    if !all_could_restart(spec) {
        for (list, statuses) in [
            ("containers", "containerStatuses"),
            ("initContainers", "initContainerStatuses"),
        ] {
            let (now, before) = (
                tree::items(status, statuses),
                tree::items(old_status, statuses),
            );
            let containers = tree::items(spec, list);
            for index in restarted(now, before) {
                let ended = &before[index];
                let container = containers.iter().find(|it| it["name"] == ended["name"]);
                if !restarts(container.unwrap_or(&Value::Null), spec, ended) {
                    let path = format!("status.{statuses}[{index}].state");
                    errors.forbidden(path, "may not be transitioned to non-terminated state");
                }
            }
        }
    }
    errors
}

/// What of a spec says when containers are started again; containers that say nothing are left out.
pub(crate) fn restart_policies(spec: &Tree) -> Tree {
    let mut policies = Tree::new();
    if let Some(policy) = spec.get("restartPolicy") {
        policies.insert("restartPolicy".into(), policy.clone());
    }
    for list in ["containers", "initContainers"] {
        let containers = tree::items(spec, list).iter();
        let own: Vec<Value> = containers
            .filter(|container| container.get("restartPolicy").is_some())
            .map(|container| {
                json!({
                    "name": container["name"],
                    "restartPolicy": container["restartPolicy"],
                    "restartPolicyRules": container["restartPolicyRules"],
                })
            })
            .collect();
        if !own.is_empty() {
            policies.insert(list.into(), own.into());
        }
    }
    policies
}

/// The places of containers that had ended, and have not any more.
fn restarted(now: &[Value], before: &[Value]) -> Vec<usize> {
    let has_ended = |container: &Value| container.pointer("/state/terminated").is_some();
    let ended = before.iter().enumerate().filter(|(_, it)| has_ended(it));
    let mut running: HashSet<&Value> = HashSet::new();
    let mut ended = ended.peekable();
    if ended.peek().is_some() {
        let others = now.iter().filter(|container| !has_ended(container));
        running.extend(others.filter_map(|container| container.get("name")));
    }
    ended
        .filter(|(_, it)| it.get("name").is_some_and(|name| running.contains(name)))
        .map(|(index, _)| index)
        .collect()
}

/// Whether a container is started again after it has ended like this.
fn restarts(container: &Value, spec: &Tree, ended: &Value) -> bool {
    let exit_code = &ended["state"]["terminated"]["exitCode"];
    let own = container.get("restartPolicy").and_then(Value::as_str);
    let by_rule = || {
        let rules = container["restartPolicyRules"]
            .as_array()
            .into_iter()
            .flatten();
        rules.map(|rule| &rule["exitCodes"]).any(|codes| {
            let mut values = codes["values"].as_array().into_iter().flatten();
            values.any(|code| code == exit_code) == (codes["operator"] == "In")
        })
    };
    if own.is_some() && by_rule() {
        return true;
    }
    match own.unwrap_or_else(|| tree::text(spec, "restartPolicy")) {
        "Always" => true,
        "OnFailure" => exit_code.as_i64().unwrap_or_default() != 0,
        _ => false,
    }
}

/// Whether some container's end can start all of the Pod's anew.
fn all_could_restart(spec: &Tree) -> bool {
    let lists = ["containers", "initContainers"].map(|list| tree::items(spec, list));
    let mut rules = lists
        .into_iter()
        .flatten()
        .filter_map(|container| container.get("restartPolicyRules")?.as_array())
        .flatten();
    rules.any(|rule| rule["action"] == "RestartAllContainers")
}
