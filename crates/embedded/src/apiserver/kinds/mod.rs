//! Implements the rules of each kind: defaults, validation, immutable fields, and fields that the server sets.
//!
//! Responsible for: everything about one object that depends on its kind alone. Must not: access other objects (the
//! server's admission does), or know requests.
//! Read first: `strategy`, which has one function for each step of a write and calls the kind's rules; then `metadata`,
//! which holds for all kinds, and `job`. `template` holds pod specs, which several kinds have.

pub(crate) mod config;
mod defaults;
pub(crate) mod gang;
pub(crate) mod job;
pub(crate) mod metadata;
pub(crate) mod namespace;
pub(crate) mod pod;
pub(crate) mod quota;
pub(crate) mod strategy;
pub(crate) mod template;

pub(crate) use strategy::Part;
