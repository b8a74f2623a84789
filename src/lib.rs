//! lakh: a Kubernetes Job controller for Jobs of a hundred thousand Pods.
//!
//! Code map, from the inside out (ARCHITECTURE.md says who may use whom):
//!
//! - [`model`]: the nouns everybody shares; no behaviour beyond their own arithmetic.
#![cfg_attr(feature = "embedded", doc = "- [`apiserver`]: the embedded API server as a machine: requests and time in, replies out.")]
#![cfg_attr(feature = "embedded", doc = "- [`kubelet`]: the hollow kubelet as a machine: Pods and time in, API writes out.")]
#![cfg_attr(feature = "runtime", doc = "- [`serve`]: HTTP in front of the two, on loopback.")]

pub mod model;

#[cfg(feature = "embedded")]
pub mod apiserver;
#[cfg(feature = "embedded")]
pub mod kubelet;
#[cfg(feature = "runtime")]
pub mod serve;
