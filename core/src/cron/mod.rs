//! Schedules: when a CronJob runs, as its text says.
//!
//! The dialect is that of Kubernetes (robfig/cron v3, "standard"): five fields with names, ranges and
//! steps, descriptors such as `@daily`, `@every` with a Go duration, and a time zone in front. Times
//! and messages are upstream's, also where a plain reading of the text would say otherwise: what a
//! clock change skips or repeats is part of the dialect (docs/rules/cronjobs.md, 3). Start reading
//! at [`Schedule`]; [`explain()`] says one in words.
//!
//! Must not: read a clock, or know what is run.

mod error;
mod explain;
mod field;
mod missed;
mod next;
mod parse;
mod zone;

#[cfg(test)]
mod tests;

pub use error::ScheduleError;
pub use explain::explain;
pub use missed::{Due, Missed, TooClose};
pub use parse::{Schedule, names_zone};
pub use zone::{UnknownZone, Zone};
