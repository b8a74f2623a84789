//! Gives read access to a part of an object, present or not.
//!
//! Responsible for: descending into an object, and typed access to values. Must not: change or validate them.

use serde_json::Value;

use super::tree::{self, Tree};

static NULL: Value = Value::Null;

/// A part of an object: a member, an item or the object itself. A missing value, or one of another type than the method
/// returns, reads as empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonView<'v> {
    value: &'v Value,
    members: Option<&'v Tree>,
}

impl<'v> From<&'v Tree> for JsonView<'v> {
    fn from(tree: &'v Tree) -> Self {
        Self {
            value: &NULL,
            members: Some(tree),
        }
    }
}

impl<'v> From<Option<&'v Value>> for JsonView<'v> {
    fn from(value: Option<&'v Value>) -> Self {
        let value = value.unwrap_or(&NULL);
        Self {
            value,
            members: value.as_object(),
        }
    }
}

impl<'v> JsonView<'v> {
    /// A member; `a.b` is the member b of the member a.
    pub(crate) fn at(self, path: &str) -> Self {
        tree::names(path).fold(self, Self::entry)
    }

    /// The entry of a map; its key may contain dots.
    pub(crate) fn entry(self, key: &str) -> Self {
        self.members.and_then(|members| members.get(key)).into()
    }

    /// The items of a list.
    pub(crate) fn items(self) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        self.list().iter().map(|item| Some(item).into())
    }

    /// An item of a list.
    pub(crate) fn item(self, index: usize) -> Self {
        self.list().get(index).into()
    }

    /// The value; null if there is none.
    pub(crate) fn value(self) -> &'v Value {
        self.value
    }

    /// Returns true if there is a value other than null.
    pub(crate) fn is_set(self) -> bool {
        !self.value.is_null()
    }

    /// The value, if it is a string.
    pub(crate) fn as_text(self) -> Option<&'v str> {
        self.value.as_str()
    }

    /// The string; empty for other types.
    pub(crate) fn text(self) -> &'v str {
        self.as_text().unwrap_or_default()
    }

    /// The value, if it is an integer.
    pub(crate) fn int(self) -> Option<i64> {
        self.value.as_i64()
    }

    /// The integer; 0 for other types.
    pub(crate) fn number(self) -> i64 {
        self.int().unwrap_or_default()
    }

    /// Returns true if the value is `true`.
    pub(crate) fn flag(self) -> bool {
        self.value == true
    }

    /// The members of an object or a map.
    pub(crate) fn tree(self) -> &'v Tree {
        self.members.unwrap_or(tree::empty())
    }

    /// The items of a list.
    pub(crate) fn list(self) -> &'v [Value] {
        self.value.as_array().map_or(&[], Vec::as_slice)
    }
}
