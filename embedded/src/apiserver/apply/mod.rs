//! What becomes of an object that a client changes in part.
//!
//! Responsible for: the four kinds of patch, and who owns which field of an object. Must not: read requests,
//! judge what comes of a patch, or store it.
//! Read first: `patch`; then `managed`, which server-side apply is made of.

pub(crate) mod managed;
pub(crate) mod patch;
