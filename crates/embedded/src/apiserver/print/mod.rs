//! Encodes stored objects as the bytes of responses.
//!
//! Responsible for: the forms of objects, lists, tables and watch events, and the types of responses. Must not: decide
//! the content of a response, or access other objects.
//! Read first: `form`, then `response`.

pub(crate) mod encode;
mod form;
mod response;
mod table;

pub(crate) use encode::{ListMeta, TableHead};
pub use form::{Form, IncludeObject};
pub use response::{Body, JSON, ListBody, Response, TEXT};
