//! Parses cron schedules and computes their runs.
//!
//! The dialect is that of Kubernetes (robfig/cron v3, "standard"): five fields with names, ranges and steps,
//! descriptors such as `@daily`, `@every` with a Go duration, and a time zone prefix. Times and messages are
//! upstream's, even where a plain reading of the text differs. Runs that a clock change skips or repeats are part of
//! the dialect (docs/rules/cronjobs.md, 3). Start reading at [`Schedule`]; [`explain()`] describes one in words.
//!
//! Must not: read a clock, or know the purpose of a run.

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
