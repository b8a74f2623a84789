//! A small world for the Job machine: an API server that keeps one Job and its Pods, and the
//! rules by which it refuses a status; what golden cases are read and driven with; and small worlds for
//! the other machines, each with its own judge.
//!
//! Must not: use anything of a machine but its words (effects and outcomes).

pub(crate) mod case;
pub(crate) mod claims_world;
pub(crate) mod cron_judge;
pub(crate) mod cron_people;
pub(crate) mod cron_rest;
pub(crate) mod cron_server;
pub(crate) mod cron_shell;
pub(crate) mod cron_world;
pub(crate) mod ground;
pub(crate) mod judge;
pub(crate) mod new_pod;
pub(crate) mod one_sync;
pub(crate) mod owners;
pub(crate) mod policies;
pub(crate) mod print;
pub(crate) mod rows;
pub(crate) mod rules;
pub(crate) mod server;
pub(crate) mod ttl_world;
pub(crate) mod verdict_law;
pub(crate) mod words;
pub(crate) mod world;
