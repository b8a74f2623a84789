//! Label selectors of Jobs against template labels.
//!
//! Responsible for: matching, and what is wrong with a selector by itself. Must not: know Jobs.

use serde_json::Value;

use crate::apiserver::object::{
    field::CheckedField,
    tree::{self, Tree},
};

/// Whether a selector selects anything by its form, and selects these labels.
pub(super) fn matches(selector: &Tree, labels: &Tree) -> bool {
    let by_labels = tree::section(selector, "matchLabels")
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value));
    by_labels
        && tree::items(selector, "matchExpressions")
            .iter()
            .all(|item| holds(item, labels))
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

fn holds(item: &Value, labels: &Tree) -> bool {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
    let value = labels.get(text("key"));
    let listed = value.is_some_and(|value| {
        item.get("values")
            .and_then(Value::as_array)
            .is_some_and(|list| list.contains(value))
    });
    match text("operator") {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}
