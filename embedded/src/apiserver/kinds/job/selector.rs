//! Label selectors of Jobs against template labels.
//!
//! Responsible for: matching, and what is wrong with a selector by itself. Must not: know Jobs.

use serde_json::Value;

use crate::apiserver::object::{
    field_errors::FieldErrors,
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

/// Checks the expressions of the selector at `path`.
pub(super) fn check(selector: &Tree, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (index, item) in tree::items(selector, "matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = item.get("values").and_then(Value::as_array);
        let some = values.is_some_and(|values| !values.is_empty());
        match item
            .get("operator")
            .and_then(Value::as_str)
            .unwrap_or_default()
        {
            "In" | "NotIn" if !some => errors.required(
                format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ),
            "Exists" | "DoesNotExist" if some => errors.forbidden(
                format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(
                format!("{path}.operator"),
                Value::from(other),
                "not a valid selector operator",
            ),
        }
    }
    errors
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
