//! Runs one sync of a CronJob and its Jobs, as a state machine.
//!
//! A sync consists of reads, writes and Events. [`CronJobSync`] requests them one at a time and takes the results. No
//! state is kept between syncs: the next one starts from the cache. Start reading at [`CronJobSync`].
//!
//! Source: docs/rules/cronjobs.md, 6 to 12.
//!
//! Must not: read a clock, know of JSON, or perform any request itself.

mod alphabet;
mod history;
mod outlook;
mod runs;
mod sync;
#[cfg(test)]
mod tests;

pub use alphabet::{CallAnswer, CronJobEffect, FoundJob, NewJob, Next, NotCreated};
pub use outlook::Outlook;
pub use sync::{CronJobSync, look_after_change};
