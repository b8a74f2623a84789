//! Validates Pods.
//!
//! Responsible for: validation of create, update and status. Must not: apply defaults.

use hashbrown::HashSet;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::apiserver::{
    kinds::{defaults, template},
    object::{CheckedField, JsonView, Tree, tree},
};

/// Validates a new Pod.
#[doc(alias = "ValidatePodCreate")]
pub(crate) fn validate_create(pod: &CheckedField<'_, '_>) {
    template::validate_spec(&pod.at("spec"));
    template::check_images(&pod.at("spec"));
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

/// Validates an update of a Pod's main resource. Unlike on a real server, the error does not contain the diff.
#[doc(alias = "ValidatePodUpdate")]
pub(crate) fn validate_update(pod: &CheckedField<'_, '_>) {
    let spec = pod.at("spec");
    if spec.has_changed() {
        check_spec_change(&spec);
    }
}

fn check_spec_change(spec: &CheckedField<'_, '_>) {
    template::validate_spec(spec);
    // Upstream checks the images twice: as those of a new Pod, and as fields that may change.
    template::check_images(spec);
    template::check_images(spec);
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
    let images = |list: &[Value]| -> Vec<Value> {
        let images = list.iter().map(|it| without(it, "image"));
        images.collect()
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

/// Restores fields that a status write must not change, and copies `podIP` to `podIPs`.
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

/// Validates an update of a Pod's status.
#[doc(alias = "ValidatePodStatusUpdate")]
pub(crate) fn validate_status(pod: &CheckedField<'_, '_>) {
    let (spec, status) = (*pod.at("spec"), pod.at("status"));
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
        let has_ended = |status: JsonView<'_>| status.at("state.terminated").is_set();
        let running = now.items().filter(|status| !has_ended(**status));
        let running: HashSet<&str> = running.filter_map(|it| it.at("name").as_text()).collect();
        for (index, before) in now.old().items().enumerate() {
            let name = before.at("name").text();
            if !has_ended(before) || !running.contains(name) {
                continue;
            }
            let mut containers = spec.at(list).items();
            let container = containers.find(|it| it.at("name").text() == name);
            if !restarts(container.unwrap_or(None.into()), spec, before) {
                let state = format!("{statuses}[{index}].state");
                let state = status.showing(&state, now);
                state.forbidden("may not be transitioned to non-terminated state");
            }
        }
    }
}

/// Reduces a stored Pod spec to its restart policies. Containers without a policy of their own are left out.
pub(crate) fn restart_policies(spec: &str) -> Tree {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RestartingSpec {
        restart_policy: Option<Value>,
        #[serde(default)]
        containers: Vec<RestartingContainer>,
        #[serde(default)]
        init_containers: Vec<RestartingContainer>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RestartingContainer {
        name: Value,
        restart_policy: Option<Value>,
        restart_policy_rules: Option<Value>,
    }
    let spec: RestartingSpec = serde_json::from_str(spec).expect("what was stored is a spec");
    let mut policies = Tree::new();
    if let Some(policy) = spec.restart_policy {
        policies.insert("restartPolicy".into(), policy);
    }
    for (list, containers) in [
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
    ] {
        let own = containers.into_iter().filter_map(|container| {
            let mut policy = json!({
                "name": container.name,
                "restartPolicy": container.restart_policy?,
            });
            if let Some(rules) = container.restart_policy_rules {
                policy["restartPolicyRules"] = rules;
            }
            Some(policy)
        });
        let own: Vec<Value> = own.collect();
        if !own.is_empty() {
            policies.insert(list.into(), own.into());
        }
    }
    policies
}

/// Returns true if a container with this terminated status restarts.
fn restarts(container: JsonView<'_>, spec: JsonView<'_>, ended: JsonView<'_>) -> bool {
    let exit_code = ended.at("state.terminated.exitCode");
    let own = container.at("restartPolicy").as_text();
    let mut rules = container.at("restartPolicyRules").items();
    let by_rule = rules.any(|rule| {
        let codes = rule.at("exitCodes");
        let is_listed = codes.at("values").list().contains(exit_code.value());
        is_listed == (codes.at("operator").text() == "In")
    });
    match own.unwrap_or(spec.at("restartPolicy").text()) {
        _ if own.is_some() && by_rule => true,
        "Always" => true,
        "OnFailure" => exit_code.number() != 0,
        _ => false,
    }
}

/// Returns true if the termination of a container can restart all containers of the Pod.
fn all_could_restart(spec: JsonView<'_>) -> bool {
    let lists = ["containers", "initContainers"].into_iter();
    let containers = lists.flat_map(|list| spec.at(list).items());
    let mut rules = containers.flat_map(|it| it.at("restartPolicyRules").items());
    rules.any(|rule| rule.at("action").text() == "RestartAllContainers")
}
