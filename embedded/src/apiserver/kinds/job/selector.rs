//! Label selectors of Jobs against template labels.
//!
//! Responsible for: matching, and what is wrong with a selector by itself. Must not: know Jobs.

use serde_json::Value;

use crate::apiserver::object::{CheckedField, JsonView, Tree};

/// Whether a selector selects anything by its form, and selects these labels.
pub(super) fn matches(selector: JsonView<'_>, labels: &Tree) -> bool {
    let mut pairs = selector.at("matchLabels").tree().iter();
    let mut expressions = selector.at("matchExpressions").items();
    pairs.all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|item| holds(item, labels))
}

/// Checks the expressions of a selector.
pub(super) fn check(selector: &CheckedField<'_, '_>) {
    for item in selector.at("matchExpressions").items() {
        let (operator, values) = (item.at("operator"), item.at("values"));
        let some = !values.list().is_empty();
        match operator.text() {
            "In" | "NotIn" if !some => {
                values.required("must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if some => values
                .forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => operator.invalid_as(Value::from(other), "not a valid selector operator"),
        }
    }
}

fn holds(item: JsonView<'_>, labels: &Tree) -> bool {
    let value = labels.get(item.at("key").text());
    let listed = value.is_some_and(|value| item.at("values").list().contains(value));
    match item.at("operator").text() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}
