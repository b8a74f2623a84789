//! The server's whole state, and the one way in which its objects change.
//!
//! Responsible for: the parts, reads of them, and that whoever has to know of a change does. Must not: answer
//! requests, or judge whether a change is legal.

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
    /// Events kept per kind; watchers further behind get 410.
    pub log_capacity: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // Two events for each Pod of the largest Job; the oldest states stay in memory so long.
        Self {
            log_capacity: 200_000,
        }
    }
}

/// The server's whole state.
///
/// Methods: [`Self::handle`] takes a request; [`Self::pull`] feeds a watcher;
/// [`Self::collect_garbage`] works off what deletions left behind, and
/// [`Self::garbage_pending`] says whether there is any. `now` never goes back. The same seed and
/// the same calls give the same answers. A clone is a backup: it shares what does not change.
#[derive(Clone, Debug)]
pub struct ApiServer {
    pub(super) store: Store,
    pub(super) garbage: Garbage,
    pub(super) rng: Rng,
    pub(super) compute: ComputeUse,
    /// The certificate by which clients know the server, in PEM; empty without TLS.
    pub(super) root_ca: String,
    pub(super) pod_output: Option<PodOutput>,
}

impl ApiServer {
    /// The version of the newest change.
    pub const fn version(&self) -> u64 {
        self.store.version()
    }

    /// Where the log of a kind ends now; see [`Self::events`].
    pub fn log_end(&self, kind: Kind) -> u64 {
        self.store.log(kind).end()
    }

    /// Up to `limit` events of a kind from a position on; `None` if they have fallen out, after
    /// which a reader lists again.
    pub fn events(&self, kind: Kind, position: u64, limit: usize) -> Option<Vec<Event>> {
        self.store.log(kind).read(position, limit)
    }

    /// Forgets all events, as a compaction does: every open watch ends with 410.
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

    /// Stores a state and lets garbage collection know.
    pub(crate) fn store_put(&mut self, kind: Kind, tree: &Tree) -> Arc<Stored> {
        self.store_put_with(kind, tree, &Kept::default())
    }

    /// Stores a state, some of it as it was in the state before.
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

    /// Takes an object away and lets garbage collection know.
    pub(crate) fn store_remove(&mut self, object: &Stored) {
        if let Some(gone) = self.store.remove(object) {
            self.garbage.removed(&gone);
            self.note_removal_in_namespace(&gone);
            self.compute.note(&gone, true);
            self.note_for_quotas(&gone);
        }
    }

    /// Stores a state, or takes the object away if nothing holds it any more.
    pub(super) fn put_or_finish(&mut self, object: &Stored, tree: &Tree) {
        if strategy::is_finished(object.kind, tree) {
            self.store_remove(object);
        } else {
            self.store_put(object.kind, tree);
        }
    }

    /// The object a target names.
    pub(crate) fn find(&self, target: &Target) -> Result<Arc<Stored>> {
        let found = self.get(target.kind, &target.namespace, &target.name);
        found.ok_or_else(|| ApiError::not_found(target.kind, &target.name))
    }

    /// Looks at a namespace again once its last object has gone.
    fn note_removal_in_namespace(&mut self, gone: &Stored) {
        if gone.namespace.is_empty() || !self.is_namespace_empty(&gone.namespace) {
            return;
        }
        let namespace = self.store.get(Kind::Namespace, "", &gone.namespace);
        if namespace.is_some_and(|namespace| namespace.deletion.is_some()) {
            self.garbage.push(Work::namespace(&gone.namespace));
        }
    }

    /// Notes that the quotas of an object's namespace may have to be counted anew.
    fn note_for_quotas(&mut self, object: &Stored) {
        if self.store.count(Kind::ResourceQuota, &object.namespace) > 0 {
            self.garbage.count_quotas(&object.namespace);
        }
    }

    /// Whether a namespace holds nothing.
    pub(super) fn is_namespace_empty(&self, namespace: &str) -> bool {
        Kind::all()
            .filter(|kind| kind.info().namespaced)
            .all(|kind| self.store.count(kind, namespace) == 0)
    }
}
