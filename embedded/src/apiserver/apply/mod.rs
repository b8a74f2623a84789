//! Partial changes of an object.
//!
//! Responsible for: the four kinds of patch, and who owns which field of an object. Must not: read requests,
//! judge the outcome of a patch, or store it.
//! Read first: `patch`; then `managed`, which server-side apply builds on.

pub(crate) mod managed;
pub(crate) mod patch;

pub(crate) use managed::{MANAGED_FIELDS, Writer};
pub(crate) use patch::PatchBody;
