//! lakh: a Kubernetes Job controller for Jobs of a hundred thousand Pods.
//!
//! Code map, from the inside out (ARCHITECTURE.md says who may use whom):
//!
//! - [`model`]: the nouns everybody shares; no behaviour beyond their own arithmetic.
//! - [`decide`]: the Job machine: what one Job needs next, as values.
//! - [`queue`]: whose turn it is: to be worked on, and to write.
//! - [`wire`]: Kubernetes' JSON: bytes to records, values to bodies and paths.
#![cfg_attr(
    feature = "embedded",
    doc = "- [`apiserver`]: the embedded API server as a machine: requests and time in, replies out."
)]
#![cfg_attr(
    feature = "embedded",
    doc = "- [`kubelet`]: the hollow kubelet as a machine: Pods and time in, API writes out."
)]
#![cfg_attr(
    feature = "runtime",
    doc = "- [`serve`]: HTTP in front of the two, on loopback."
)]

pub mod decide;
pub mod model;
pub mod queue;
pub mod wire;

#[cfg(feature = "embedded")]
pub mod apiserver;
#[cfg(feature = "embedded")]
pub mod kubelet;
#[cfg(feature = "runtime")]
pub mod cluster;
#[cfg(feature = "runtime")]
pub mod runtime;
#[cfg(feature = "runtime")]
pub mod serve;
