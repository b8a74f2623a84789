//! What may be written to Pods.
//!
//! Responsible for: checks of create, update and status. Must not: apply defaults.

use hashbrown::HashSet;
use serde_json::{Value, json};

use crate::apiserver::{
    kinds::{defaults, template},
    object::{CheckedField, Tree, tree},
};

/// Checks a new Pod.
#[doc(alias = "ValidatePodCreate")]
pub(crate) fn validate_create(pod: &CheckedField<'_, '_>) {
    template::validate_spec(&pod.at("spec"));
    let ephemeral = pod.at("spec.ephemeralContainers");
    if !ephemeral.list().is_empty() {
        ephemeral.forbidden("cannot be set on create");
    }
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
pub(crate) fn validate_update(pod: &CheckedField<'_, '_>) {
    let spec = pod.at("spec");
    if spec.has_changed() {
        check_spec_change(&spec);
    }
}

fn check_spec_change(spec: &CheckedField<'_, '_>) {
    template::validate_spec(spec);
    for list in ["containers", "initContainers"] {
        let list = spec.at(list);
        if list.list().len() != list.old().list().len() {
            return list.forbidden("pod updates may not add or remove containers");
        }
    }
    check_deadline(&spec.at("activeDeadlineSeconds"));
    let gates = spec.at("schedulingGates");
    for gate in gates.items() {
        if !gates.old().list().contains(gate.value()) {
            let name = gate.at("name");
            name.forbidden(&format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            ));
        }
    }
    let gated = !gates.old().list().is_empty();
    let selector = spec.at("nodeSelector");
    let mut before = selector.old().tree().iter();
    if gated && !before.all(|(key, value)| selector.tree().get(key) == Some(value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        selector.invalid(detail);
    }
    let tolerations = spec.at("tolerations");
    let without_seconds = |it| without(it, "tolerationSeconds");
    let now: HashSet<Value> = tolerations.list().iter().map(without_seconds).collect();
    let mut before = tolerations.old().list().iter().map(without_seconds);
    let same = |name: &String| match name.as_str() {
        "nodeSelector" | "affinity" if gated => true,
        "containers" | "initContainers" => same_but_images(&spec.at(name)),
        other => MUTABLE.contains(&other) || !spec.at(name).has_changed(),
    };
    let mut names = spec.tree().keys().chain(spec.old().tree().keys());
    if before.any(|it| !now.contains(&it)) || !names.all(same) {
        spec.forbidden(IMMUTABLE);
    }
}

/// An object without one of its members.
fn without(object: &Value, member: &str) -> Value {
    let mut object = object.clone();
    if let Value::Object(members) = &mut object {
        members.remove(member);
    }
    object
}

fn same_but_images(list: &CheckedField<'_, '_>) -> bool {
    let images = |list: &[Value]| {
        list.iter()
            .map(|it| without(it, "image"))
            .collect::<Vec<_>>()
    };
    images(list.list()) == images(list.old().list())
}

fn check_deadline(deadline: &CheckedField<'_, '_>) {
    match (deadline.int(), deadline.old().int()) {
        (Some(seconds), _) if !(0..=i64::from(i32::MAX)).contains(&seconds) => {
            deadline.invalid("must be between 0 and 2147483647, inclusive");
        }
        (Some(seconds), Some(before)) if seconds > before => {
            deadline.invalid("must be less than or equal to previous value");
        }
        (None, Some(_)) => deadline.invalid("must not update from a positive integer to nil value"),
        _ => {}
    }
}

/// Restores what a status write must not change and mirrors addresses.
pub(crate) fn prepare_status(tree: &mut Tree, old: &Tree) {
    let metadata = tree::metadata_mut(tree);
    tree::restore(metadata, tree::metadata(old), "ownerReferences");
    let status = tree::section_mut(tree, "status");
    for field in ["qosClass", "observedGeneration"] {
        if !status.contains_key(field) {
            tree::restore(status, tree::section(old, "status"), field);
        }
    }
    let address = tree::text(status, "podIP").to_owned();
    if !address.is_empty() && tree::items(status, "podIPs").is_empty() {
        status.insert("podIPs".into(), json!([{"ip": address}]));
    }
    defaults::fill(status, "podStatus");
}

/// Checks a change of a Pod's status.
#[doc(alias = "ValidatePodStatusUpdate")]
pub(crate) fn validate_status(pod: &CheckedField<'_, '_>) {
    let (spec, status) = (pod.at("spec").tree(), pod.at("status"));
    status.at("qosClass").must_not_change();
    let conditions = status.at("conditions");
    for condition in conditions.items() {
        let kind = condition.at("type");
        let mut known = conditions.old().items();
        if !known.any(|have| have.at("type").value() == kind.value()) {
            condition.showing("Type", kind).must_be_qualified_name();
        }
    }
    if all_could_restart(spec) {
        return;
    }
    for (list, statuses) in [
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ] {
        let now = status.at(statuses);
        let before = now.old().list();
        let containers = tree::items(spec, list);
        for index in restarted(now.list(), before) {
            let ended = &before[index];
            let container = containers.iter().find(|it| it["name"] == ended["name"]);
            if !restarts(container.unwrap_or(&Value::Null), spec, ended) {
                let state = format!("{statuses}[{index}].state");
                let state = status.showing(&state, now);
                state.forbidden("may not be transitioned to non-terminated state");
            }
        }
    }
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
