//! The server itself: objects as they change, and the answers about them.
//!
//! Responsible for: every call that needs state. Must not: hold rules of single kinds, read bodies, or encode.
//! Read first: `state` (what there is, and the one way to change it), `handle` (which call goes where), `write`
//! and `delete` (how a client changes it), `garbage` (what the server then does by itself), `watch` (how
//! changes are seen).
//!
//! From the bottom up, each file using only those before it: `dependents`, `compute_use`, `pod_output`; `state`; `list`, `watch`, `quota`,
//! `delete`, `owner_ref_invalid_namespace`; `namespaces`, `pods`, `admission`; `write`, `garbage`, `start`;
//! `reply`, `handle`.

mod admission;
mod compute_use;
mod delete;
mod dependents;
mod garbage;
mod handle;
mod list;
mod namespaces;
mod owner_ref_invalid_namespace;
mod pod_output;
mod pods;
mod quota;
mod reply;
mod start;
mod state;
mod watch;
mod write;

pub use pod_output::PodOutput;
pub use reply::Reply;
pub use state::{ApiServer, Limits};
pub use watch::{Pulled, WatchCursor};
