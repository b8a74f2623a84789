//! What a request says, and the answers that need no objects.
//!
//! Responsible for: everything about a request that needs no state, so that a shell may do it outside of its
//! lock: routing, options, bodies, who may ask, and the documents that say what is served. Must not: look at
//! stored objects.
//! Read first: `request` (requests as they come and once prepared), then `route`, which leads through the rest.

pub(crate) mod access;
pub(crate) mod body;
pub(crate) mod continue_token;
pub(crate) mod discovery;
pub(crate) mod negotiation;
pub(crate) mod options;
pub(crate) mod query;
pub(crate) mod request;
pub(crate) mod resource_version;
pub(crate) mod route;
pub(crate) mod selector;
