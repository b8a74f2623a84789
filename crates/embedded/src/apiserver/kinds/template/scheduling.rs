//! Validates the scheduling fields of pod specs.
//!
//! Responsible for: tolerations, topology spread, scheduling gates, affinities. Must not: schedule.

use serde_json::json;

use crate::apiserver::object::{CheckedField, names};

/// The field with the required terms of an affinity.
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

pub(super) fn check_toleration(toleration: &CheckedField<'_, '_>) {
    let (key, effect) = (toleration.at("key"), toleration.at("effect"));
    let operator = toleration.at("operator");
    if !key.text().is_empty() {
        key.must_be_qualified_name();
    } else if operator.text() != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and \
                      all keys\"";
        operator.invalid_as(json!(operator.text()), detail);
    }
    if toleration.at("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        effect.invalid_as(json!(effect.text()), detail);
    }
    let value = toleration.at("value").text();
    match operator.text() {
        "" | "Equal" => {
            let problems = names::label_value_problems(value);
            if !problems.is_empty() {
                operator.invalid_as(json!(value), &problems.join(";"));
            }
        }
        "Exists" if !value.is_empty() => {
            operator.invalid_as(
                json!(value),
                "value must be empty when `operator` is 'Exists'",
            );
        }
        _ => operator.must_be_one_of(&["Equal", "Exists"]),
    }
    if !effect.text().is_empty() {
        effect.must_be_one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    }
}

pub(super) fn check_spread(constraint: &CheckedField<'_, '_>) {
    let skew = constraint.at("maxSkew");
    if skew.int().is_some_and(|skew| skew <= 0) {
        skew.invalid("must be greater than zero");
    }
    let key = constraint.at("topologyKey");
    if key.text().is_empty() {
        key.required("can not be empty");
    }
    constraint
        .at("whenUnsatisfiable")
        .must_be_one_of(&["DoNotSchedule", "ScheduleAnyway"]);
}

pub(super) fn check_gates(gates: &CheckedField<'_, '_>) {
    let mut seen: Vec<&str> = Vec::new();
    for gate in gates.items() {
        let name = gate.at("name").text();
        gate.complain_of(name, names::qualified_name_problems(name));
        if seen.contains(&name) {
            gate.duplicate_as(json!(name));
        }
        seen.push(name);
    }
}

pub(super) fn check_affinity(affinity: &CheckedField<'_, '_>) {
    let node = affinity.at("nodeAffinity");
    let required = node.at(REQUIRED);
    let terms = required.at("nodeSelectorTerms");
    if required.is_set() && terms.list().is_empty() {
        terms.required("must have at least one node selector term");
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        let side = affinity.at(side);
        for term in side.at(REQUIRED).items() {
            let key = term.at("topologyKey");
            if key.text().is_empty() {
                key.required("can not be empty");
            }
            key.must_be_qualified_name();
        }
    }
}
