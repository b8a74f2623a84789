//! Applies the four kinds of patches to a tree.
//!
//! Responsible for: computing the patched tree. Must not: read content types, validate the result, or store it.

mod json_patch;
mod merge;
mod strategic;

pub(crate) use json_patch::not_json;
pub(super) use strategic::go_text;

use serde_json::Value;

use crate::apiserver::object::{Kind, Result, Tree, type_def};

/// A decoded patch.
#[derive(Debug)]
pub(crate) enum PatchBody {
    /// RFC 6902.
    Json(Vec<json_patch::PatchOperation>),
    /// RFC 7386.
    Merge(Tree),
    /// Strategic merge patch: lists merge by key.
    Strategic(Tree),
    /// Server-side apply.
    Apply(Tree),
}

impl PatchBody {
    /// Parses a JSON patch.
    pub(crate) fn json(body: &[u8]) -> Result<Self> {
        json_patch::read(body).map(Self::Json)
    }

    /// The patch as text, for errors that print the patch instead of the result.
    pub(crate) fn shown(&self) -> Option<String> {
        match self {
            Self::Strategic(patch) => Some(strategic::go_text(&Value::Object(patch.clone()))),
            Self::Json(_) | Self::Merge(_) | Self::Apply(_) => None,
        }
    }

    /// Returns true if the patch can change the given top-level member.
    pub(crate) fn touches(&self, member: &str) -> bool {
        match self {
            Self::Json(operations) => operations.iter().any(|operation| operation.touches(member)),
            Self::Merge(patch) | Self::Strategic(patch) | Self::Apply(patch) => {
                patch.contains_key(member)
            }
        }
    }

    /// Applies the patch to an object of this kind.
    pub(crate) fn apply(&self, kind: Kind, tree: &mut Tree) -> Result<()> {
        match self {
            Self::Json(operations) => json_patch::apply(operations, tree),
            Self::Merge(patch) => {
                merge::apply(tree, patch);
                Ok(())
            }
            Self::Strategic(patch) => strategic::apply(type_def::of(kind), tree, patch),
            Self::Apply(_) => unreachable!("what is applied is merged by who owns what"),
        }
    }
}
