//! The embedded API server as a machine: requests and time in, replies out.
//!
//! Responsible for: the Kubernetes REST API as a value, from paths to stored objects. Must not:
//! read a clock, know sockets or tasks, lock anything, or know any controller.
//!
//! From the bottom up, each folder using only those that are named:
//!
//! - `object`: what one object is. Uses none.
//! - `kinds`: the rules of each kind. Uses `object`.
//! - `apply`: patches, and who owns which field. Uses `kinds` and below.
//! - `print`: forms, tables, answers. Uses `object`.
//! - `store`: objects by key, versions, logs of changes. Uses `object`.
//! - `http`: what a request says, and the answers that need no objects. Uses all above but `store`.
//! - `server`: every call that needs state. Uses all above.
//! - `faults`: how the server mistreats calls on demand. Uses `object`, `print` and `http`.
//!
//! A folder's `mod.rs` names what the others use of it. Inside a folder, files name each other.
//!
//! Read first: [`ApiServer`], then `http::request` (what is asked), `server::write` and `server::delete` (how
//! state changes), `server::watch` (how changes are seen). docs/embedded-cluster.md lists where this server
//! differs from a real one; each file says so for its own part.

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
