//! Creates namespaces and empties those that are being deleted.
//!
//! Responsible for: the life cycle of namespaces. Must not: delete other than by the common paths.

use std::sync::Arc;

use serde_json::{Value, json};

use super::state::ApiServer;
use crate::{
    apiserver::{
        http::{DeleteOptions, Propagation},
        kinds::namespace::prepare_create,
        object::{Kind, Stored, Tree, names, tree},
    },
    model::Time,
    rng::Rng,
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
        self.fill_namespace(name, now);
    }

    /// Stores the objects that controllers of a real cluster create in each namespace.
    pub(crate) fn fill_namespace(&mut self, namespace: &str, now: Time) {
        // A generator of its own, so that later names and UIDs do not depend on the number of namespaces.
        let mut rng = Rng::new(
            namespace
                .bytes()
                .fold(0, |seed, byte| seed << 5 ^ seed >> 59 ^ u64::from(byte)),
        );
        for (kind, name) in [
            (Kind::ServiceAccount, "default"),
            (Kind::ConfigMap, "kube-root-ca.crt"),
        ] {
            let mut tree = Tree::new();
            let metadata = tree::metadata_mut(&mut tree);
            metadata.insert("name".into(), name.into());
            metadata.insert("namespace".into(), namespace.into());
            metadata.insert("uid".into(), names::new_uid(&mut rng).into());
            metadata.insert("creationTimestamp".into(), now.to_rfc3339().into());
            if kind == Kind::ConfigMap {
                tree.insert("data".into(), json!({"ca.crt": self.root_ca}));
            }
            self.store_put(kind, &tree);
        }
    }

    /// Sets the CA certificate of this server, which `kube-root-ca.crt` contains in each namespace.
    pub fn set_root_ca(&mut self, pem: &str) {
        pem.clone_into(&mut self.root_ca);
        let is_it = |object: &&Arc<Stored>| object.name == "kube-root-ca.crt";
        let published: Vec<_> = self
            .objects(Kind::ConfigMap)
            .filter(is_it)
            .cloned()
            .collect();
        for object in published {
            let mut tree = object.tree();
            let data = json!({"ca.crt": pem});
            if tree.get("data") != Some(&data) {
                tree.insert("data".into(), data);
                self.store_put(Kind::ConfigMap, &tree);
            }
        }
    }

    /// One step of emptying a terminating namespace: deletes the next object after `after`. Returns the position to
    /// continue from, or `None` if every object was visited.
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

    /// Removes the server's own finalizer from an empty namespace. The namespace is then removed, unless it has other
    /// finalizers.
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
