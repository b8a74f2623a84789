//! Implements JSON merge patch (RFC 7386).
//!
//! Responsible for: the merge. Must not: know Kubernetes.

use serde_json::Value;

use crate::apiserver::object::{Tree, tree};

/// Merges `patch` into `tree`: null removes, objects merge, everything else replaces.
pub(super) fn apply(tree: &mut Tree, patch: &Tree) {
    for (name, change) in patch {
        match change {
            Value::Null => drop(tree.remove(name)),
            Value::Object(change) => apply(tree::section_mut(tree, name), change),
            other => drop(tree.insert(name.clone(), other.clone())),
        }
    }
}
