//! Rules about success and failure policies.
//!
//! Responsible for: `spec.successPolicy` and `spec.podFailurePolicy`. Must not: check the rest
//! of the spec.

use serde_json::{Value, json};

use super::index_list;
use crate::apiserver::{
    kinds::template,
    object::{
        field_errors::FieldErrors,
        names,
        tree::{self, Tree},
    },
};

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_INDEX_LIST: usize = 65_536;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];

/// Checks `spec.successPolicy`.
#[doc(alias = "validateSuccessPolicy")]
pub(super) fn check_success_policy(spec: &Tree, errors: &mut FieldErrors) {
    let Some(Value::Object(policy)) = spec.get("successPolicy") else {
        return;
    };
    let path = "spec.successPolicy";
    if tree::text(spec, "completionMode") != "Indexed" {
        errors.invalid(
            path,
            success_policy_shown(policy),
            "requires indexed completion mode",
        );
        return;
    }
    let rules = tree::items(policy, "rules");
    let rules_path = format!("{path}.rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        return errors.required(rules_path, detail);
    }
    if rules.len() > MAX_RULES {
        errors.too_many(rules_path.as_str(), rules.len(), MAX_RULES);
    }
    // Without completions the Job is refused already, and there is nothing to compare with.
    let Some(completions) = tree::int(spec, "completions") else {
        return;
    };
    for (index, rule) in rules.iter().enumerate() {
        if let Value::Object(rule) = rule {
            check_success_rule(rule, &format!("{rules_path}[{index}]"), completions, errors);
        }
    }
}

fn check_success_rule(rule: &Tree, path: &str, completions: i64, errors: &mut FieldErrors) {
    let count = tree::int(rule, "succeededCount");
    let indexes = rule.get("succeededIndexes").and_then(Value::as_str);
    if count.is_none() && indexes.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        return errors.required(path, detail);
    }
    let mut listed = None;
    if let Some(text) = indexes {
        let path = format!("{path}.succeededIndexes");
        if text.len() > MAX_INDEX_LIST {
            errors.too_long(path.as_str(), MAX_INDEX_LIST);
        }
        match index_list::parse(text, completions) {
            Ok(intervals) => listed = Some(index_list::count(&intervals)),
            Err(why) => {
                let detail = format!("error parsing succeededIndexes: {why}");
                errors.invalid(path, Value::from(text), &detail);
            }
        }
    }
    let Some(count) = count else { return };
    let path = format!("{path}.succeededCount");
    errors.not_negative(path.as_str(), Some(count));
    if count > completions {
        let detail = format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        );
        errors.invalid(path.as_str(), count, &detail);
    }
    if let Some(listed) = listed.filter(|listed| count > *listed) {
        let detail = format!(
            "must be less than or equal to {listed} (the number of indexes in the specified \
             succeededIndexes field)"
        );
        errors.invalid(path, count, &detail);
    }
}

/// A policy with the field names of the real server's inner type.
pub(super) fn shown(field: &str, policy: &Value) -> String {
    let empty = Tree::new();
    let policy = policy.as_object().unwrap_or(&empty);
    if field == "successPolicy" {
        return success_policy_shown(policy);
    }
    let capital = |value: &Value, names: &[(&str, &str)]| {
        let member = |(name, field): &(&str, &str)| {
            format!("{name:?}:{}", value.get(*field).unwrap_or(&Value::Null))
        };
        let members: Vec<String> = names.iter().map(member).collect();
        format!("{{{}}}", members.join(","))
    };
    let codes = [
        ("ContainerName", "containerName"),
        ("Operator", "operator"),
        ("Values", "values"),
    ];
    let rule = |rule: &Value| {
        let conditions = rule.get("onPodConditions").and_then(Value::as_array);
        let conditions = conditions.map(|list| {
            let names = [("Type", "type"), ("Status", "status")];
            let all: Vec<String> = list.iter().map(|item| capital(item, &names)).collect();
            format!("[{}]", all.join(","))
        });
        let null = || "null".to_owned();
        format!(
            "{{\"Action\":{},\"OnExitCodes\":{},\"OnPodConditions\":{}}}",
            rule.get("action").unwrap_or(&Value::Null),
            rule.get("onExitCodes")
                .map_or_else(null, |have| capital(have, &codes)),
            conditions.unwrap_or_else(null)
        )
    };
    let rules: Vec<String> = tree::items(policy, "rules").iter().map(rule).collect();
    format!("{{\"Rules\":[{}]}}", rules.join(","))
}

/// The policy with the field names of the real server's inner type.
fn success_policy_shown(policy: &Tree) -> String {
    let rules: Vec<String> = tree::items(policy, "rules")
        .iter()
        .map(|rule| {
            let field = |name: &str| rule.get(name).unwrap_or(&Value::Null).to_string();
            format!(
                "{{\"SucceededIndexes\":{},\"SucceededCount\":{}}}",
                field("succeededIndexes"),
                field("succeededCount")
            )
        })
        .collect();
    let rules = if rules.is_empty() {
        "null".to_owned()
    } else {
        format!("[{}]", rules.join(","))
    };
    format!("{{\"Rules\":{rules}}}")
}

