//! Label selectors of Jobs against template labels.
//!
//! Responsible for: matching. Must not: report errors.

use serde_json::Value;

use crate::apiserver::{meta, object::Tree};

/// Whether a selector selects anything by its form, and selects these labels.
pub(super) fn matches(selector: &Tree, labels: &Tree) -> bool {
    let by_labels = meta::section(selector, "matchLabels")
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value));
    by_labels
        && meta::items(selector, "matchExpressions")
            .iter()
            .all(|item| holds(item, labels))
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
