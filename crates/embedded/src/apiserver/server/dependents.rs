//! Indexes owners and their dependents, and queues the work of garbage collection.
//!
//! Responsible for: the owner-to-dependents index, the work queue, and the state of owner references. Must not: change
//! objects, or read objects other than the changed one.

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Bound,
    sync::Arc,
};

use compact_str::CompactString;
use hashbrown::HashMap;

use crate::apiserver::object::{Kind, OwnerReference, Stored};

/// Finalizer of foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of orphaning.
pub(crate) const ORPHAN: &str = "orphan";

/// The storage key of an object.
pub(super) type ObjectKey = (Kind, Box<str>);

/// One item of work; long ones contain the position to continue from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Check one dependent.
    Dependent(ObjectKey),
    /// Record an Event on a dependent with an owner in another namespace.
    Astray {
        dependent: ObjectKey,
        owner: Arc<str>,
    },
    /// Check every dependent of an owner that was removed or waits for its dependents.
    Dependents {
        owner: Arc<str>,
        after: Option<ObjectKey>,
    },
    /// Remove the owner from the references of its dependents, then remove its finalizer.
    Orphan {
        owner: Arc<str>,
        after: Option<ObjectKey>,
    },
    /// Remove the finalizer of an owner in foreground deletion, if no dependent blocks it.
    Foreground { owner: Arc<str> },
    /// Delete the objects of a namespace.
    Namespace {
        name: CompactString,
        after: Option<ObjectKey>,
    },
    /// Update the `status` of a namespace's quotas.
    Quotas { namespace: CompactString },
}

impl Work {
    fn dependents(owner: &Arc<str>) -> Self {
        Self::Dependents {
            owner: owner.clone(),
            after: None,
        }
    }

    /// Work that empties a namespace.
    pub(crate) fn namespace(name: &str) -> Self {
        Self::Namespace {
            name: name.into(),
            after: None,
        }
    }
}

/// The index and the work queue.
#[derive(Clone, Debug, Default)]
#[doc(alias = "GraphBuilder")]
pub(crate) struct Garbage {
    /// Stored objects by UID, in their latest state.
    live: HashMap<Arc<str>, Arc<Stored>>,
    /// Dependents by the owner's UID, whether or not the owner exists.
    dependents: HashMap<Arc<str>, Dependents>,
    work: VecDeque<Work>,
    /// Namespaces with queued quota work. All changes until that work runs are counted at once.
    uncounted: BTreeSet<CompactString>,
}

/// The state of an owner reference.
#[doc(alias = "classifyReferences")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerReferenceState {
    /// The owner exists and does not wait for dependents.
    Solid,
    /// The owner waits until its dependents are deleted.
    WaitingForDependents,
    /// The owner does not exist.
    Dangling,
    /// The owner cannot be looked up: the server does not serve the kind, or the object is cluster-scoped and the owner
    /// is not. The dependent is kept.
    Unknown,
}

#[derive(Clone, Debug, Default)]
struct Dependents {
    keys: BTreeSet<ObjectKey>,
    blocking: usize,
}

impl Garbage {
    /// Adds work.
    pub(crate) fn push(&mut self, work: Work) {
        self.work.push_back(work);
    }

    /// Returns true if there is work.
    pub(super) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Takes the next item of work.
    pub(super) fn take_work(&mut self) -> Option<Work> {
        let work = self.work.pop_front()?;
        if let Work::Quotas { namespace } = &work {
            self.uncounted.remove(namespace);
        }
        Some(work)
    }

    /// Puts work back at the front of the queue.
    pub(super) fn put_back(&mut self, rest: Work) {
        self.work.push_front(rest);
    }

    /// The object with a UID.
    pub(super) fn live(&self, uid: &str) -> Option<&Arc<Stored>> {
        self.live.get(uid)
    }

    /// The keys of an owner's dependents.
    pub(super) fn dependents_of(&self, owner: &str) -> impl Iterator<Item = &ObjectKey> {
        let dependents = self.dependents.get(owner);
        dependents.into_iter().flat_map(|all| &all.keys)
    }

    /// Queues the count of a namespace's quotas, unless it is queued already.
    pub(crate) fn count_quotas(&mut self, namespace: &str) {
        if self.uncounted.insert(namespace.into()) {
            self.push(Work::Quotas {
                namespace: namespace.into(),
            });
        }
    }

