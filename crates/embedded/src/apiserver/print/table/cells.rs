//! Defines rows, and the cells that several tables share.
//!
//! Responsible for: common shapes and cells. Must not: know kinds.

use serde_json::Value;

use crate::apiserver::object::JsonView;

/// One row: its cells and, for finished Pods, a condition.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Value>,
    pub(crate) condition: Option<Value>,
}

/// The first condition of this type.
pub(super) fn condition<'v>(object: JsonView<'v>, condition_type: &str) -> Option<JsonView<'v>> {
    let mut conditions = object.at("status.conditions").items();
    conditions.find(|condition| condition.at("type").text() == condition_type)
}

/// Returns true if the first condition of this type is true.
pub(super) fn is_true(object: JsonView<'_>, condition_type: &str) -> bool {
    condition(object, condition_type).is_some_and(|it| it.at("status").text() == "True")
}

/// The text, or `<none>`.
pub(super) fn or_none(text: &str) -> Value {
    match text {
        "" => "<none>".into(),
        text => text.into(),
    }
}
