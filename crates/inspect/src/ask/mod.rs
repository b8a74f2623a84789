//! Reads from a cluster for commands: an [`Asker`] sends requests, and a [`Sight`] holds the results and the errors.
//!
//! Must not: know the purpose of a request.

mod asker;
mod clock;
mod sight;

pub(super) use asker::{Asker, Pages};
pub(super) use clock::{ClockFacts, clock};
pub(super) use sight::{Sight, Unseen};
