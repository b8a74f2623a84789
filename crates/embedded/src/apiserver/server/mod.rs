//! Implements the calls that need state: reads and changes of stored objects.
//!
//! Responsible for: every call that needs state. Must not: hold rules of single kinds, parse bodies, or encode.
//! Read first: `state` (the parts, and the only way to change them), `handle` (dispatch of calls), `write` and `delete`
//! (changes by clients), `garbage` (changes by the server itself), `watch` (events for clients).
//!
//! The files from the bottom up. Each uses only those before it: `dependents`, `compute_use`, `pod_output`; `state`;
//! `list`, `watch`, `quota`, `delete`, `owner_ref_invalid_namespace`; `namespaces`, `pods`, `admission`; `write`,
//! `garbage`, `start`; `reply`, `handle`.

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
