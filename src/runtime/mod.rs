//! The controller at work: loops, threads, timers and sockets around the machines.
//!
//! [`Controller`] puts it together. One loop, the [`shell`], runs a machine: informers and shard in one, or with
//! several shards the informers here and each shard on a thread of its own ([`threads`]). All loops are in
//! [`tasks`], which tell when one has ended; [`health`] says how they are, and [`probes`] tell who asks. What people ask
//! about Jobs ([`debug`]) goes over the [`desk`] to the loops.
//!
//! Must not: decide anything, or read what calls carry.

mod certificate;
mod controller;
mod debug;
mod desk;
mod discover_gangs;
mod health;
mod heartbeat;
mod mandate;
#[cfg(test)]
pub(crate) mod poison;
mod probes;
mod records;
mod serving;
mod shell;
mod tasks;
mod threads;
mod ui;

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
