//! The rules of each kind: defaults, checks, what may change, what the server sets.
//!
//! Responsible for: everything about one object that its kind alone decides. Must not: look at other objects
//! (the server's admission does), or know requests.
//! Read first: `strategy`, which has one function for each step of a write and calls the kind's rules; then
//! `metadata`, which holds for all kinds, and `job`. Pod specs, which several kinds have, are in `template`.

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
