//! The CronJob machine: one sync of a CronJob and its Jobs.
//!
//! A sync consists of reads, writes and Events; [`CronJobSync`] asks for them one after the other and takes the
//! answers. Nothing is kept between syncs: the next one starts from what is then known. Start reading at
//! [`CronJobSync`].
//!
//! Source: docs/rules/cronjobs.md, 6 to 12.
//!
//! Must not: read a clock, know of JSON, or do anything itself.

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
