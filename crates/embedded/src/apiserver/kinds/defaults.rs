//! Applies the defaults listed in `defaults.yaml`.
//!
//! Responsible for: filling in missing fields. Must not: hold the defaults themselves; defaults that depend on other
//! fields are with each kind.

use std::sync::LazyLock;

use serde_json::Value;

use crate::apiserver::object::{Tree, tree};

static SHAPES: LazyLock<Tree> = LazyLock::new(|| {
    let shapes = serde_saphyr::from_str(include_str!("defaults.yaml"));
    shapes.expect("the defaults are YAML")
});

/// Fills the missing fields of a part of an object with the defaults listed under `shape`.
pub(super) fn fill(tree: &mut Tree, shape: &str) {
    fill_members(tree, tree::section(&SHAPES, shape));
}

fn fill_members(tree: &mut Tree, shape: &Tree) {
    for (name, value) in shape {
        match name.strip_suffix('?') {
            None if tree.get(name).is_none_or(Value::is_null) => {
                tree.insert(name.clone(), value.clone());
            }
            None => {}
            Some(name) => look_into(tree.get_mut(name), value),
        }
    }
}

fn look_into(found: Option<&mut Value>, shape: &Value) {
    match (found, shape) {
        (Some(Value::Object(members)), Value::Object(shape)) => fill_members(members, shape),
        (Some(Value::Array(items)), Value::Array(shape)) => {
            for item in items {
                look_into(Some(item), &shape[0]);
            }
        }
        _ => {}
    }
}
