//! Holds the server's whole state, and provides the only way to change its objects.
//!
//! Responsible for: the parts, reads of them, and updating all parts after a change. Must not: answer requests, or
//! validate changes.

use std::sync::Arc;

use super::{
    compute_use::ComputeUse,
    dependents::{Garbage, Work},
    pod_output::PodOutput,
};
use crate::{
    apiserver::{
        http::Target,
        kinds::strategy,
        object::{ApiError, Kept, Kind, Result, Stored, Tree},
        store::{Event, Store},
    },
    rng::Rng,
};

/// Sizes of the server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events kept per kind; watches further behind get 410.
    pub log_capacity: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // Two events for each Pod of the largest Job. Old states stay in memory as long as their events.
        Self {
            log_capacity: 200_000,
        }
    }
}

/// The server's whole state.
///
/// Methods: [`Self::handle`] takes a request; [`Self::pull`] returns the events of a watch. [`Self::collect_garbage`]
/// does the work that deletions leave behind, and [`Self::garbage_pending`] returns true if there is any. `now` must
/// never decrease. The same seed and the same calls give the same replies. A clone is a backup that shares unchanged
/// parts.
#[derive(Clone, Debug)]
pub struct ApiServer {
    pub(super) store: Store,
    pub(super) garbage: Garbage,
    pub(super) rng: Rng,
    pub(super) compute: ComputeUse,
    /// The CA certificate in PEM by which clients verify the server; empty without TLS.
    pub(super) root_ca: String,
    pub(super) pod_output: Option<PodOutput>,
}

impl ApiServer {
    /// The version of the latest change.
    pub const fn version(&self) -> u64 {
        self.store.version()
    }

    /// The end of a kind's event log; see [`Self::events`].
    pub fn log_end(&self, kind: Kind) -> u64 {
        self.store.log(kind).end()
    }

    /// Up to `limit` events of a kind from a position on; `None` if they were dropped, after which the reader must
    /// relist.
    pub fn events(&self, kind: Kind, position: u64, limit: usize) -> Option<Vec<Event>> {
        self.store.log(kind).read(position, limit)
    }

    /// Drops all events, as a compaction does: every open watch ends with 410.
    pub fn forget_events(&mut self) {
        self.store.forget_events();
    }

    /// Finds a stored object; `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.store.get(kind, namespace, name).cloned()
    }

    /// All objects of a kind, in key order.
    pub fn objects(&self, kind: Kind) -> impl Iterator<Item = &Arc<Stored>> {
        self.store.range(kind, "", None)
    }

    /// Stores a state and updates garbage collection and quotas.
    pub(crate) fn store_put(&mut self, kind: Kind, tree: &Tree) -> Arc<Stored> {
        self.store_put_with(kind, tree, &Kept::default())
    }

    /// Stores a state with the members in `kept` unchanged.
    pub(super) fn store_put_with(
        &mut self,
        kind: Kind,
        tree: &Tree,
        kept: &Kept<'_>,
    ) -> Arc<Stored> {
        let object = self.store.put(kind, tree, kept);
        self.garbage.stored(&object);
        self.compute.note(&object, false);
        self.note_for_quotas(&object);
        object
    }

    /// Removes an object and updates garbage collection and quotas.
    pub(crate) fn store_remove(&mut self, object: &Stored) {
        if let Some(gone) = self.store.remove(object) {
            self.garbage.removed(&gone);
            self.note_removal_in_namespace(&gone);
            self.compute.note(&gone, true);
            self.note_for_quotas(&gone);
        }
    }

    /// Stores a state, or removes the object if nothing keeps it any longer.
    pub(super) fn put_or_finish(&mut self, object: &Stored, tree: &Tree) {
        if strategy::is_finished(object.kind, tree) {
            self.store_remove(object);
        } else {
            self.store_put(object.kind, tree);
        }
    }

    /// The object that a target names.
    pub(crate) fn find(&self, target: &Target) -> Result<Arc<Stored>> {
        let found = self.get(target.kind, &target.namespace, &target.name);
        found.ok_or_else(|| ApiError::not_found(target.kind, &target.name))
    }

    /// Queues work for a terminating namespace once its last object is removed.
    fn note_removal_in_namespace(&mut self, gone: &Stored) {
        if gone.namespace.is_empty() || !self.is_namespace_empty(&gone.namespace) {
            return;
        }
        let namespace = self.store.get(Kind::Namespace, "", &gone.namespace);
        if namespace.is_some_and(|namespace| namespace.deletion.is_some()) {
            self.garbage.push(Work::namespace(&gone.namespace));
        }
    }

    /// Queues a count of the quotas in an object's namespace.
    fn note_for_quotas(&mut self, object: &Stored) {
        if self.store.count(Kind::ResourceQuota, &object.namespace) > 0 {
            self.garbage.count_quotas(&object.namespace);
        }
    }

    /// Returns true if a namespace has no objects.
    pub(super) fn is_namespace_empty(&self, namespace: &str) -> bool {
        Kind::all()
            .filter(|kind| kind.info().namespaced)
            .all(|kind| self.store.count(kind, namespace) == 0)
    }
}
