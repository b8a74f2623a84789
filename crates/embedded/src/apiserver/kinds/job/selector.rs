//! Matches label selectors of Jobs against template labels.
//!
//! Responsible for: matching and validating a selector. Must not: know Jobs.

use serde_json::Value;

use crate::apiserver::{
    kinds::metadata,
    object::{CheckedField, JsonView, Tree, names},
};

/// Returns true if the selector matches these labels.
pub(super) fn matches(selector: JsonView<'_>, labels: &Tree) -> bool {
    let mut pairs = selector.at("matchLabels").tree().iter();
    let mut expressions = selector.at("matchExpressions").items();
    pairs.all(|(key, value)| labels.get(key) == Some(value))
        && expressions.all(|item| holds(item, labels))
}

/// A selector as error texts print it: with its members in the API's order.
pub(super) fn shown(selector: JsonView<'_>) -> String {
    if selector.tree().is_empty() {
        return selector.value().to_string();
    }
    let members = ["matchLabels", "matchExpressions"].into_iter();
    let members = members.filter(|name| selector.at(name).is_set());
    let members: Vec<String> = members
        .map(|name| format!("{name:?}:{}", selector.at(name).value()))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// Returns true if a selector is valid.
#[doc(alias = "LabelSelectorAsSelector")]
pub(super) fn is_valid(selector: JsonView<'_>) -> bool {
    let mut labels = selector.at("matchLabels").tree().iter();
    let mut expressions = selector.at("matchExpressions").items();
    labels.all(|(key, value)| {
        names::qualified_name_problems(key).is_empty()
            && names::label_value_problems(value.as_str().unwrap_or_default()).is_empty()
    }) && expressions.all(|item| {
        let has_values = !item.at("values").list().is_empty();
        match item.at("operator").text() {
            "In" | "NotIn" => has_values,
            "Exists" | "DoesNotExist" => !has_values,
            _ => false,
        }
    })
}

/// Validates the labels and the expressions of a selector.
pub(super) fn check(selector: &CheckedField<'_, '_>) {
    metadata::check_labels(&selector.at("matchLabels"), None);
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
        item.at("key").must_be_qualified_name();
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
