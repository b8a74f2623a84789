//! The whole controller as values. Inputs and results of calls go in, calls to the API server come out.
//!
//! From the inside out (ARCHITECTURE.md lists the allowed dependencies):
//!
//! - `machine`: the trait of all state machines that talk to an API server.
//! - `metrics`, `rate_limiter`: the metrics, and the limit of all calls.
//! - `informer`: lists and watches each kind.
//! - `shard`: the caches and the Jobs of one loop: their state machines, writes and Events.
//! - `controller`: a replica: leader election, informers, and the shards or ranges of namespaces.
//!
//! Must not: open a socket, start a task, or wait.

pub mod controller;
pub mod informer;
pub mod machine;
pub mod metrics;
pub mod rate_limiter;
pub mod shard;
