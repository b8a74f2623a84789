//! Namespaces: their rules.
//!
//! Responsible for: which there are from the start, and what a new one gets. Must not: end one; the server
//! does.

use serde_json::json;

use crate::apiserver::object::{Tree, tree};

/// The namespaces that exist from the start.
pub(crate) const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Those of them that cannot be deleted.
pub(crate) const PROTECTED: [&str; 3] = ["default", "kube-public", "kube-system"];

/// The label that carries a namespace's own name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Sets the label that carries the name.
pub(crate) fn default(tree: &mut Tree) {
    let metadata = tree::metadata_mut(tree);
    let name = tree::text(metadata, "name").to_owned();
    if !name.is_empty() {
        tree::section_mut(metadata, "labels").insert(NAME_LABEL.into(), name.into());
    }
}

/// Sets finalizer and phase of a new namespace.
pub(crate) fn prepare_create(tree: &mut Tree) {
    default(tree);
    let spec = tree::section_mut(tree, "spec");
    tree::add_string(spec, "finalizers", "kubernetes");
    tree.insert("status".into(), json!({"phase": "Active"}));
}
