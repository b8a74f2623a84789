//! Namespaces: their beginning, their finalizer and the emptying of those that go away.
//!
//! Responsible for: the life of namespaces. Must not: delete other than by the common paths.

use serde_json::{Value, json};

use super::{
    ApiServer,
    garbage::Work,
    meta,
    object::{Stored, Tree},
    options::{DeleteOptions, Propagation},
    resources::Kind,
};
use crate::model::Time;

/// The namespaces that exist from the start.
pub(crate) const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Those of them that cannot be deleted.
pub(crate) const PROTECTED: [&str; 3] = ["default", "kube-public", "kube-system"];

/// The label that carries a namespace's own name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Sets the label that carries the name.
pub(crate) fn default(tree: &mut Tree) {
    let metadata = meta::of_mut(tree);
    let name = meta::text(metadata, "name").to_owned();
    if !name.is_empty() {
        meta::section_mut(metadata, "labels").insert(NAME_LABEL.into(), name.into());
    }
}

/// Sets finalizer and phase of a new namespace.
pub(crate) fn prepare_create(tree: &mut Tree) {
    default(tree);
    let spec = meta::section_mut(tree, "spec");
    meta::add_string(spec, "finalizers", "kubernetes");
    tree.insert("status".into(), json!({"phase": "Active"}));
}

impl ApiServer {
    /// Stores a namespace without a request.
    pub(crate) fn create_namespace(&mut self, name: &str, now: Time) {
        let uid = self.rng.uid();
        let mut tree = Tree::new();
        let metadata = meta::of_mut(&mut tree);
        metadata.insert("name".into(), name.into());
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), now.to_rfc3339().into());
        prepare_create(&mut tree);
        self.store_put(Kind::Namespace, &tree);
    }

    /// Looks at a namespace again once its last object has gone.
    pub(crate) fn note_removal_in_namespace(&mut self, gone: &Stored) {
        if gone.namespace.is_empty() || !self.is_empty(&gone.namespace) {
            return;
        }
        let namespace = self.store.get(Kind::Namespace, "", &gone.namespace);
        if namespace.is_some_and(|namespace| namespace.deletion.is_some()) {
            self.garbage.push(Work::namespace(&gone.namespace));
        }
    }

    /// One step of emptying a terminating namespace: deletes the next object after `after`.
    /// Gives the place to go on from, or `None` when every object has been visited.
    pub(crate) fn empty_namespace(
        &mut self,
        namespace: &str,
        after: Option<(Kind, Box<str>)>,
        now: Time,
    ) -> Option<(Kind, Box<str>)> {
        let terminating = self
            .store
            .get(Kind::Namespace, "", namespace)
            .is_some_and(|object| object.deletion.is_some());
        if !terminating {
            return None;
        }
        if self.is_empty(namespace) {
            self.finish_namespace(namespace);
            return None;
        }
        let (start, mut key) = match after {
            Some((kind, key)) => (kind, Some(key)),
            None => (Kind::Pod, None),
        };
        for kind in Kind::all().filter(|kind| *kind >= start && kind.info().namespaced) {
            let next = self
                .store
                .range(kind, namespace, key.as_deref())
                .next()
                .cloned();
            key = None;
            if let Some(object) = next {
                if object.deletion.is_none() {
                    let options = DeleteOptions {
                        propagation: Some(Propagation::Background),
                        ..DeleteOptions::default()
                    };
                    self.delete_object(&object, &options, now);
                }
                return Some((kind, object.key()));
            }
        }
        None
    }

    fn is_empty(&self, namespace: &str) -> bool {
        Kind::all()
            .filter(|kind| kind.info().namespaced)
            .all(|kind| self.store.count(kind, namespace) == 0)
    }

    /// Takes the server's own finalizer off an empty namespace; the namespace then goes, unless
    /// somebody else still holds it.
    fn finish_namespace(&mut self, name: &str) {
        let Some(object) = self.store.get(Kind::Namespace, "", name) else {
            return;
        };
        let mut tree = object.tree();
        if let Some(Value::Object(spec)) = tree.get_mut("spec") {
            meta::remove_string(spec, "finalizers", "kubernetes");
        }
        if super::strategy::is_finished(Kind::Namespace, &tree) {
            self.store_remove(Kind::Namespace, "", name);
        } else {
            self.store_put(Kind::Namespace, &tree);
        }
    }
}
