//! lakh: a Kubernetes Job controller for Jobs of a hundred thousand Pods.
//!
//! Code map, from the inside out (ARCHITECTURE.md says who may use whom):
//!
//! - `model`: the nouns everybody shares; no behaviour beyond their own arithmetic.
//! - `cron`: schedules: when a CronJob runs.
//! - `cronjob`: the CronJob machine: what one look at a CronJob asks for, as values.
//! - `decide`: the Job machine: what one Job needs next, as values.
//! - `ownership`: whose a Pod is: which Jobs are ours, who adopts, releases, frees.
//! - `queue`: whose turn it is: to be worked on, and to write.
//! - `ttl`: when a finished Job is to be deleted.
//! - `wire`: Kubernetes' JSON and protobuf: bytes to records, values to bodies and paths.
//! - `apiserver`: the embedded API server as a machine: requests and time in, replies out.
//! - `kubelet`: the hollow kubelet as a machine: Pods and time in, API writes out.
//! - `podgc`: the collector of Pods as a machine: Pods, nodes and time in, calls out.
//! - `manifest`: YAML and JSON files in, objects with their place in the file out.
//! - `clock`: the time of day as the shells read it and wait by it.
//! - `cluster`: the way to an API server: kubeconfig and TLS by kube, HTTP by hyper.
//! - `runtime`: the controller at work: tasks, timers and locks around the pure half.
//! - `serve`: HTTP in front of the embedded API server, on loopback.
//! - `embedded`: the embedded cluster in one piece: API server, hollow nodes, kubeconfig.
//! - `cli`: the command line.
//!
//! Without features only the first eight are there: they need neither tasks nor sockets.

pub mod cron;
pub mod cronjob;
pub mod decide;
pub mod model;
pub mod ownership;
pub mod queue;
pub mod ttl;
pub mod wire;

#[cfg(feature = "embedded")]
pub mod apiserver;
#[cfg(feature = "embedded")]
pub mod kubelet;
#[cfg(feature = "embedded")]
pub mod manifest;
#[cfg(feature = "embedded")]
pub mod podgc;

#[cfg(feature = "runtime")]
pub mod cli;
#[cfg(feature = "runtime")]
pub mod clock;
#[cfg(feature = "runtime")]
pub mod cluster;
#[cfg(feature = "runtime")]
pub mod embedded;
#[cfg(feature = "runtime")]
pub mod runtime;
#[cfg(feature = "runtime")]
pub mod serve;
