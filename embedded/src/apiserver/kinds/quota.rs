//! ResourceQuotas: their rules.
//!
//! Responsible for: what a quota may ask for, and what its limits count. Must not: count; the server does.

use serde_json::Value;

use crate::apiserver::object::{
    field_errors::FieldErrors,
    kind::Kind,
    tree::{self, Tree},
};

/// Checks a quota.
pub(crate) fn validate(tree: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (name, limit) in tree::section(tree::section(tree, "spec"), "hard") {
        let path = format!("spec.hard[{name}]");
        if counted(name).is_none() {
            continue;
        }
        match number(limit) {
            Some(number) if number < 0 => {
                errors.invalid(path, limit, "must be greater than or equal to 0");
            }
            Some(_) => {}
            None => errors.invalid(path, limit, "must be an integer"),
        }
    }
    errors
}

/// Brings limits given as numbers into the text form that the API stores.
pub(crate) fn normalize(tree: &mut Tree) {
    let spec = tree.get_mut("spec");
    let hard = spec.and_then(|spec| spec.get_mut("hard")?.as_object_mut());
    for (_, limit) in hard.into_iter().flatten() {
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
