//! Pod garbage collector: ends and deletes Pods that no other component will end or delete.
//!
//! Responsible for: selecting the Pods that each pass removes and the calls that remove them, as a machine: Pods,
//! nodes, time and responses in, calls out. [`Reason`] lists the four reasons.
//! Must not: read a clock, send a call, remove a finalizer, or know a Pod's owner.
//! Source: docs/rules/ttl-and-garbage.md, 2.
//! Read first: [`PodGc`], then `known` (the Pods and nodes it tracks), then `call` (its API calls).
//!
//! # Differences from upstream
//!
//! - A pass makes its calls one after the other; upstream makes many at once.
//! - If another component has already marked a Pod as disrupted, the Pod's transition time changes along with the
//!   reason.
//! - The number of terminated Pods that may exist has no default; the caller sets it.

mod call;
mod known;
mod machine;

pub use call::Call;
pub use known::{NodeFacts, Phase, PodFacts};
pub use machine::{PodGc, Reason};
