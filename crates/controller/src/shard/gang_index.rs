//! Indexes objects by the namespace and name in their reference.
//!
//! Versions come from a watch and from the responses to our writes, in any order. An older version never replaces a
//! newer one, and a late response does not restore an object that the watch has shown as deleted.

use std::{collections::BTreeMap, sync::Arc};

use compact_str::CompactString;
use hashbrown::HashSet;

use lakh_model::Uid;
use lakh_wire::DecodedGangObject;

/// The namespace and name in a reference.
type Referent = (CompactString, CompactString);

/// A cache of gang objects of one kind, indexed by the object that they refer to.
#[derive(Debug)]
pub(super) struct Index<T> {
    objects: BTreeMap<Uid, GangEntry<T>>,
    referring: BTreeMap<Referent, Vec<Uid>>,
    /// The resourceVersions that the watches have reached, by the namespace that they cover.
    seen: BTreeMap<Option<String>, u64>,
}

#[derive(Debug)]
struct GangEntry<T> {
    version: u64,
    referent: Referent,
    record: Arc<T>,
}

impl<T> GangEntry<T> {
    /// Returns true if it is in the namespace; without a namespace, always.
    fn is_in(&self, scope: Option<&str>) -> bool {
        scope.is_none_or(|scope| self.referent.0 == scope)
    }
}

/// Cache operations that are the same for each kind.
pub(super) trait Known {
    /// Returns the cached version of an object.
    fn version(&self, uid: Uid) -> Option<u64>;

    /// Removes a deleted object.
    fn remove(&mut self, uid: Uid);

    /// Removes the objects of a namespace (or all) that a complete list of `version` does not contain.
    fn retain(&mut self, scope: Option<&str>, listed: &HashSet<Uid>, version: u64);

    /// Returns the objects of a namespace (or all) that are cached in a newer version than this.
    fn newer(&self, scope: Option<&str>, version: u64) -> Vec<(Uid, u64)>;

    /// Records the resourceVersion that a watch has reached.
    fn seen(&mut self, scope: Option<&str>, version: u64);
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            referring: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }
}

impl<T> Index<T> {
    /// Applies a version of an object. An object without a reference is not kept.
    pub(super) fn apply(&mut self, decoded: DecodedGangObject<T>) {
        let DecodedGangObject {
            uid,
            resource_version: version,
            namespace,
            refers_to,
            record,
        } = decoded;
        let known = self.objects.get(&uid);
        if known.is_some_and(|known| known.version > version) {
            return;
        }
        self.remove(uid);
        let Some(name) = refers_to else { return };
        let referent = (namespace, name);
        self.referring
            .entry(referent.clone())
            .or_default()
            .push(uid);
        let object = GangEntry {
            version,
            referent,
            record: Arc::new(record),
        };
        self.objects.insert(uid, object);
    }

    /// Applies the response to a creation, unless the watch has passed its version.
    pub(super) fn made(&mut self, decoded: DecodedGangObject<T>) {
        let covers = |scope: &Option<String>| {
            let scope = scope.as_deref();
            scope.is_none_or(|scope| decoded.namespace == scope)
        };
        let mut seen = self.seen.iter().filter(|(scope, _)| covers(scope));
        if !seen.any(|(_, version)| *version >= decoded.resource_version) {
            self.apply(decoded);
        }
    }

    /// Returns the objects that refer to this one.
    pub(super) fn referring_to(
        &self,
        namespace: &CompactString,
        name: &CompactString,
    ) -> Vec<Arc<T>> {
        let referring = self.referring.get(&(namespace.clone(), name.clone()));
        let objects = referring.into_iter().flatten();
        objects
            .map(|uid| Arc::clone(&self.objects[uid].record))
            .collect()
    }
}

impl<T> Known for Index<T> {
    fn version(&self, uid: Uid) -> Option<u64> {
        self.objects.get(&uid).map(|object| object.version)
    }

