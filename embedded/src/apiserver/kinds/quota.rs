//! ResourceQuotas: their rules.
//!
//! Responsible for: what a quota may ask for, and what its limits count. Must not: count; the server does.

use serde_json::Value;

use crate::apiserver::object::{CheckedField, Kind, Tree, tree};

/// Checks a quota.
pub(crate) fn validate(quota: &CheckedField<'_, '_>) {
    let hard = quota.at("spec.hard");
    for name in hard.tree().keys().filter(|name| counted(name).is_some()) {
        let limit = hard.entry(name);
        match number(limit.value()) {
            Some(..0) => limit.invalid("must be greater than or equal to 0"),
            Some(0..) => {}
            None => limit.invalid("must be an integer"),
        }
    }
}

/// Brings limits given as numbers into the text form that the API stores.
pub(crate) fn normalize(tree: &mut Tree) {
    let hard = tree::pointer_mut(tree, "/spec/hard").and_then(Value::as_object_mut);
    for limit in hard.into_iter().flat_map(Tree::values_mut) {
        if limit.is_number() {
            *limit = limit.to_string().into();
        }
    }
}

/// The kind whose objects a limit counts.
pub(crate) fn counted(name: &str) -> Option<Kind> {
    match name {
        "pods" => Some(Kind::Pod),
        _ => Kind::find_qualified(name.strip_prefix("count/")?),
    }
}

/// A limit's number.
pub(crate) fn number(limit: &Value) -> Option<i64> {
    limit.as_str()?.parse().ok()
}
