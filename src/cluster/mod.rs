//! The way to an API server: kubeconfig, credentials and TLS by kube; HTTP by hyper on connections of
//! our own, and by kube where a proxy is in between.
//!
//! Must not: know what a Job is, retry a write, or keep an answer. What an answer means is told
//! by [`ApiError`], whether to ask again is the caller's business.

mod client;
mod connect;
mod direct;
mod frames;
mod line;
mod lines;
mod splitter;
mod transport;

pub use client::{Answer, Client, Patch, Watch};
pub use connect::{ConnectError, Trust, connect, connect_url, connect_url_as};
pub use lines::Lines;
pub use splitter::{Encoding, Splitter};

use crate::wire::ApiError;

/// The result of a call.
pub type Result<T> = std::result::Result<T, ApiError>;
