//! Implements lakh's decisions as pure functions and state machines: values in, values out.
//!
//! From the inside out (ARCHITECTURE.md lists the allowed dependencies):
//!
//! - `cronjob`: the CronJob state machine: returns the actions for one sync of a CronJob as values.
//! - `election`: leader election by a Lease.
//! - `flow`: queues and limits: order of work, concurrency and batching delays.
//! - `decide`: the Job state machine: returns the next actions for one Job as values.
//! - `ownership`: decides which Jobs lakh manages, and which Pods to adopt, release or free of the finalizer.
//! - `ttl`: decides when to delete a finished Job.
//!
//! Must not: do IO, read a clock, take a lock, start a task, or know how anything is written as bytes.

pub mod cronjob;
pub mod decide;
pub mod election;
pub mod flow;
pub mod ownership;
pub mod ttl;

use lakh_model::{self as model, cron};
