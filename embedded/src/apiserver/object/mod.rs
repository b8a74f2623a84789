//! What one object is.
//!
//! Responsible for: the table of kinds, objects as trees and as stored bytes, the forms of names and
//! quantities, and the errors that say what is wrong with one. Must not: know the rules of single kinds, or
//! that there are other objects. Everything else stands on this folder.
//! Read first: `kind` (which kinds there are), `tree` (objects in work), `stored` (objects at rest).

pub(crate) mod api_type;
pub(crate) mod error;
pub(crate) mod field;
pub(crate) mod field_errors;
pub(crate) mod kind;
pub(crate) mod names;
pub(crate) mod quantity;
pub(crate) mod stored;
pub(crate) mod tree;
pub(crate) mod view;
