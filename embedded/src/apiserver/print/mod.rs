//! From stored objects to the bytes of answers.
//!
//! Responsible for: the forms of objects, lists, tables and watch events, and answers as values. Must not:
//! choose what is answered, or look at other objects.
//! Read first: `form`, then `response`.

pub(crate) mod encode;
pub(crate) mod form;
pub(crate) mod response;
pub(crate) mod table;
