//! Represents one API object: its kind, its fields and its stored bytes.
//!
//! Responsible for: the table of kinds, objects as trees and as stored bytes, the syntax of names and quantities, and
//! API errors. Must not: know the rules of single kinds, or access other objects. All other folders use this one.
//! Read first: `kind` (the table of kinds), `tree` (objects that a request works on), `stored` (stored objects).

mod error;
pub(crate) mod events_v1;
mod field;
mod field_errors;
mod kind;
pub(crate) mod names;
mod place;
mod quantity;
pub(crate) mod schemas;
mod sections;
pub(crate) mod size;
pub(crate) mod stored;
pub(crate) mod tree;
pub(crate) mod type_def;
mod view;

pub(crate) use error::{ApiError, Result, STALE, object_details};
pub(crate) use field::{CheckedField, check, check_change};
pub(crate) use field_errors::FieldErrors;
pub(crate) use kind::{EVENTS_V1, GROUPS, VERBS, qualify, served_rows};
pub use kind::{KINDS, Kind, KindInfo, Subresource};
pub(crate) use place::Place;
pub(crate) use quantity::{NOT_A_QUANTITY, Quantity};
pub(crate) use sections::sections;
pub(crate) use stored::Kept;
pub use stored::{OwnerReference, Stored};
pub(crate) use tree::Tree;
pub(crate) use type_def::{ListBy, Scalar, TypeDef};
pub(crate) use view::JsonView;
