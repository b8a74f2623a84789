//! Implements the embedded API server as a state machine: it takes requests and the time, and returns replies.
//!
//! Responsible for: the Kubernetes REST API, from paths to stored objects. Must not: read a clock, use sockets, tasks
//! or locks, or know any controller.
//!
//! The folders from the bottom up. Each uses only the folders that its line names:
//!
//! - `object`: one object, its kind and its errors. Uses none.
//! - `kinds`: the rules of each kind. Uses `object`.
//! - `apply`: patches and field ownership. Uses `kinds` and below.
//! - `print`: response forms, tables and bodies. Uses `object`.
//! - `store`: objects by key, resourceVersions, event logs. Uses `object`.
//! - `http`: request parsing, and the responses that need no objects. Uses all above but `store`.
//! - `server`: every call that needs state. Uses all above.
//! - `faults`: fault injection. Uses `object`, `print` and `http`.
//!
//! A folder's `mod.rs` exports the items that other folders use. Inside a folder, files name each other.
//!
//! Read first: [`ApiServer`], then `http::request` (parsed requests), `server::write` and `server::delete` (state
//! changes), `server::watch` (watch events). docs/embedded-cluster.md lists the differences from a real server; each
//! file states its own.

mod apply;
pub mod faults;
mod http;
mod kinds;
mod object;
mod print;
mod server;
mod store;

pub use http::{
    Attributes, Audited, Auditor, BODY_LIMIT, Label, Prepared, Request, RequestTarget,
    ResourceAttributes, User, Users, prepare,
};
pub use object::{KINDS, Kind, KindInfo, OwnerReference, Stored, Subresource};
pub use print::{Body, Form, IncludeObject, JSON, ListBody, Response, TEXT};
pub use server::{ApiServer, Limits, PodOutput, Pulled, Reply, WatchCursor};
pub use store::{Event, EventType};

#[cfg(test)]
mod tests;
