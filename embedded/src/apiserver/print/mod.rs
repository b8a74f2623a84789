//! From stored objects to the bytes of answers.
//!
//! Responsible for: the forms of objects, lists, tables and watch events, and answers as values. Must not:
//! choose what is answered, or look at other objects.
//! Read first: `form`, then `response`.

pub(crate) mod encode;
mod form;
mod response;
mod table;

pub(crate) use encode::{ListMeta, TableHead};
pub use form::{Form, IncludeObject};
pub use response::{Body, JSON, ListBody, Response, TEXT};
