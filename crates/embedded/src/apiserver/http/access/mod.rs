//! Identifies users and authorizes requests, for the filters in front of the server.
//!
//! Responsible for: users, the attributes of a request by its path alone, and audit log entries. Must not: know objects
//! or resources.
//! Read first: `attributes`, then `users`.

mod attributes;
mod audit;
mod users;

pub use attributes::{Attributes, RequestTarget, ResourceAttributes};
pub use audit::{Audited, Auditor};
pub use users::{User, Users};
