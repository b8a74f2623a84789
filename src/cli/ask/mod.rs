//! How commands look at a cluster: an [`Asker`] that asks, and what it shows of what was seen and what was not.
//!
//! Must not: know what is asked for.

mod asker;
mod clock;
mod sight;

pub(super) use asker::{Asker, Pages};
pub(super) use clock::{ClockFacts, clock};
pub(super) use sight::{Sight, Unseen};
