//! Applies partial changes to an object.
//!
//! Responsible for: the four kinds of patch, and field ownership. Must not: parse requests, validate the outcome of a
//! patch, or store it.
//! Read first: `patch`; then `managed`, the base of server-side apply.

pub(crate) mod managed;
pub(crate) mod patch;

pub(crate) use managed::{MANAGED_FIELDS, Writer};
pub(crate) use patch::PatchBody;
