//! The Pod garbage collector: ends and deletes Pods that nobody else will ever end or delete.
//!
//! Responsible for: which Pods each pass removes, and the calls for that, as a machine: Pods, nodes, time and answers
//! in, calls out. [`Reason`] has the four reasons.
//! Must not: read a clock, know how a call is sent, remove a finalizer, or know who made a Pod.
//! Source: docs/rules/ttl-and-garbage.md, 2.
//! Read first: [`PodGc`], then `known` (what is kept of Pods and nodes), then `call` (what is asked).
//!
//! # Different from the real one
//!
//! - The calls of a pass are made one after the other; a real one makes many at once.
//! - A Pod that is marked as disrupted by somebody else already gets a new transition time with the
//!   new reason.
//! - The number of finished Pods that may stay has no default; whoever starts the collector sets it.

mod call;
mod known;
mod machine;

pub use call::Call;
pub use known::{NodeFacts, Phase, PodFacts};
pub use machine::{PodGc, Reason};
