//! Shows Jobs: the commands `status`, `why`, `doctor` and `top`, which work on any cluster and need no controller of lakh.
//!
//! From the inside out:
//!
//! - [`words`]: numbers, times and lists as text. [`failures`]: failed Pods by cause and by index.
//! - `connect`, `finish`, `flags`, `gates`, `log`, `output`: what every command line of lakh has in common.
//! - `ask`, `objects`: reads objects from the API server, and says what could not be seen.
//! - `one_job`: the facts of one Job.
//! - `status`, `why`, `doctor`, `top`: the commands. The binary `kubectl-lakh` runs them, and so does `lakh`.
//!
//! Without the feature `commands` there is only what the controller's binary needs.

#[cfg(feature = "commands")]
mod ask;
mod connect;
#[cfg(feature = "commands")]
pub mod doctor;
pub mod failures;
mod finish;
mod flags;
#[cfg(feature = "commands")]
mod formats;
mod gates;
#[cfg(all(test, feature = "commands"))]
mod golden;
pub mod log;
#[cfg(feature = "commands")]
mod objects;
#[cfg(feature = "commands")]
mod one_job;
mod output;
#[cfg(feature = "commands")]
pub mod status;
#[cfg(feature = "commands")]
pub mod top;
#[cfg(feature = "commands")]
pub mod why;
pub mod words;

pub use connect::{configure, server_problem};
pub use finish::Requests;
pub use flags::{ModeName, duration, mode};
pub use gates::Gates;
pub use output::{CLOSED_PIPE, OutputError, complain, print, put, say};

/// The version, with the commit of a release build.
pub const VERSION: &str = env!("LAKH_VERSION");

/// Exit code: success.
pub const OK: u8 = 0;
/// Exit code: a Job failed, the time ran out, a part of the controller broke, or the doctor found a problem.
pub const FAILED: u8 = 1;
/// Exit code: the arguments or files are invalid.
pub const UNUSABLE: u8 = 2;
/// Exit code: `--timeout` ran out before the Job had ended. As in timeout(1).
pub const TIMED_OUT: u8 = 124;

/// An error of arguments or files.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;
