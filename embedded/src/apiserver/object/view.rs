//! A look at a part of an object, whether it is there or not.
//!
//! Responsible for: the way down into an object, and values as what they should be. Must not: change or judge them.

use serde_json::Value;

use super::tree::{self, Tree};

static NULL: Value = Value::Null;

/// A part of an object: an object's, a list's, or a value. What is missing, or of another type than is asked for, is
/// empty.
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

    /// The entry of a map, whatever its key looks like.
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

    /// Whether there is a value.
    pub(crate) fn is_set(self) -> bool {
        !self.value.is_null()
    }

    /// The text, if it is one.
    pub(crate) fn as_text(self) -> Option<&'v str> {
        self.value.as_str()
    }

    /// The text; empty if it is none.
    pub(crate) fn text(self) -> &'v str {
        self.as_text().unwrap_or_default()
    }

    /// The integer, if it is one.
    pub(crate) fn int(self) -> Option<i64> {
        self.value.as_i64()
    }

    /// The integer; 0 if it is none.
    pub(crate) fn number(self) -> i64 {
        self.int().unwrap_or_default()
    }

    /// Whether it is true.
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
