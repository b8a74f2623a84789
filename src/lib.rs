//! lakh: a Kubernetes Job controller for Jobs of a hundred thousand Pods.
//!
//! `lakh-core` decides; this crate carries the decisions out. From the inside out (ARCHITECTURE.md lists the allowed
//! dependencies):
//!
//! - `wire`: Kubernetes' JSON and protobuf: bytes to records, values to bodies and paths.
//! - `cluster`: connections to an API server: kubeconfig and TLS by kube, HTTP by hyper.
//! - `machine`: the trait of all state machines that talk to an API server.
//! - `informer`, `shard`, `controller`: the whole controller as values; with `rate_limiter` and `metrics`.
//! - `failures`: failed Pods grouped by cause and by index, for display.
//! - `runtime`: runs the controller: loops, threads and sockets around those values.
//! - `cli`: the command line.
//! - `call_failures`: tests alone, with calls to the API server that fail.
//!
//! With the feature `embedded`, which is on by default, the command line has `lakh local`.

#[cfg(all(test, feature = "embedded"))]
mod call_failures;
pub mod cli;
pub mod runtime;

pub use lakh_client as cluster;
pub use lakh_clock as clock;
pub use lakh_controller::{controller, informer, machine, metrics, rate_limiter, shard};
pub use lakh_core::{cronjob, decide, election, flow, ownership, ttl};
#[cfg(feature = "embedded")]
pub use lakh_embedded as embedded;
pub use lakh_model::{self as model, cron};
pub use lakh_record as record;
pub use lakh_wire as wire;
