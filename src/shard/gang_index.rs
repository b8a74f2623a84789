//! Objects by what they refer to: each is found by the namespace and name in its reference.
//!
//! Facts come from a watch and from the answers to own writes, in any order. They carry versions:
//! an older one never replaces a newer one, and an answer that comes late does not bring back what
//! the watch has already seen go.

use std::{collections::BTreeMap, sync::Arc};

use compact_str::CompactString;
use hashbrown::HashSet;

use crate::{model::Uid, wire::DecodedGangObject};

/// The namespace and name that a reference means.
type Referent = (CompactString, CompactString);

/// See the module's text.
#[derive(Debug)]
pub(super) struct Index<T> {
    objects: BTreeMap<Uid, GangEntry<T>>,
    referring: BTreeMap<Referent, Vec<Uid>>,
    /// How far the watches have come, by the namespace that they cover.
    seen: BTreeMap<Option<String>, u64>,
}

#[derive(Debug)]
struct GangEntry<T> {
    version: u64,
    referent: Referent,
    record: Arc<T>,
}

impl<T> GangEntry<T> {
    /// Whether it is in a namespace, or anywhere.
    fn is_in(&self, scope: Option<&str>) -> bool {
        scope.is_none_or(|scope| self.referent.0 == scope)
    }
}

/// What is asked of the objects of any kind.
pub(super) trait Known {
    /// The version of an object that is known.
    fn version(&self, uid: Uid) -> Option<u64>;

    /// Takes in that an object is gone.
    fn remove(&mut self, uid: Uid);

    /// Takes in that a list of a namespace (or all) showed these and no others as of `version`.
    fn retain(&mut self, scope: Option<&str>, listed: &HashSet<Uid>, version: u64);

    /// The objects of a namespace (or all) that are known to be newer than this version.
    fn newer(&self, scope: Option<&str>, version: u64) -> Vec<(Uid, u64)>;

    /// Notes how far a watch has come.
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
    /// Takes in a version of an object; one that refers to nothing is not kept.
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

    /// Takes in the answer to a creation, unless the watch knows better.
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

    /// The objects that refer to this one.
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
