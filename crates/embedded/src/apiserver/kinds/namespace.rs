//! Implements the rules of Namespaces.
//!
//! Responsible for: the initial namespaces, and the fields of a new one. Must not: finish the deletion of one; the
//! server does.

use serde_json::json;

use crate::apiserver::object::{Tree, tree};

/// The initial namespaces.
pub(crate) const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The initial namespaces that cannot be deleted.
pub(crate) const PROTECTED: [&str; 3] = ["default", "kube-public", "kube-system"];

/// The label with the namespace's own name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Sets the name label.
pub(crate) fn default(tree: &mut Tree) {
    let metadata = tree::metadata_mut(tree);
    let name = tree::text(metadata, "name").to_owned();
    if !name.is_empty() {
        tree::section_mut(metadata, "labels").insert(NAME_LABEL.into(), name.into());
    }
}

/// Sets the label, the finalizer and the phase of a new namespace.
pub(crate) fn prepare_create(tree: &mut Tree) {
    default(tree);
    let spec = tree::section_mut(tree, "spec");
    tree::add_string(spec, "finalizers", "kubernetes");
    tree.insert("status".into(), json!({"phase": "Active"}));
}
