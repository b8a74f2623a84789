//! Owner garbage collection: what happens to dependents when their owners go.
//!
//! Responsible for: the owner-to-dependents index, the work list, and the decision for one
//! dependent. Must not: scan all objects, or change state other than by the common write paths.
//!
//! Source: docs/rules/ttl-and-garbage.md, 3.
//!
//! Different from a real cluster: the collector acts on the server's own state, so it never
//! works from stale caches and needs no retries. Kinds that the server does not have stay unknown to it.

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
    resources::Kind,
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
    /// Say that a dependent names an owner that lives in another namespace.
    Astray { dependent: Place, owner: Arc<str> },
    /// An owner has gone or waits for its dependents: look at each of them.
    Dependents {
        owner: Arc<str>,
        after: Option<Place>,
    },
    /// An owner is to be forgotten by its dependents, then goes.
    Orphan {
        owner: Arc<str>,
        after: Option<Place>,
    },
    /// An owner in foreground deletion may be free to go.
    Foreground { owner: Arc<str> },
    /// A namespace is to be emptied.
    Namespace {
        name: CompactString,
        after: Option<Place>,
    },
    /// What a namespace's quotas say is used is to be counted.
    Quotas { namespace: CompactString },
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
    places: HashMap<Arc<str>, Live>,
    /// Dependents by the owner's uid, whether or not the owner lives.
    dependents: HashMap<Arc<str>, Dependents>,
    work: VecDeque<Work>,
    /// Namespaces whose quotas are to be counted: what happens until then is counted in one go.
    uncounted: BTreeSet<CompactString>,
}

#[derive(Debug)]
struct Live {
    place: Place,
    owners: Arc<[Owner]>,
    /// Whether it waits for its dependents to go first.
    foreground: bool,
    orphaning: bool,
}

/// What an owner is to its dependent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is there.
    Solid,
    /// It waits for its dependents to go first.
    Waiting,
    /// There is no such object.
    Absent,
    /// Nobody can look for it: the server has no such kind, or the reference does not say in which
    /// namespace it lives. Its dependents are left alone.
    Unknown,
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

    /// Adds the counting of a namespace's quotas, once.
    pub(crate) fn count_quotas(&mut self, namespace: &str) {
        if self.uncounted.insert(namespace.into()) {
            self.push(Work::Quotas {
                namespace: namespace.into(),
            });
        }
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
        let new = object.owners.iter().filter(|owner| !before.contains(owner));
        let mut is_bad = false;
        for owner in new {
            if self.is_astray(object, owner) {
                self.work.push_back(Work::Astray {
                    dependent: place.clone(),
                    owner: owner.uid.clone(),
                });
            }
            is_bad |= self.standing(object, owner) != Standing::Solid;
        }
        if is_bad {
            self.push(Work::Dependent(place));
        }
    }

    /// What an owner is to an object: what the reference names must be the object that has the UID.
    fn standing(&self, object: &Stored, owner: &Owner) -> Standing {
        let Some(kind) = owner.kind else {
            return Standing::Unknown;
        };
        let namespaced = kind.info().namespaced;
        if namespaced && object.namespace.is_empty() {
            return Standing::Unknown;
        }
        let live = self.places.get(&owner.uid);
        let named = live.filter(|live| {
            let namespace = if namespaced { &*object.namespace } else { "" };
            live.place.0 == kind && split(&live.place.1) == (namespace, &*owner.name)
        });
        match named {
            None => Standing::Absent,
            Some(live) if live.foreground => Standing::Waiting,
            Some(_) => Standing::Solid,
        }
    }

    /// Whether an owner lives in a namespace that is not the object's.
    fn is_astray(&self, object: &Stored, owner: &Owner) -> bool {
        let live = self.places.get(&owner.uid);
        live.is_some_and(|live| {
            let (namespace, _) = split(&live.place.1);
            !namespace.is_empty() && namespace != object.namespace
        })
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
            Work::Quotas { namespace } => {
                self.garbage.uncounted.remove(&namespace);
                self.count_quotas(&namespace);
                None
            }
            Work::Astray { dependent, owner } => {
                if let Some(object) = self.at(dependent.0, &dependent.1) {
                    self.tell_of_stray_owner(&object, &owner, now);
                }
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
        let standings = object.owners.iter();
        let standings = standings.map(|owner| (owner, self.garbage.standing(&object, owner)));
        let standings: Vec<(&Owner, Standing)> = standings.collect();
        let any = |what: Standing| standings.iter().any(|(_, standing)| *standing == what);
        if any(Standing::Unknown) {
            return;
        }
        if any(Standing::Solid) {
            let dead = standings.iter();
            let dead = dead.filter(|(_, standing)| *standing != Standing::Solid);
            let dead: Vec<Arc<str>> = dead.map(|(owner, _)| owner.uid.clone()).collect();
            if !dead.is_empty() {
                self.strip_owners(&(*kind, key.clone()), &|uid| {
                    dead.iter().any(|it| **it == *uid)
                });
            }
            return;
        }
        let waits = any(Standing::Waiting);
        let has_dependents = self.garbage.next_dependent(&object.uid, None).is_some();
        let between = has_dependents && waits;
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
        let (namespace, name) = split(key);
        self.store.get(kind, namespace, name).cloned()
    }
}

/// Namespace and name of a key.
fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}
