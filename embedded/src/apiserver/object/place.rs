//! Where a value stands in an object.
//!
//! Responsible for: paths as Kubernetes writes them, made only when one is shown. Must not: look at values.

use std::fmt;

/// A way down into an object; each step knows the one before.
#[derive(Clone, Copy)]
#[doc(alias = "field.Path")]
pub(crate) enum Place<'a> {
    /// The object itself.
    Root,
    /// A member, or a member's member by a path with dots.
    Member(&'a Self, &'a str),
    /// An item of a list.
    Item(&'a Self, usize),
    /// An entry of a map.
    Entry(&'a Self, &'a str),
}

impl<'a> Place<'a> {
    /// The names of the members on the way here.
    pub(crate) fn members(self) -> Vec<&'a str> {
        match self {
            Self::Root => Vec::new(),
            Self::Member(parent, name) => [parent.members(), vec![name]].concat(),
            Self::Item(parent, _) | Self::Entry(parent, _) => parent.members(),
        }
    }
}

/// `spec.containers[0].resources.limits[cpu]`.
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
