//! Checks of what a pod spec says about where and when its Pods run.
//!
//! Responsible for: tolerations, spreading, gates, affinities. Must not: schedule.

use serde_json::{Value, json};

use crate::apiserver::object::{
    field_errors::FieldErrors,
    names,
    tree::{self, Tree},
};

/// What a term of a Pod affinity hangs on when it is required.
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Checks a pod spec found at `path`.
pub(super) fn check(spec: &Tree, path: &str, errors: &mut FieldErrors) {
    check_affinity(spec, path, errors);
    for (index, toleration) in tree::items(spec, "tolerations").iter().enumerate() {
        check_toleration(toleration, &format!("{path}.tolerations[{index}]"), errors);
    }
    check_spread(spec, path, errors);
    check_gates(spec, path, errors);
}

fn text<'a>(item: &'a Value, field: &str) -> &'a str {
    item.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn check_toleration(toleration: &Value, path: &str, errors: &mut FieldErrors) {
    let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
    if !key.is_empty() {
        for problem in names::qualified_name_problems(key) {
            errors.invalid(format!("{path}.key"), json!(key), &problem);
        }
    }
    let operator = text(toleration, "operator");
    let place = format!("{path}.operator");
    if key.is_empty() && operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and \
                      all keys\"";
        errors.invalid(place.as_str(), json!(operator), detail);
    }
    if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(format!("{path}.effect"), json!(effect), detail);
    }
    match operator {
        "Equal" | "" => {}
        "Exists" => {
            let value = text(toleration, "value");
            if !value.is_empty() {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.invalid(place, json!(value), detail);
            }
        }
        other => errors.unsupported(place, json!(other), &["Equal", "Exists"]),
    }
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !effect.is_empty() && !effects.contains(&effect) {
        errors.unsupported(format!("{path}.effect"), json!(effect), &effects);
    }
}

fn check_spread(spec: &Tree, path: &str, errors: &mut FieldErrors) {
    let constraints = tree::items(spec, "topologySpreadConstraints");
    for (index, constraint) in constraints.iter().enumerate() {
        let path = format!("{path}.topologySpreadConstraints[{index}]");
        let skew = constraint.get("maxSkew").and_then(Value::as_i64);
        if let Some(skew) = skew.filter(|skew| *skew <= 0) {
            errors.invalid(format!("{path}.maxSkew"), skew, "must be greater than zero");
        }
        if text(constraint, "topologyKey").is_empty() {
            errors.required(format!("{path}.topologyKey"), "can not be empty");
        }
        let action = text(constraint, "whenUnsatisfiable");
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            errors.unsupported(format!("{path}.whenUnsatisfiable"), json!(action), &actions);
        }
    }
}

fn check_gates(spec: &Tree, path: &str, errors: &mut FieldErrors) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, gate) in tree::items(spec, "schedulingGates").iter().enumerate() {
        let (path, name) = (
            format!("{path}.schedulingGates[{index}]"),
            text(gate, "name"),
        );
        for problem in names::qualified_name_problems(name) {
            errors.invalid(path.as_str(), json!(name), &problem);
        }
        if seen.contains(&name) {
            errors.duplicate(path, json!(name));
        }
        seen.push(name);
    }
}

fn check_affinity(spec: &Tree, path: &str, errors: &mut FieldErrors) {
    let affinity = tree::section(spec, "affinity");
    let path = format!("{path}.affinity");
    let node = tree::section(affinity, "nodeAffinity");
    if let Some(Value::Object(required)) = node.get(REQUIRED)
        && tree::items(required, "nodeSelectorTerms").is_empty()
    {
        let path = format!("{path}.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
        errors.required(path, "must have at least one node selector term");
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        let terms = tree::items(tree::section(affinity, side), REQUIRED);
        for (index, term) in terms.iter().enumerate() {
            let path = format!("{path}.{side}.{REQUIRED}[{index}].topologyKey");
            let key = text(term, "topologyKey");
            if key.is_empty() {
                errors.required(path.as_str(), "can not be empty");
            }
            for problem in names::qualified_name_problems(key) {
                errors.invalid(path.as_str(), json!(key), &problem);
            }
        }
    }
}