    /// Updates the index and queues work after an object was stored.
    pub(crate) fn stored(&mut self, object: &Arc<Stored>) {
        if object.kind == Kind::Event {
            return;
        }
        let last = self.live.insert(object.uid.clone(), Arc::clone(object));
        let last = last.as_deref();
        let before = last.map_or(&[][..], |last| &last.owners);
        if *before != *object.owners {
            let key = (object.kind, object.key());
            self.unlink(before, &key);
            self.link(&object.owners, &key);
            self.doubt(object, before, key);
        }
        let begins = |finalizer| {
            waits_for(object, finalizer) && !last.is_some_and(|last| waits_for(last, finalizer))
        };
        if begins(FOREGROUND) {
            self.push(Work::dependents(&object.uid));
        }
        if begins(ORPHAN) {
            let owner = object.uid.clone();
            self.push(Work::Orphan { owner, after: None });
        }
    }

    /// Updates the index and queues work after an object was removed.
    pub(crate) fn removed(&mut self, object: &Stored) {
        let Some(last) = self.live.remove(&object.uid) else {
            return;
        };
        self.unlink(&last.owners, &(last.kind, last.key()));
        if self.dependents.contains_key(&object.uid) {
            self.push(Work::dependents(&object.uid));
        }
    }

    /// Queues a check of an object if one of its new owner references is invalid.
    fn doubt(&mut self, object: &Stored, before: &[OwnerReference], key: ObjectKey) {
        let new = object.owners.iter().filter(|owner| !before.contains(owner));
        let mut is_bad = false;
        for owner in new {
            if self.is_astray(object, owner) {
                self.work.push_back(Work::Astray {
                    dependent: key.clone(),
                    owner: owner.uid.clone(),
                });
            }
            is_bad |= self.classify(object, owner) != OwnerReferenceState::Solid;
        }
        if is_bad {
            self.push(Work::Dependent(key));
        }
    }

    /// Classifies an owner reference: its kind, namespace and name must be those of the object with its UID.
    pub(super) fn classify(&self, object: &Stored, owner: &OwnerReference) -> OwnerReferenceState {
        let Some(kind) = owner.kind else {
            return OwnerReferenceState::Unknown;
        };
        let namespaced = kind.info().namespaced;
        if namespaced && object.namespace.is_empty() {
            return OwnerReferenceState::Unknown;
        }
        let namespace = if namespaced { &*object.namespace } else { "" };
        let named = self.live.get(&owner.uid).filter(|live| {
            live.kind == kind && live.namespace == namespace && live.name == owner.name
        });
        match named {
            None => OwnerReferenceState::Dangling,
            Some(live) if waits_for(live, FOREGROUND) => OwnerReferenceState::WaitingForDependents,
            Some(_) => OwnerReferenceState::Solid,
        }
    }

    /// Returns true if the owner is in another namespace than the object.
    fn is_astray(&self, object: &Stored, owner: &OwnerReference) -> bool {
        let live = self.live.get(&owner.uid);
        live.is_some_and(|live| !live.namespace.is_empty() && live.namespace != object.namespace)
    }

    fn link(&mut self, owners: &[OwnerReference], key: &ObjectKey) {
        for owner in owners {
            let dependents = self.dependents.entry(owner.uid.clone()).or_default();
            if dependents.keys.insert(key.clone()) {
                dependents.blocking += usize::from(owner.blocks);
            }
        }
    }

    fn unlink(&mut self, owners: &[OwnerReference], key: &ObjectKey) {
        for owner in owners {
            let Some(dependents) = self.dependents.get_mut(&owner.uid) else {
                continue;
            };
            if dependents.keys.remove(key) {
                dependents.blocking -= usize::from(owner.blocks);
            }
            let free = dependents.blocking == 0;
            if dependents.keys.is_empty() {
                self.dependents.remove(&owner.uid);
            }
            let live = self.live.get(&owner.uid);
            if free && live.is_some_and(|live| waits_for(live, FOREGROUND)) {
                let owner = owner.uid.clone();
                self.work.push_back(Work::Foreground { owner });
            }
        }
    }

    pub(super) fn next_dependent(
        &self,
        owner: &str,
        after: Option<&ObjectKey>,
    ) -> Option<ObjectKey> {
        let keys = &self.dependents.get(owner)?.keys;
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        keys.range((start, Bound::Unbounded)).next().cloned()
    }

    pub(super) fn blocking(&self, owner: &str) -> usize {
        let dependents = self.dependents.get(owner);
        dependents.map_or(0, |dependents| dependents.blocking)
    }
}

/// Returns true if an object is being deleted and has this finalizer.
pub(super) fn waits_for(object: &Stored, finalizer: &str) -> bool {
    object.deletion.is_some() && object.has_finalizer(finalizer)
}
