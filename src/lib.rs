//! lakh: a Kubernetes Job controller for Jobs of a hundred thousand Pods.
//!
//! What is decided is in `lakh-core`; here is what carries it out. From the inside out (ARCHITECTURE.md
//! says who may use whom):
//!
//! - `wire`: Kubernetes' JSON and protobuf: bytes to records, values to bodies and paths.
//! - `cluster`: the way to an API server: kubeconfig and TLS by kube, HTTP by hyper.
//! - `machine`: the shape of everything that talks to an API server.
//! - `informer`, `shard`, `controller`: the whole controller as values; with `rate_limiter` and
//!   `metrics`.
//! - `failures`: what Pods failed of, for people.
//! - `runtime`: the controller at work: loops, threads and sockets around those values.
//! - `cli`: the command line.
//! - `call_failures`: tests alone, with calls to the API server that fail.
//!
//! With the feature `embedded`, which is on by default, the command line has `lakh local`.

#[cfg(all(test, feature = "embedded"))]
mod call_failures;
pub mod cli;
pub mod cluster;
pub mod controller;
mod failures;
pub mod informer;
pub mod machine;
pub mod metrics;
pub mod rate_limiter;
pub mod runtime;
pub mod shard;
pub mod wire;

pub use lakh_clock as clock;
pub use lakh_core::{cron, cronjob, decide, election, flow, model, ownership, record, ttl};
#[cfg(feature = "embedded")]
pub use lakh_embedded as embedded;
