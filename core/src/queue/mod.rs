//! Orders of work, as values: which Job is next, and which Job's write.
//!
//! Must not: know what the work is, sleep, or read a clock.

mod fair;
mod work;

pub use fair::{Answer, FairQueue, Rank};
pub use work::WorkQueue;
