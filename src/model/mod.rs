//! The nouns everybody shares.
//!
//! Responsible for: Kubernetes' things as small values.
//! Must not: use any other module of ours, read a clock, or do IO.

mod time;

pub use time::Time;
