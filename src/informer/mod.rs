//! Informers: what the cluster has of each kind, listed and watched, told to the shards.
//!
//! One [`Reflector`](reflector) for each kind and namespace lists and watches; all together are [`Informers`], which
//! know in which order kinds are listed and whether the server still tells the same history. Objects are
//! decoded once, straight into records ([`News`]), and told as they come.
//!
//! Must not: keep objects, know what is done with them, read a clock or wait.

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

pub(crate) use contact::{Contact, FailureRun, Tried};
pub use informers::{Informers, Watched, is_informers};
pub use news::{Change, Extent, Kind, Kinds, News, Notice, Observed, TooLongObject};
pub use page_size::PageBounds;
pub use read_ranges::ReadRanges;
pub(crate) use reflector::WATCH_SECONDS;
pub(crate) use retry::RETRY;
