//! Who asks, for what, and whether they may: for the filters in front of the server.
//!
//! Responsible for: users, what a request is about by its path alone, and entries of an audit log. Must not:
//! know which objects or resources there are.
//! Read first: `attributes`, then `users`.

mod attributes;
mod audit;
mod users;

pub use attributes::{Attributes, RequestTarget, ResourceAttributes};
pub use audit::{Audited, Auditor};
pub use users::{User, Users};
