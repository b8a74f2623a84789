//! The CronJob machine: one look at a CronJob and its Jobs, from what is known to what is to be done.
//!
//! A look is made of questions to the server, writes, and news for people; [`CronJobSync`] asks for
//! them one after the other and hears the answers. Between looks nothing is kept: the next one starts
//! from what is then known. Start reading at [`CronJobSync`].
//!
//! Source: docs/rules/cronjobs.md, 6 to 12.
//!
//! Must not: read a clock, know of JSON, or do anything itself.

mod alphabet;
mod history;
mod runs;
mod sync;
#[cfg(test)]
mod tests;

pub use alphabet::{Answer, Effect, NewJob, Next, NotCreated};
pub use sync::{CronJobSync, delay_after_change};
