//! The embedded API server as a machine: requests and time in, replies out.
//!
//! Responsible for: the Kubernetes REST API as a value, from paths to stored objects. Must not:
//! read a clock, know sockets or tasks, lock anything, or know any controller.
//! Read first: [`ApiServer`], then `request` (what is asked), `write` and `delete` (how state
//! changes), `watch` (how changes are seen). docs/embedded-cluster.md lists where this server
//! differs from a real one; each file says so for its own part.

mod accept;
mod access;
mod admission;
mod attributes;
mod audit;
mod continue_token;
mod decode;
mod delete;
mod discovery;
mod duplicates;
mod error;
pub mod faults;
mod fields;
mod gang;
mod garbage;
mod job;
mod list;
mod log;
mod managed;
mod meta;
mod metadata_rules;
mod names;
mod namespace;
mod object;
mod objects;
mod openapi;
mod options;
mod patch;
mod pod;
mod printer;
mod protobuf;
mod quantity;
mod query;
mod quota;
mod reply;
mod request;
mod resources;
mod rng;
mod saved;
mod schemas;
mod selector;
mod stale;
mod store;
mod strategy;
mod stray_owner;
mod table;
mod template;
mod types;
mod watch;
mod write;

pub use access::{User, Users};
pub use attributes::{Asked, Attributes, Place};
pub use audit::{Audited, Auditor};
pub use log::{Event, EventType};
pub use object::{Owner, Stored};
pub use reply::{Body, JSON, ListBody, Reply, Response, TEXT};
pub use request::{BODY_LIMIT, Form, IncludeObject, Label, Prepared, Request, prepare};
pub use resources::{KINDS, Kind, KindInfo, Subresource};
pub use watch::{Pulled, WatchCursor};

use std::sync::Arc;

use error::{ApiError, Result};
use garbage::Garbage;
use request::Call;
use rng::Rng;
use store::Store;

use crate::model::Time;

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
/// the same calls give the same answers.
#[derive(Debug)]
pub struct ApiServer {
    store: Store,
    garbage: Garbage,
    rng: Rng,
}

impl ApiServer {
    /// A server with the four namespaces every cluster has.
    pub fn new(seed: u64, limits: Limits, now: Time) -> Self {
        let mut server = Self {
            store: Store::new(limits.log_capacity),
            garbage: Garbage::default(),
            rng: Rng::new(seed),
        };
        for name in namespace::INITIAL {
            server.create_namespace(name, now);
        }
        server
    }

    /// Answers one request.
    pub fn handle(&mut self, request: Request<'_>, now: Time) -> Reply {
        self.handle_prepared(prepare(request), now)
    }

    /// Answers a request that was prepared elsewhere, perhaps outside of a lock.
    pub fn handle_prepared(&mut self, prepared: Prepared, now: Time) -> Reply {
        match prepared.call.and_then(|call| self.dispatch(call, now)) {
            Ok(reply) => reply,
            Err(error) => Reply::Complete(error.into_response()),
        }
    }

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

    fn dispatch(&mut self, call: Call, now: Time) -> Result<Reply> {
        let response = match call {
            Call::Fixed {
                path,
                query,
                accepted,
            } => discovery::answer(&path, &query, accepted)?,
            Call::Review(kind, body) => discovery::review(kind, body),
            Call::Get(target) => {
                let object = self
                    .store
                    .get(target.kind, &target.namespace, &target.name)
                    .ok_or_else(|| ApiError::not_found(target.kind, &target.name))?;
                Response::object(200, Arc::clone(object), target.form, now)
            }
            Call::Log(target) => self.pod_log(&target)?,
            Call::List(target) => self.list(&target, now)?,
            Call::Watch(target) => return Ok(Reply::Watch(Box::new(self.watch(&target)?))),
            Call::Create(target, body) => self.create(target, *body, now)?,
            Call::Update(target, body) => self.update(target, *body, now)?,
            Call::Patch(target, patch) => self.patch(target, &patch, now)?,
            Call::Delete(target, options) => self.delete(&target, &options, now)?,
            Call::DeleteCollection(target, options) => {
                self.delete_collection(&target, &options, now)?
            }
            Call::Bind(target, body) => self.bind(&target, &body, now)?,
            Call::Evict(target, body, options) => self.evict(&target, &body, &options, now)?,
        };
        Ok(Reply::Complete(response))
    }
}

#[cfg(test)]
mod tests;
