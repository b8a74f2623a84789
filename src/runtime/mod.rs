//! Runs the controller: loops, threads, timers and sockets around the machines.
//!
//! [`Controller`] assembles it. One loop, the [`shell`], runs a machine: informers and shard in one, or with several
//! shards the informers here and each shard on a thread of its own ([`threads`]). [`tasks`] holds all loops and reports
//! the end of one. [`health`] checks them, and [`probes`] serves the result. Questions about Jobs ([`debug`]) reach the
//! loops through the [`desk`].
//!
//! Must not: decide anything, or read the content of calls.

mod certificate;
mod controller;
mod debug;
mod desk;
mod discover_gangs;
mod health;
mod heartbeat;
#[cfg(test)]
pub(crate) mod poison;
mod probes;
mod records;
mod serving;
mod shell;
mod tasks;
mod threads;
mod ui;
mod write_deadline;

pub use certificate::{CertificateError, CertificateFiles};
pub use controller::{Controller, Options, StartError};
pub use discover_gangs::GangError;
pub use tasks::TaskEnded;
pub use ui::{UiError, UiOptions};

pub use crate::{
    controller::LeaderElection,
    election::LeaseTimings,
    ownership::{BadManagerName, ManagerName, Mode},
    shard::{Controllers, Rate},
};
