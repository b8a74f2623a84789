//! Collects garbage: deletes or orphans dependents when their owners are deleted.
//!
//! Responsible for: the steps of the collector, and the decision about one dependent. Must not: scan all objects, or
//! change state other than by the common write paths. `dependents` holds the index and the work queue.
//!
//! Source: docs/rules/ttl-and-garbage.md, 3.
//!
//! Different from a real cluster: the collector reads the server's own state. So it never has stale caches and needs no
//! retries. It ignores kinds that the server does not serve.

use std::sync::Arc;

use serde_json::Value;

use super::{
    dependents::{FOREGROUND, ORPHAN, ObjectKey, OwnerReferenceState, Work, waits_for},
    state::ApiServer,
};
use crate::{
    apiserver::{
        http::{DeleteOptions, Propagation},
        object::{OwnerReference, Stored, tree},
    },
    model::Time,
};

impl ApiServer {
    /// Returns true if [`Self::collect_garbage`] has work.
    pub fn garbage_pending(&self) -> bool {
        self.garbage.has_work()
    }

    /// Runs up to `budget` steps, each for one object; returns true if work is left.
    pub fn collect_garbage(&mut self, now: Time, budget: usize) -> bool {
        for _ in 0..budget {
            let Some(work) = self.garbage.take_work() else {
                return false;
            };
            if let Some(rest) = self.do_work(work, now) {
                self.garbage.put_back(rest);
            }
        }
        self.garbage_pending()
    }

    /// Runs one step; returns the rest of the work.
    fn do_work(&mut self, work: Work, now: Time) -> Option<Work> {
        match work {
            Work::Dependent(place) => self.check_dependent(&place, now),
            Work::Quotas { namespace } => self.count_quotas(&namespace),
            Work::Astray { dependent, owner } => {
                if let Some(object) = self.at(&dependent) {
                    self.report_owner_ref_invalid_namespace(&object, &owner, now);
                }
            }
            Work::Dependents { owner, after } => {
                let Some(place) = self.garbage.next_dependent(&owner, after.as_ref()) else {
                    return Some(Work::Foreground { owner });
                };
                self.check_dependent(&place, now);
                let after = Some(place);
                return Some(Work::Dependents { owner, after });
            }
            Work::Orphan { owner, after } => {
                if let Some(place) = self.garbage.next_dependent(&owner, after.as_ref()) {
                    self.strip_owners(&place, &|uid| *uid == *owner);
                    let after = Some(place);
                    return Some(Work::Orphan { owner, after });
                }
                self.drop_finalizer(&owner, ORPHAN);
            }
            Work::Foreground { owner } => {
                if self.garbage.blocking(&owner) == 0 {
                    self.drop_finalizer(&owner, FOREGROUND);
                }
            }
            Work::Namespace { name, after } => {
                let after = self.empty_namespace(&name, after, now);
                return after.is_some().then_some(Work::Namespace { name, after });
            }
        }
        None
    }

    /// Decides about one dependent: keep it, remove its dead references, or delete it.
    fn check_dependent(&mut self, place: &ObjectKey, now: Time) {
        let Some(mut object) = self.at(place) else {
            return;
        };
        // An object that is being deleted is handled as an owner, not here.
        if object.deletion.is_some() || object.owners.is_empty() {
            return;
        }
        let classified = object.owners.iter();
        let classified = classified.map(|owner| (owner, self.garbage.classify(&object, owner)));
        let classified: Vec<(&OwnerReference, OwnerReferenceState)> = classified.collect();
        let any = |what: OwnerReferenceState| classified.iter().any(|(_, state)| *state == what);
        if any(OwnerReferenceState::Unknown) {
            return;
        }
        if any(OwnerReferenceState::Solid) {
            let dead = classified.iter();
            let dead = dead.filter(|(_, state)| *state != OwnerReferenceState::Solid);
            let dead: Vec<Arc<str>> = dead.map(|(owner, _)| owner.uid.clone()).collect();
            if !dead.is_empty() {
                self.strip_owners(place, &|uid| dead.iter().any(|it| **it == *uid));
            }
            return;
        }
        let waits = any(OwnerReferenceState::WaitingForDependents);
        let has_dependents = self.garbage.next_dependent(&object.uid, None).is_some();
        let between = has_dependents && waits;
        if between && self.has_waiting_dependent(&object.uid) {
            // Otherwise both would wait for each other.
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

    /// Returns true if a dependent of the owner waits for its own dependents.
    fn has_waiting_dependent(&self, uid: &str) -> bool {
        self.garbage.dependents_of(uid).any(|place| {
            let object = self.at(place);
            object.is_some_and(|object| waits_for(&object, FOREGROUND))
        })
    }

    /// Clears `blockOwnerDeletion`, so that the owners of an object do not wait for it.
    fn unblock_owners(&mut self, object: &Stored) -> Arc<Stored> {
        let mut tree = object.tree();
        let owners = tree::metadata_mut(&mut tree).get_mut("ownerReferences");
        let owners = owners.and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten() {
            owner["blockOwnerDeletion"] = false.into();
        }
        self.store_put(object.kind, &tree)
    }

    fn strip_owners(&mut self, place: &ObjectKey, gone: &dyn Fn(&str) -> bool) {
        let Some(object) = self.at(place) else {
            return;
        };
        let mut tree = object.tree();
        let metadata = tree::metadata_mut(&mut tree);
        if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
            owners.retain(|owner| !owner.get("uid").and_then(Value::as_str).is_some_and(gone));
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
        }
        self.store_put(object.kind, &tree);
    }

    fn drop_finalizer(&mut self, uid: &str, finalizer: &str) {
        let object = self.garbage.live(uid).cloned();
        if let Some(object) = object.filter(|object| object.has_finalizer(finalizer)) {
            let mut tree = object.tree();
            tree::remove_string(tree::metadata_mut(&mut tree), "finalizers", finalizer);
            self.put_or_finish(&object, &tree);
        }
    }

    fn at(&self, (kind, key): &ObjectKey) -> Option<Arc<Stored>> {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        self.store.get(*kind, namespace, name).cloned()
    }
}
