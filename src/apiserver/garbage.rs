//! Owner garbage collection: what happens to dependents when their owners go.
//!
//! Responsible for: the owner-to-dependents index, the work list, and the decision for one
//! dependent. Must not: scan all objects, or change state other than by the common write paths.
//!
//! Different from a real cluster: the collector acts on the server's own state, so it never
//! works from stale caches and needs no retries.

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Bound,
    sync::Arc,
};

use compact_str::CompactString;
use hashbrown::HashMap;
use serde_json::Value;

use super::{
    ApiServer,
    delete::{FOREGROUND, ORPHAN},
    meta,
    object::{Owner, Stored, Tree},
    options::{DeleteOptions, Propagation},
    resources::{KINDS, Kind, KindInfo},
    strategy,
};
use crate::model::Time;

/// Where an object is stored.
type Place = (Kind, Box<str>);

/// One thing to do; long ones carry the place to go on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Look at one dependent.
    Dependent(Place),
    /// An owner has gone or waits for its dependents: look at each of them.
    Dependents {
        owner: Box<str>,
        after: Option<Place>,
    },
    /// An owner is to be forgotten by its dependents, then goes.
    Orphan {
        owner: Box<str>,
        after: Option<Place>,
    },
    /// An owner in foreground deletion may be free to go.
    Foreground { owner: Box<str> },
    /// A namespace is to be emptied.
    Namespace {
        name: CompactString,
        after: Option<Place>,
    },
}

impl Work {
    /// Work to empty a namespace.
    pub(crate) fn namespace(name: &str) -> Self {
        Self::Namespace {
            name: name.into(),
            after: None,
        }
    }
}

/// Index and work list.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    /// Live objects by uid.
    places: HashMap<Box<str>, Live>,
    /// Dependents by the owner's uid, whether or not the owner lives.
    dependents: HashMap<Box<str>, Dependents>,
    work: VecDeque<Work>,
}

#[derive(Debug)]
struct Live {
    place: Place,
    owners: Box<[Owner]>,
    /// Whether it waits for its dependents to go first.
    foreground: bool,
    orphaning: bool,
}

#[derive(Debug, Default)]
struct Dependents {
    places: BTreeSet<Place>,
    blocking: usize,
}

impl Garbage {
    /// Adds work.
    pub(crate) fn push(&mut self, work: Work) {
        self.work.push_back(work);
    }

    /// Notes an object that was stored.
    pub(crate) fn stored(&mut self, object: &Stored) {
        if object.kind == Kind::Event {
            return;
        }
        let place = (object.kind, object.key());
        let foreground = object.deletion.is_some() && object.has_finalizer(FOREGROUND);
        let orphaning = object.deletion.is_some() && object.has_finalizer(ORPHAN);
        let fresh = match self.places.get_mut(&object.uid) {
            Some(live) => {
                let (was_foreground, was_orphaning) = (live.foreground, live.orphaning);
                live.foreground = foreground;
                live.orphaning = orphaning;
                if live.owners != object.owners {
                    let before = std::mem::replace(&mut live.owners, object.owners.clone());
                    self.unlink(&before, &place);
                    self.link(&object.owners, &place);
                    self.doubt(object, &before, place);
                }
                (foreground && !was_foreground, orphaning && !was_orphaning)
            }
            None => {
                self.link(&object.owners, &place);
                let owners = object.owners.clone();
                let live = Live {
                    place: place.clone(),
                    owners,
                    foreground,
                    orphaning,
                };
                self.places.insert(object.uid.clone(), live);
                self.doubt(object, &[], place);
                (foreground, orphaning)
            }
        };
        let owner = || object.uid.clone();
        if fresh.0 {
            self.push(Work::Dependents {
                owner: owner(),
                after: None,
            });
        }
        if fresh.1 {
            self.push(Work::Orphan {
                owner: owner(),
                after: None,
            });
        }
    }

    /// Notes an object that has gone.
    pub(crate) fn removed(&mut self, object: &Stored) {
        let Some(live) = self.places.remove(&object.uid) else {
            return;
        };
        self.unlink(&live.owners, &live.place);
        if self.dependents.contains_key(&object.uid) {
            self.push(Work::Dependents {
                owner: object.uid.clone(),
                after: None,
            });
        }
    }

