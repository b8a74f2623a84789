//! Runs a Kubernetes cluster inside one process: API server, hollow nodes, Pod garbage collector and manifest files.
//!
//! It serves first runs, tests, the simulation and load tests; production builds of the controller leave it out. From
//! the inside out:
//!
//! - `rng`: seeded random numbers.
//! - `request`: API requests as values.
//! - `json`: JSON decoding.
//! - `apiserver`: the API server as a machine: requests and time in, replies out.
//! - `kubelet`: the hollow kubelet as a machine: Pods and time in, API writes out.
//! - `podgc`: the Pod garbage collector as a machine: Pods, nodes and time in, calls out.
//! - `manifest`: YAML and JSON files in, objects with their position in the file out.
//! - `serve`: HTTP for the API server, on loopback.
//! - `cluster`: starts all of the above and writes a kubeconfig.
//!
//! Without the feature `serve`, only the first seven exist: they need neither tasks nor sockets.
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
use lakh_model::{self as model, cron};

#[cfg(feature = "serve")]
pub use cluster::{
    Certificate, ClusterOptions, EmbeddedCluster, FaultKind, FileError, Loopback, Rule, RuleError,
    ServeOptions, Users,
};
pub use request::ApiRequest;