/// Checks `spec.podFailurePolicy`.
#[doc(alias = "validatePodFailurePolicy")]
pub(super) fn check_failure_policy(spec: &Tree, errors: &mut FieldErrors) {
    let Some(Value::Object(policy)) = spec.get("podFailurePolicy") else {
        return;
    };
    let path = "spec.podFailurePolicy.rules";
    let rules = tree::items(policy, "rules");
    if rules.len() > MAX_RULES {
        errors.too_many(path, rules.len(), MAX_RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        if let Value::Object(rule) = rule {
            check_failure_rule(spec, rule, &format!("{path}[{index}]"), errors);
        }
    }
}

fn check_failure_rule(spec: &Tree, rule: &Tree, path: &str, errors: &mut FieldErrors) {
    let action = tree::text(rule, "action");
    let action_path = format!("{path}.action");
    if action.is_empty() {
        let detail = "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]";
        errors.required(action_path, detail);
    } else if action == "FailIndex" {
        if tree::int(spec, "backoffLimitPerIndex").is_none() {
            let detail = "requires the backoffLimitPerIndex to be set";
            errors.invalid(action_path, Value::from(action), detail);
        }
    } else if !ACTIONS.contains(&action) {
        errors.unsupported(action_path, Value::from(action), &ACTIONS);
    }
    let exit_codes = rule.get("onExitCodes").and_then(Value::as_object);
    let conditions = tree::items(rule, "onPodConditions");
    if let Some(exit_codes) = exit_codes {
        check_exit_codes(spec, exit_codes, &format!("{path}.onExitCodes"), errors);
    }
    if !conditions.is_empty() {
        check_pod_conditions(conditions, &format!("{path}.onPodConditions"), errors);
    }
    match (exit_codes.is_some(), !conditions.is_empty()) {
        (true, true) => errors.wrong(
            path,
            "specifying both OnExitCodes and OnPodConditions is not supported",
        ),
        (false, false) => {
            errors.wrong(
                path,
                "specifying one of OnExitCodes and OnPodConditions is required",
            );
        }
        _ => {}
    }
}

fn check_exit_codes(spec: &Tree, codes: &Tree, path: &str, errors: &mut FieldErrors) {
    let operator = tree::text(codes, "operator");
    let operator_path = format!("{path}.operator");
    if operator.is_empty() {
        errors.required(operator_path, "valid values: [\"In\" \"NotIn\"]");
    } else if !matches!(operator, "In" | "NotIn") {
        errors.unsupported(operator_path, Value::from(operator), &["In", "NotIn"]);
    }
    if let Some(name) = codes.get("containerName").and_then(Value::as_str) {
        let pod = tree::section(tree::section(spec, "template"), "spec");
        if !template::container_names(pod).any(|have| have == name) {
            let detail = "must be one of the container or initContainer names in the pod template";
            errors.invalid(format!("{path}.containerName"), Value::from(name), detail);
        }
    }
    let values: Vec<i64> = tree::items(codes, "values")
        .iter()
        .filter_map(Value::as_i64)
        .collect();
    let values_path = format!("{path}.values");
    if values.is_empty() {
        errors.invalid(values_path, "[]", "at least one value is required");
        return;
    }
    if values.len() > MAX_EXIT_CODES {
        errors.too_many(values_path.as_str(), values.len(), MAX_EXIT_CODES);
    }
    for (index, value) in values.iter().enumerate() {
        let path = format!("{values_path}[{index}]");
        if operator == "In" && *value == 0 {
            errors.invalid(path.as_str(), 0, "must not be 0 for the In operator");
        }
        if values[..index].contains(value) {
            errors.duplicate(path, value);
        }
    }
    if !values.is_sorted() {
        errors.invalid(values_path, json!(values), "must be ordered");
    }
}

fn check_pod_conditions(conditions: &[Value], path: &str, errors: &mut FieldErrors) {
    if conditions.len() > MAX_RULES {
        errors.too_many(path, conditions.len(), MAX_RULES);
    }
    for (index, condition) in conditions.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let text = |name: &str| {
            condition
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        for problem in names::qualified_name_problems(text("type")) {
            errors.invalid(format!("{path}.type"), Value::from(text("type")), &problem);
        }
        let supported = ["False", "True", "Unknown"];
        if text("status").is_empty() {
            let detail = "valid values: [\"False\" \"True\" \"Unknown\"]";
            errors.required(format!("{path}.status"), detail);
        } else if !supported.contains(&text("status")) {
            let status = Value::from(text("status"));
            errors.unsupported(format!("{path}.status"), status, &supported);
        }
    }
}
