//! The life of namespaces: their beginning, and the emptying of those that go away.
//!
//! Responsible for: the life of namespaces. Must not: delete other than by the common paths.

use serde_json::Value;

use super::state::ApiServer;
use crate::{
    apiserver::{
        http::{DeleteOptions, Propagation},
        kinds::namespace::prepare_create,
        object::{Kind, Tree, names, tree},
    },
    model::Time,
};

impl ApiServer {
    /// Stores a namespace without a request.
    pub(crate) fn create_namespace(&mut self, name: &str, now: Time) {
        let uid = names::new_uid(&mut self.rng);
        let mut tree = Tree::new();
        let metadata = tree::metadata_mut(&mut tree);
        metadata.insert("name".into(), name.into());
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), now.to_rfc3339().into());
        prepare_create(&mut tree);
        self.store_put(Kind::Namespace, &tree);
    }

    /// One step of emptying a terminating namespace: deletes the next object after `after`.
    /// Gives the place to go on from, or `None` when every object has been visited.
    pub(crate) fn empty_namespace(
        &mut self,
        namespace: &str,
        after: Option<(Kind, Box<str>)>,
        now: Time,
    ) -> Option<(Kind, Box<str>)> {
        let found = self.store.get(Kind::Namespace, "", namespace);
        found.filter(|object| object.deletion.is_some())?;
        if self.is_namespace_empty(namespace) {
            self.finish_namespace(namespace);
            return None;
        }
        let (start, mut key) = after.unzip();
        let start = start.unwrap_or(Kind::Pod);
        let mut kinds = Kind::all().filter(|kind| *kind >= start && kind.info().namespaced);
        let object = kinds.find_map(|kind| {
            let after = key.take();
            let mut rest = self.store.range(kind, namespace, after.as_deref());
            rest.next().cloned()
        })?;
        if object.deletion.is_none() {
            let options = DeleteOptions {
                propagation: Some(Propagation::Background),
                ..DeleteOptions::default()
            };
            self.delete_object(&object, &options, now);
        }
        Some((object.kind, object.key()))
    }

    /// Takes the server's own finalizer off an empty namespace; the namespace then goes, unless
    /// somebody else still holds it.
    fn finish_namespace(&mut self, name: &str) {
        let Some(object) = self.get(Kind::Namespace, "", name) else {
            return;
        };
        let mut tree = object.tree();
        if let Some(Value::Object(spec)) = tree.get_mut("spec") {
            tree::remove_string(spec, "finalizers", "kubernetes");
        }
        self.put_or_finish(&object, &tree);
    }
}
