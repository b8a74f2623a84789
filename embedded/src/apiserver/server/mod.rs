//! The server itself: objects as they change, and the answers about them.
//!
//! Responsible for: every call that needs state. Must not: hold rules of single kinds, read bodies, or encode.
//! Read first: `state` (what there is, and the one way to change it), `handle` (which call goes where), `write`
//! and `delete` (how a client changes it), `garbage` (what the server then does by itself), `watch` (how
//! changes are seen).
//!
//! From the bottom up, each file using only those before it: `dependents`; `state`; `list`, `watch`, `quota`,
//! `delete`, `owner_ref_invalid_namespace`; `namespaces`, `pods`, `admission`; `write`, `garbage`, `start`;
//! `reply`, `handle`, `snapshot_read`.

pub(crate) mod admission;
pub(crate) mod delete;
pub(crate) mod dependents;
pub(crate) mod garbage;
pub(crate) mod handle;
pub(crate) mod list;
pub(crate) mod namespaces;
pub(crate) mod owner_ref_invalid_namespace;
pub(crate) mod pods;
pub(crate) mod quota;
pub(crate) mod reply;
pub(crate) mod snapshot_read;
pub(crate) mod start;
pub(crate) mod state;
pub(crate) mod watch;
pub(crate) mod write;