    fn remove(&mut self, uid: Uid) {
        let Some(object) = self.objects.remove(&uid) else {
            return;
        };
        if let Some(referring) = self.referring.get_mut(&object.referent) {
            referring.retain(|other| *other != uid);
            if referring.is_empty() {
                self.referring.remove(&object.referent);
            }
        }
    }

    fn retain(&mut self, scope: Option<&str>, listed: &HashSet<Uid>, version: u64) {
        let is_gone = |uid: &Uid, object: &GangEntry<T>| {
            object.is_in(scope) && object.version <= version && !listed.contains(uid)
        };
        let gone = self
            .objects
            .iter()
            .filter(|(uid, object)| is_gone(uid, object));
        let gone: Vec<Uid> = gone.map(|(uid, _)| *uid).collect();
        for uid in gone {
            self.remove(uid);
        }
    }

    fn newer(&self, scope: Option<&str>, version: u64) -> Vec<(Uid, u64)> {
        let objects = self.objects.iter();
        let newer = objects.filter(|(_, object)| object.is_in(scope) && object.version > version);
        newer.map(|(uid, object)| (*uid, object.version)).collect()
    }

    fn seen(&mut self, scope: Option<&str>, version: u64) {
        let seen = self.seen.entry(scope.map(str::to_owned)).or_default();
        *seen = version.max(*seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: u128, version: u64, refers_to: Option<&str>) -> DecodedGangObject<u64> {
        DecodedGangObject {
            uid: Uid::from_u128(uid),
            resource_version: version,
            namespace: "ml".into(),
            refers_to: refers_to.map(Into::into),
            record: version,
        }
    }

    fn found(index: &Index<u64>, name: &str) -> Vec<u64> {
        let found = index.referring_to(&"ml".into(), &name.into());
        found.iter().map(|record| **record).collect()
    }

    #[test]
    fn objects_are_found_by_what_they_refer_to() {
        let mut index = Index::default();
        index.apply(object(1, 5, Some("j")));
        index.apply(object(2, 6, Some("j")));
        index.apply(object(3, 7, None));
        assert_eq!(found(&index, "j"), [5, 6]);
        index.apply(object(1, 4, Some("j")));
        index.apply(object(2, 9, Some("other")));
        assert_eq!(
            (found(&index, "j"), found(&index, "other")),
            (vec![5], vec![9])
        );
        index.remove(Uid::from_u128(1));
        index.remove(Uid::from_u128(2));
        assert!(index.objects.is_empty() && index.referring.is_empty());
    }

    #[test]
    fn a_list_takes_out_what_it_does_not_show_but_not_what_is_newer() {
        let mut index = Index::default();
        for (uid, version) in [(1, 5), (2, 6), (3, 20)] {
            index.apply(object(uid, version, Some("j")));
        }
        let listed = HashSet::from_iter([Uid::from_u128(1)]);
        assert_eq!(index.newer(Some("ml"), 10), [(Uid::from_u128(3), 20)]);
        assert!(index.newer(Some("elsewhere"), 0).is_empty());
        index.retain(Some("elsewhere"), &listed, 10);
        assert_eq!(found(&index, "j"), [5, 6, 20]);
        index.retain(Some("ml"), &listed, 10);
        assert_eq!(found(&index, "j"), [5, 20]);
    }

    #[test]
    fn a_late_answer_does_not_bring_back_what_is_gone() {
        let mut index = Index::default();
        index.seen(Some("elsewhere"), 99);
        index.made(object(1, 5, Some("j")));
        assert_eq!(found(&index, "j"), [5]);
        index.seen(Some("ml"), 6);
        index.remove(Uid::from_u128(1));
        index.made(object(1, 5, Some("j")));
        assert_eq!(found(&index, "j"), [0; 0]);
        index.made(object(2, 7, Some("j")));
        assert_eq!(found(&index, "j"), [7]);
    }
}
