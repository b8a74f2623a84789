//! Represents the path of a field in an object.
//!
//! Responsible for: paths as Kubernetes formats them, built only when they are printed. Must not: read values.

use std::fmt;

/// A path; each step refers to its parent.
#[derive(Clone, Copy)]
#[doc(alias = "field.Path")]
pub(crate) enum Place<'a> {
    /// The object itself.
    Root,
    /// A member, or a descendant by a dotted path.
    Member(&'a Self, &'a str),
    /// An item of a list.
    Item(&'a Self, usize),
    /// An entry of a map.
    Entry(&'a Self, &'a str),
}

impl<'a> Place<'a> {
    /// The names of the members along the path.
    pub(crate) fn members(self) -> Vec<&'a str> {
        match self {
            Self::Root => Vec::new(),
            Self::Member(parent, name) => [parent.members(), vec![name]].concat(),
            Self::Item(parent, _) | Self::Entry(parent, _) => parent.members(),
        }
    }
}

/// Formats as `spec.containers[0].resources.limits[cpu]`.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(Self::Root, name) => f.write_str(name),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(list, index) => write!(f, "{list}[{index}]"),
            Self::Entry(map, key) => write!(f, "{map}[{key}]"),
        }
    }
}
