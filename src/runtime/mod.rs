//! The controller at work: tasks, timers and locks around the pure half.
//!
//! How it flows: the [`informer`] asks, its [`intake`] decodes Pods and Jobs into the [`store`], which marks what
//! changed and queues the Job's key; a worker of the [`scheduler`] takes the key and gives the
//! Job's [`actor`] its turn; the actor's writes go to the [`writer`], whose answers go back into
//! the store as facts and outcomes. The same news of Jobs go to [`ttl`] and
//! [`cron_jobs`]. Where gangs are asked for, [`gang`] knows their objects. Before the store, [`ownership`]
//! hears of each Pod, and [`chores`] does what it asks for. How many turns and writes there are at once,
//! [`breath`], [`write_queue`], [`throttle`] and [`lull`] say. What people are told goes through [`events`] and
//! [`metrics`]. All of them are loops in [`tasks`], which tell when one has ended; [`health`] says how they are.
//!
//! Must not: decide anything about Jobs, or read JSON. It writes some: Events and its smallest patches.

mod actor;
mod breath;
mod chores;
mod controller;
mod controllers;
mod correlate;
mod cron_jobs;
mod events;
mod gang;
mod gang_index;
mod health;
mod history;
mod informer;
mod intake;
mod job_metrics;
mod lull;
mod measured_queue;
mod metrics;
mod ownership;
#[cfg(test)]
pub(crate) mod poison;
mod probes;
mod progress;
mod queue_metrics;
mod quota;
mod scheduler;
mod store;
mod tasks;
mod throttle;
mod ttl;
mod turns;
mod write_queue;
mod writer;

pub use controller::{Controller, Options, StartError};
pub use controllers::Controllers;
pub use gang::GangError;
pub use lull::Lull;
pub use tasks::TaskEnded;
pub use throttle::Rate;

pub use crate::ownership::{BadManagerName, ManagerName, Mode};
