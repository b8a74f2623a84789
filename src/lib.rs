//! lakh: a Kubernetes Job controller for Jobs of a hundred thousand Pods.
//!
//! The parts are crates in `crates/` (ARCHITECTURE.md is the map); this crate makes a program of them:
//!
//! - `runtime`: runs the controller: loops, threads and sockets around its machines.
//! - `cli`: the command line.
//! - `call_failures`: tests alone, with calls to the API server that fail.
//!
//! With the feature `embedded`, which is on by default, the command line has `lakh local`; with `commands`, it has those of
//! `lakh-inspect`. The other crates are modules here, for tests and benchmarks.

#[cfg(all(test, feature = "embedded"))]
mod call_failures;
pub mod cli;
pub mod runtime;

pub use lakh_client as client;
pub use lakh_clock as clock;
pub use lakh_controller::{controller, informer, machine, metrics, rate_limiter, shard};
pub use lakh_core::{cronjob, decide, election, flow, ownership, ttl};
#[cfg(feature = "embedded")]
pub use lakh_embedded as embedded;
pub use lakh_model::{self as model, cron};
pub use lakh_record as record;
pub use lakh_wire as wire;
