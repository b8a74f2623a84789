//! Parses requests, and answers those that need no objects.
//!
//! Responsible for: everything about a request that needs no state, so that a shell can do it outside of its lock:
//! routing, options, bodies, access, and discovery documents. Must not: access stored objects.
//! Read first: `request` (raw and prepared requests), then `route`, which calls the rest.

pub(crate) mod access;
pub(crate) mod body;
mod continue_token;
pub(crate) mod discovery;
mod negotiation;
mod options;
mod query;
mod request;
pub(crate) mod resource_version;
mod route;
mod selector;
mod shard_selector;

pub use access::{Attributes, Audited, Auditor, RequestTarget, ResourceAttributes, User, Users};
pub(crate) use continue_token::ContinueToken;
pub(crate) use options::{DeleteOptions, FieldValidation, Propagation, parse_int};
pub(crate) use query::Query;
pub(crate) use request::{ApiCall, Target};
pub use request::{BODY_LIMIT, Label, Prepared, Request};
pub use route::prepare;
pub(crate) use route::too_large;
pub(crate) use selector::Selector;
