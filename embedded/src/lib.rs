//! The embedded cluster: an API server, hollow nodes, a collector of Pods, and files of manifests.
//!
//! For the first run, the tests, the simulation and the load tests; a controller for production is built
//! without it. From the inside out:
//!
//! - `rng`: random numbers that follow from a seed.
//! - `request`: requests to the API server as values.
//! - `json`: bytes as JSON.
//! - `apiserver`: the API server as a machine: requests and time in, replies out.
//! - `kubelet`: the hollow kubelet as a machine: Pods and time in, API writes out.
//! - `podgc`: the collector of Pods as a machine: Pods, nodes and time in, calls out.
//! - `manifest`: YAML and JSON files in, objects with their place in the file out.
//! - `serve`: HTTP in front of the API server, on loopback.
//! - `cluster`: all of it in one piece, with a kubeconfig.
//!
//! Without the feature `serve` only the first seven are there: they need neither tasks nor sockets.
//!
//! Must not: know the controller.

pub mod apiserver;
#[cfg(feature = "serve")]
mod cluster;
mod json;
pub mod kubelet;
pub mod manifest;
pub mod podgc;
mod request;
mod rng;
#[cfg(feature = "serve")]
pub mod serve;

#[cfg(feature = "serve")]
use lakh_clock as clock;
use lakh_core::{cron, model};

#[cfg(feature = "serve")]
pub use cluster::{
    Certificate, ClusterOptions, EmbeddedCluster, FaultKind, FileError, Loopback, Rule, RuleError,
    ServeOptions, Users,
};
pub use request::ApiRequest;
