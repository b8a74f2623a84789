//! Rows and columns, and what the tables of several kinds show.
//!
//! Responsible for: their common shapes and cells. Must not: know kinds.

use serde_json::Value;

use super::duration;
use crate::{
    apiserver::object::tree::{self, Tree},
    model::Time,
};

/// One row: its cells and, for finished Pods, a condition.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Value>,
    pub(crate) condition: Option<Value>,
}

/// Name, type, priority and description of one column.
pub(super) type Column = (&'static str, &'static str, i32, &'static str);

pub(super) const NAME: Column = (
    "Name",
    "string",
    0,
    "Name must be unique within a namespace. Is required when creating resources.",
);
pub(super) const AGE: Column = (
    "Age",
    "string",
    0,
    "CreationTimestamp is the server time when this object was created.",
);

/// The object's name.
pub(super) fn name(tree: &Tree) -> Value {
    tree::text(tree::metadata(tree), "name").into()
}

/// How old the object is.
pub(super) fn age(tree: &Tree, now: Time) -> Value {
    duration::since(tree::text(tree::metadata(tree), "creationTimestamp"), now).into()
}

/// The status of the first condition of a type.
pub(super) fn condition<'a>(tree: &'a Tree, condition_type: &str) -> Option<&'a Value> {
    tree::items(tree::section(tree, "status"), "conditions")
        .iter()
        .find(|condition| condition.get("type").is_some_and(|it| it == condition_type))
}

/// Whether the first condition of a type is true.
pub(super) fn is_true(tree: &Tree, condition_type: &str) -> bool {
    condition(tree, condition_type)
        .is_some_and(|condition| condition.get("status").is_some_and(|it| it == "True"))
}

/// Text, or `<none>`.
pub(super) fn or_none(text: &str) -> Value {
    if text.is_empty() {
        "<none>".into()
    } else {
        text.into()
    }
}
