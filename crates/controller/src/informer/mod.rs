//! Lists and watches each kind, and passes every object to the shards.
//!
//! One [`Reflector`](reflector) lists and watches each kind in each namespace. [`Informers`] holds all of them, orders
//! their lists, and detects a restored API server. Objects are decoded once, straight into records ([`News`]), and
//! passed on as they arrive.
//!
//! Must not: keep objects, know how they are used, read a clock or wait.

mod asked;
mod contact;
mod informers;
mod news;
mod outside;
mod page_size;
mod read;
mod read_ranges;
mod reflector;
mod retry;
#[cfg(test)]
mod tests;
mod witness;

pub use contact::FailureRun;
pub(crate) use contact::{Contact, Tried};
pub use informers::{Informers, Watched, is_informers};
pub use news::{Change, Extent, Kind, Kinds, News, Notice, Observed, TooLongObject};
pub use page_size::PageBounds;
pub use read_ranges::ReadRanges;
pub(crate) use reflector::WATCH_SECONDS;
pub use retry::RETRY;
