//! Indexes the objects of one kind by key: hashed for lookups, sorted for lists.
//!
//! Every request looks up one or two objects. Among a million objects, a lookup in a sorted tree visits more keys than
//! CPU caches hold. So lookups use the hash map, and only lists, creates and deletes use the sorted keys.
//!
//! Must not: know versions, or publish changes.

use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Included, Unbounded},
    sync::Arc,
};

use hashbrown::{HashMap, hash_map::Entry};

use crate::apiserver::object::Stored;

/// Objects by key, and the sorted keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    by_key: HashMap<Arc<str>, Arc<Stored>>,
    order: BTreeSet<Arc<str>>,
}

impl Index {
    /// Finds an object.
    pub(super) fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.by_key.get(key)
    }

    /// The number of objects.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Inserts an object; returns the state that it replaces.
    pub(super) fn insert(&mut self, object: Arc<Stored>) -> Option<Arc<Stored>> {
        match self.by_key.entry(object.key().into()) {
            Entry::Occupied(mut place) => Some(place.insert(object)),
            Entry::Vacant(place) => {
                self.order.insert(Arc::clone(place.key()));
                place.insert(object);
                None
            }
        }
    }

    /// Removes an object.
    pub(super) fn remove(&mut self, key: &str) -> Option<Arc<Stored>> {
        let last = self.by_key.remove(key)?;
        self.order.remove(key);
        Some(last)
    }

    /// Objects whose keys start with `prefix`, in key order; only those after key `after`, if given.
    pub(super) fn range<'a>(
        &'a self,
        prefix: String,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Stored>> + use<'a> {
        let start = after.map_or(Included(prefix.as_str()), Excluded);
        self.order
            .range::<str, _>((start, Unbounded))
            .take_while(move |key| key.starts_with(&prefix))
            .filter_map(|key| self.by_key.get(key))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::apiserver::object::Kind;

    fn pod(namespace: &str, name: &str, version: u64) -> Arc<Stored> {
        let Value::Object(tree) = json!({"metadata": {"name": name, "namespace": namespace}})
        else {
            unreachable!()
        };
        Arc::new(Stored::encode(Kind::Pod, version, &tree))
    }

    #[test]
    fn objects_found_by_key_are_listed_in_order() {
        let mut objects = Index::default();
        for (namespace, name) in [("b", "1"), ("a", "2"), ("a", "10"), ("a", "1"), ("aa", "1")] {
            assert!(objects.insert(pod(namespace, name, 1)).is_none());
        }
        let before = objects.insert(pod("a", "2", 2)).expect("it was there");
        assert_eq!(before.version, 1);
        assert_eq!(objects.get("a/2").map(|pod| pod.version), Some(2));
        assert_eq!(objects.remove("a/1").map(|pod| pod.version), Some(1));
        assert!(objects.get("a/1").is_none() && objects.remove("a/1").is_none());
        assert_eq!(objects.len(), 4);
        let list = |prefix: &str, after| -> Vec<String> {
            let found = objects.range(prefix.to_owned(), after);
            found.map(|pod| pod.key().into()).collect()
        };
        assert_eq!(list("", None), ["a/10", "a/2", "aa/1", "b/1"]);
        assert_eq!(list("a/", None), ["a/10", "a/2"]);
        assert_eq!(list("a/", Some("a/10")), ["a/2"]);
        assert!(list("c/", None).is_empty());
    }
}
