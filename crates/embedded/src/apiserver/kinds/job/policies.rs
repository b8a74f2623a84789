//! Validates success and failure policies.
//!
//! Responsible for: `spec.successPolicy` and `spec.podFailurePolicy`. Must not: validate the rest of the spec.

use serde_json::Value;

use super::index_list;
use crate::apiserver::{
    kinds::template,
    object::{CheckedField, Kind, TypeDef, type_def},
};

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_INDEX_LIST: usize = 65_536;

/// Validates `spec.successPolicy`.
#[doc(alias = "validateSuccessPolicy")]
pub(super) fn check_success_policy(spec: &CheckedField<'_, '_>) {
    let policy = spec.at("successPolicy");
    if !policy.is_set() {
        return;
    }
    if spec.at("completionMode").text() != "Indexed" {
        let shown = shown("successPolicy", policy.value());
        return policy.invalid_as(shown, "requires indexed completion mode");
    }
    let rules = policy.at("rules");
    if rules.list().is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        return rules.required(detail);
    }
    rules.must_have_at_most(MAX_RULES);
    // Without completions the Job is rejected anyway, and the rules have no bound.
    if let Some(completions) = spec.at("completions").int() {
        rules
            .items()
            .for_each(|rule| check_success_rule(&rule, completions));
    }
}

fn check_success_rule(rule: &CheckedField<'_, '_>, completions: i64) {
    let (count, indexes) = (rule.at("succeededCount"), rule.at("succeededIndexes"));
    if !count.is_set() && !indexes.is_set() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        return rule.required(detail);
    }
    let mut listed = None;
    if let Some(text) = indexes.as_text() {
        indexes.must_be_within(text.len(), MAX_INDEX_LIST);
        match index_list::parse(text, completions) {
            Ok(intervals) => listed = Some(index_list::count(&intervals)),
            Err(why) => indexes.invalid(&format!("error parsing succeededIndexes: {why}")),
        }
    }
    count.must_not_be_negative();
    let of_completions = (completions, "the number of specified completions");
    let of_indexes = listed.map(|listed| {
        let what = "the number of indexes in the specified succeededIndexes field";
        (listed, what)
    });
    for (most, what) in [Some(of_completions), of_indexes].into_iter().flatten() {
        if count.is_above(most) {
            count.invalid(&format!("must be less than or equal to {most} ({what})"));
        }
    }
}

/// A policy as error texts print it: with the names and the order of the fields of upstream's internal types.
pub(super) fn shown(field: &str, policy: &Value) -> String {
    inner(type_def::of(Kind::Job).member("spec").member(field), policy)
}

/// The fields of policies in the order of the internal types.
const FIELDS: &str = "rules action onExitCodes containerName operator values onPodConditions type status \
                      succeededIndexes succeededCount";

fn inner(shape: &TypeDef, value: &Value) -> String {
    match (shape, value) {
        (TypeDef::List { items, .. }, Value::Array(list)) => {
            let list: Vec<String> = list.iter().map(|item| inner(items, item)).collect();
            format!("[{}]", list.join(","))
        }
        (TypeDef::Struct(_), Value::Object(members)) => {
            let fields = FIELDS.split(' ').filter(|name| shape.declares(name));
            let field = |name: &str| {
                let (first, rest) = name.split_at(1);
                let value = members.get(name).unwrap_or(&Value::Null);
                let value = inner(shape.member(name), value);
                format!("\"{}{rest}\":{value}", first.to_uppercase())
            };
            let fields: Vec<String> = fields.map(field).collect();
            format!("{{{}}}", fields.join(","))
        }
        _ => value.to_string(),
    }
}

/// Validates `spec.podFailurePolicy`.
#[doc(alias = "validatePodFailurePolicy")]
pub(super) fn check_failure_policy(spec: &CheckedField<'_, '_>) {
    let rules = spec.at("podFailurePolicy.rules");
    rules.must_have_at_most(MAX_RULES);
    for rule in rules.items() {
        check_failure_rule(spec, &rule);
    }
}

fn check_failure_rule(spec: &CheckedField<'_, '_>, rule: &CheckedField<'_, '_>) {
    let action = rule.at("action");
    match action.text() {
        "" => action.required("valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"),
        "FailIndex" if !spec.at("backoffLimitPerIndex").is_set() => {
            action.invalid("requires the backoffLimitPerIndex to be set");
        }
        _ => action.must_be_one_of(&["Count", "FailIndex", "FailJob", "Ignore"]),
    }
    let (codes, conditions) = (rule.at("onExitCodes"), rule.at("onPodConditions"));
    if codes.is_set() {
        check_exit_codes(spec, &codes);
    }
    check_pod_conditions(&conditions);
    let problem = match (codes.is_set(), !conditions.list().is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    rule.complain(format!("Invalid value: {problem}"));
}

fn check_exit_codes(spec: &CheckedField<'_, '_>, codes: &CheckedField<'_, '_>) {
    let operator = codes.at("operator");
    match operator.text() {
        "" => operator.required("valid values: [\"In\" \"NotIn\"]"),
        _ => operator.must_be_one_of(&["In", "NotIn"]),
    }
    let name = codes.at("containerName");
    if let Some(wanted) = name.as_text()
        && !template::container_names(spec.at("template.spec").tree()).any(|have| have == wanted)
    {
        name.invalid("must be one of the container or initContainer names in the pod template");
    }
    let values = codes.at("values");
    let all: Vec<i64> = values.items().filter_map(|value| value.int()).collect();
    if all.is_empty() {
        return values.invalid_as("[]", "at least one value is required");
    }
    values.must_have_at_most(MAX_EXIT_CODES);
    for (index, value) in values.items().enumerate() {
        if operator.text() == "In" && all[index] == 0 {
            value.invalid("must not be 0 for the In operator");
        }
        if all[..index].contains(&all[index]) {
            value.duplicate();
        }
    }
    if !all.is_sorted() {
        values.invalid("must be ordered");
    }
}

fn check_pod_conditions(conditions: &CheckedField<'_, '_>) {
    conditions.must_have_at_most(MAX_RULES);
    for condition in conditions.items() {
        condition.at("type").must_be_qualified_name();
        let status = condition.at("status");
        match status.text() {
            "" => status.required("valid values: [\"False\" \"True\" \"Unknown\"]"),
            _ => status.must_be_one_of(&["False", "True", "Unknown"]),
        }
    }
}
