//! Simulates the surroundings of the machines. For the Job machine, an API server holds one Job and its Pods, and
//! validates statuses. Drivers run golden cases. The other machines have small worlds with judges of their own.
//!
//! Must not: use anything of a machine but its types (effects and outcomes).

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
