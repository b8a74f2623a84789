//! JSON merge patch (RFC 7386).
//!
//! Responsible for: the merge. Must not: know Kubernetes.

use serde_json::Value;

use crate::apiserver::object::tree::Tree;

/// Merges `patch` into `tree`: null removes, objects merge, everything else replaces.
pub(super) fn apply(tree: &mut Tree, patch: &Tree) {
    for (name, change) in patch {
        match change {
            Value::Null => {
                tree.remove(name);
            }
            Value::Object(change) => {
                let member = tree.entry(name.clone()).or_insert(Value::Null);
                if !member.is_object() {
                    *member = Value::Object(Tree::new());
                }
                if let Value::Object(member) = member {
                    apply(member, change);
                }
            }
            other => {
                tree.insert(name.clone(), other.clone());
            }
        }
    }
}
