//! What lakh decides: values in, values out.
//!
//! From the inside out (ARCHITECTURE.md says who may use whom):
//!
//! - `model`: the nouns everybody shares; no behaviour beyond their own arithmetic.
//! - `cron`: schedules: when a CronJob runs.
//! - `cronjob`: the CronJob machine: what one look at a CronJob asks for, as values.
//! - `election`: who of several leads, by a Lease.
//! - `flow`: who is next, how much at once, how long to wait for more: queues and limits.
//! - `decide`: the Job machine: what one Job needs next, as values.
//! - `ownership`: whose a Pod is: which Jobs are ours, who adopts, releases, frees.
//! - `record`: what is kept of Pods that are gone, where a Job asks for it.
//! - `ttl`: when a finished Job is to be deleted.
//!
//! Must not: do IO, read a clock, take a lock, start a task, or know how anything is written as bytes.

pub mod cron;
pub mod cronjob;
pub mod decide;
pub mod election;
pub mod flow;
pub mod model;
pub mod ownership;
pub mod record;
pub mod ttl;