    /// An object with an owner that is new to it and that it should not have is looked at.
    fn doubt(&mut self, object: &Stored, before: &[Owner], place: Place) {
        let is_new = |owner: &&Owner| !before.iter().any(|it| it.uid == owner.uid);
        let mut new = object.owners.iter().filter(is_new);
        if new.any(|owner| self.lives_for(object, owner) != Some(false)) {
            self.push(Work::Dependent(place));
        }
    }

    /// `None` if the owner is absent for this dependent, else whether it is in foreground
    /// deletion.
    fn lives_for(&self, object: &Stored, owner: &Owner) -> Option<bool> {
        let live = self.places.get(&owner.uid)?;
        let (kind, key) = &live.place;
        let namespace = if kind.info().namespaced {
            key.split('/').next()
        } else {
            None
        };
        let in_reach = namespace.is_none_or(|namespace| namespace == object.namespace);
        in_reach.then_some(live.foreground)
    }

    fn link(&mut self, owners: &[Owner], place: &Place) {
        for owner in owners {
            let dependents = self.dependents.entry(owner.uid.clone()).or_default();
            if dependents.places.insert(place.clone()) {
                dependents.blocking += usize::from(owner.blocks);
            }
        }
    }

    fn unlink(&mut self, owners: &[Owner], place: &Place) {
        for owner in owners {
            let Some(dependents) = self.dependents.get_mut(&owner.uid) else {
                continue;
            };
            if dependents.places.remove(place) {
                dependents.blocking -= usize::from(owner.blocks);
            }
            let free = dependents.blocking == 0;
            if dependents.places.is_empty() {
                self.dependents.remove(&owner.uid);
            }
            if free
                && self
                    .places
                    .get(&owner.uid)
                    .is_some_and(|live| live.foreground)
            {
                self.work.push_back(Work::Foreground {
                    owner: owner.uid.clone(),
                });
            }
        }
    }

    fn next_dependent(&self, owner: &str, after: Option<&Place>) -> Option<Place> {
        let dependents = self.dependents.get(owner)?;
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        dependents
            .places
            .range((start, Bound::Unbounded))
            .next()
            .cloned()
    }

    fn blocking(&self, owner: &str) -> usize {
        self.dependents
            .get(owner)
            .map_or(0, |dependents| dependents.blocking)
    }
}

impl ApiServer {
    /// Whether [`Self::collect_garbage`] has anything to do.
    pub fn garbage_pending(&self) -> bool {
        !self.garbage.work.is_empty()
    }

    /// Does up to `budget` steps, each about one object; true if more are left.
    pub fn collect_garbage(&mut self, now: Time, budget: usize) -> bool {
        for _ in 0..budget {
            let Some(work) = self.garbage.work.pop_front() else {
                return false;
            };
            if let Some(rest) = self.do_work(work, now) {
                self.garbage.work.push_front(rest);
            }
        }
        self.garbage_pending()
    }

    fn do_work(&mut self, work: Work, now: Time) -> Option<Work> {
        match work {
            Work::Dependent(place) => {
                self.check_dependent(&place, now);
                None
            }
            Work::Dependents { owner, after } => {
                match self.garbage.next_dependent(&owner, after.as_ref()) {
                    Some(place) => {
                        self.check_dependent(&place, now);
                        Some(Work::Dependents {
                            owner,
                            after: Some(place),
                        })
                    }
                    None => Some(Work::Foreground { owner }),
                }
            }
            Work::Orphan { owner, after } => {
                match self.garbage.next_dependent(&owner, after.as_ref()) {
                    Some(place) => {
                        self.strip_owners(&place, &|uid| *uid == *owner);
                        Some(Work::Orphan {
                            owner,
                            after: Some(place),
                        })
                    }
                    None => {
                        self.drop_finalizer(&owner, ORPHAN);
                        None
                    }
                }
            }
            Work::Foreground { owner } => {
                if self.garbage.blocking(&owner) == 0 {
                    self.drop_finalizer(&owner, FOREGROUND);
                }
                None
            }
            Work::Namespace { name, after } => {
                self.empty_namespace(&name, after, now)
                    .map(|place| Work::Namespace {
                        name,
                        after: Some(place),
                    })
            }
        }
    }

