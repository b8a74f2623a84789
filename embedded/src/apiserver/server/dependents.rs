//! Who owns whom, and what is to be done about it.
//!
//! Responsible for: the owner-to-dependents index, the work list of garbage collection, and what an owner
//! reference refers to. Must not: change objects, or look at any but the one that changed.

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

/// Where an object is stored.
pub(super) type ObjectKey = (Kind, Box<str>);

/// One thing to do; long ones carry the place to go on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Look at one dependent.
    Dependent(ObjectKey),
    /// Say that a dependent names an owner that lives in another namespace.
    Astray {
        dependent: ObjectKey,
        owner: Arc<str>,
    },
    /// An owner has gone or waits for its dependents: look at each of them.
    Dependents {
        owner: Arc<str>,
        after: Option<ObjectKey>,
    },
    /// An owner is to be forgotten by its dependents, then goes.
    Orphan {
        owner: Arc<str>,
        after: Option<ObjectKey>,
    },
    /// An owner in foreground deletion may be free to go.
    Foreground { owner: Arc<str> },
    /// A namespace is to be emptied.
    Namespace {
        name: CompactString,
        after: Option<ObjectKey>,
    },
    /// What a namespace's quotas say is used is to be counted.
    Quotas { namespace: CompactString },
}

impl Work {
    fn dependents(owner: &Arc<str>) -> Self {
        Self::Dependents {
            owner: owner.clone(),
            after: None,
        }
    }

    /// Work to empty a namespace.
    pub(crate) fn namespace(name: &str) -> Self {
        Self::Namespace {
            name: name.into(),
            after: None,
        }
    }
}

/// Index and work list.
#[derive(Clone, Debug, Default)]
#[doc(alias = "GraphBuilder")]
pub(crate) struct Garbage {
    /// Live objects by uid, as they were last stored.
    live: HashMap<Arc<str>, Arc<Stored>>,
    /// Dependents by the owner's uid, whether or not the owner lives.
    dependents: HashMap<Arc<str>, Dependents>,
    work: VecDeque<Work>,
    /// Namespaces whose quotas are to be counted: what happens until then is counted in one go.
    uncounted: BTreeSet<CompactString>,
}

/// What an owner reference refers to.
#[doc(alias = "classifyReferences")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerReferenceState {
    /// An object that stays.
    Solid,
    /// An object that waits for its dependents to be deleted first.
    WaitingForDependents,
    /// No object.
    Dangling,
    /// Nobody can say: the server has no such kind, or the reference does not name the namespace. Dependents
    /// are left alone.
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

    /// Whether anything is to be done.
    pub(super) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// What is to be done next.
    pub(super) fn take_work(&mut self) -> Option<Work> {
        let work = self.work.pop_front()?;
        if let Work::Quotas { namespace } = &work {
            self.uncounted.remove(namespace);
        }
        Some(work)
    }

    /// Goes on with work before all other.
    pub(super) fn put_back(&mut self, rest: Work) {
        self.work.push_front(rest);
    }

    /// The object with a UID.
    pub(super) fn live(&self, uid: &str) -> Option<&Arc<Stored>> {
        self.live.get(uid)
    }

    /// Where an owner's dependents are.
    pub(super) fn dependents_of(&self, owner: &str) -> impl Iterator<Item = &ObjectKey> {
        let dependents = self.dependents.get(owner);
        dependents.into_iter().flat_map(|all| &all.keys)
    }

    /// Adds the counting of a namespace's quotas, once.
    pub(crate) fn count_quotas(&mut self, namespace: &str) {
        if self.uncounted.insert(namespace.into()) {
            self.push(Work::Quotas {
                namespace: namespace.into(),
            });
        }
    }

    /// Notes an object that was stored.
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

    /// Notes an object that has gone.
    pub(crate) fn removed(&mut self, object: &Stored) {
        let Some(last) = self.live.remove(&object.uid) else {
            return;
        };
        self.unlink(&last.owners, &(last.kind, last.key()));
        if self.dependents.contains_key(&object.uid) {
            self.push(Work::dependents(&object.uid));
        }
    }

    /// An object with an owner that is new to it and that it should not have is looked at.
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

    /// What an owner is to an object: what the reference names must be the object that has the UID.
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

    /// Whether an owner lives in a namespace that is not the object's.
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

/// Whether an object that is being deleted waits for what a finalizer stands for.
pub(super) fn waits_for(object: &Stored, finalizer: &str) -> bool {
    object.deletion.is_some() && object.has_finalizer(finalizer)
}
