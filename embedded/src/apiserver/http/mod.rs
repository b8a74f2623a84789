//! What a request says, and the answers that need no objects.
//!
//! Responsible for: everything about a request that needs no state, so that a shell may do it outside of its
//! lock: routing, options, bodies, who may ask, and the documents that say what is served. Must not: look at
//! stored objects.
//! Read first: `request` (requests as they come and once prepared), then `route`, which leads through the rest.

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