    /// Decides about one dependent: keep it, strip dead references, or delete it.
    fn check_dependent(&mut self, (kind, key): &Place, now: Time) {
        let Some(mut object) = self.at(*kind, key) else {
            return;
        };
        // An object in foreground deletion itself is looked at as an owner, not here.
        if object.deletion.is_some() || object.owners.is_empty() {
            return;
        }
        if !kind.info().namespaced && has_namespaced_owner(&object) {
            return;
        }
        let solid = |owner: &Owner| self.garbage.lives_for(&object, owner) == Some(false);
        if object.owners.iter().any(solid) {
            let dead: Vec<Box<str>> = object
                .owners
                .iter()
                .filter(|owner| !solid(owner))
                .map(|owner| owner.uid.clone())
                .collect();
            if !dead.is_empty() {
                self.strip_owners(&(*kind, key.clone()), &|uid| {
                    dead.iter().any(|it| **it == *uid)
                });
            }
            return;
        }
        let waiting = |owner: &Owner| self.garbage.lives_for(&object, owner) == Some(true);
        let has_dependents = self.garbage.next_dependent(&object.uid, None).is_some();
        let between = has_dependents && object.owners.iter().any(waiting);
        if between && self.has_waiting_dependent(&object.uid) {
            // Each would wait for the other.
            object = self.unblock_owners(&object);
        }
        let propagation = if object.has_finalizer(ORPHAN) {
            Propagation::Orphan
        } else if object.has_finalizer(FOREGROUND) || between {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        let options = DeleteOptions {
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        self.delete_object(&object, &options, now);
    }

    /// Whether one of an owner's dependents waits for dependents of its own.
    fn has_waiting_dependent(&self, uid: &str) -> bool {
        let dependents = self.garbage.dependents.get(uid);
        let mut places = dependents.iter().flat_map(|all| &all.places);
        places.any(|(kind, key)| {
            let object = self.at(*kind, key);
            object.is_some_and(|it| it.deletion.is_some() && it.has_finalizer(FOREGROUND))
        })
    }

    /// Lets the owners of an object go before it.
    fn unblock_owners(&mut self, object: &Stored) -> Arc<Stored> {
        let mut tree = object.tree();
        let owners = meta::of_mut(&mut tree).get_mut("ownerReferences");
        let owners = owners.and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten() {
            owner["blockOwnerDeletion"] = false.into();
        }
        self.store_put(object.kind, &tree)
    }

    fn strip_owners(&mut self, (kind, key): &Place, gone: &dyn Fn(&str) -> bool) {
        let Some(object) = self.at(*kind, key) else {
            return;
        };
        let mut tree = object.tree();
        let metadata = meta::of_mut(&mut tree);
        if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
            owners.retain(|owner| !owner.get("uid").and_then(Value::as_str).is_some_and(gone));
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
        }
        self.store_put(*kind, &tree);
    }

    fn drop_finalizer(&mut self, uid: &str, finalizer: &str) {
        let Some(place) = self.garbage.places.get(uid).map(|live| live.place.clone()) else {
            return;
        };
        let Some(object) = self.at(place.0, &place.1) else {
            return;
        };
        if !object.has_finalizer(finalizer) {
            return;
        }
        let mut tree: Tree = object.tree();
        meta::remove_string(meta::of_mut(&mut tree), "finalizers", finalizer);
        if strategy::is_finished(place.0, &tree) {
            self.store_remove(place.0, &object.namespace, &object.name);
        } else {
            self.store_put(place.0, &tree);
        }
    }

    fn at(&self, kind: Kind, key: &str) -> Option<Arc<Stored>> {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        self.store.get(kind, namespace, name).cloned()
    }
}

/// Whether an object says that it has an owner of a kind that lives in namespaces. One that lives in
/// none does not say in which, so that nobody can look for it.
fn has_namespaced_owner(object: &Stored) -> bool {
    let tree = object.tree();
    let owners = meta::items(meta::of(&tree), "ownerReferences");
    owners.iter().any(|owner| {
        let is_of = |info: &&KindInfo| {
            owner.get("kind").is_some_and(|kind| kind == info.name)
                && owner
                    .get("apiVersion")
                    .is_some_and(|version| version == info.api_version)
        };
        KINDS.iter().find(is_of).is_some_and(|info| info.namespaced)
    })
}
