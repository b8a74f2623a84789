//! How much at once: what holds calls and turns back, beside the fair queue ([`crate::queue::FairQueue`]), which has
//! the limit on writes in flight.
//!
//! Must not: wait, read a clock, or know what is held back.

mod quota;
mod rate;
mod turn_rate;

pub use rate::{Limiter, Rate};

pub(crate) use quota::QuotaWaits;
pub(crate) use rate::Allowance;
pub(crate) use turn_rate::TurnRate;
