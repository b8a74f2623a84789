//! The way to an API server: kubeconfig and TLS by kube; credentials, and HTTP by hyper on connections of
//! our own; by kube where a proxy is in between.
//!
//! Must not: know what a Job is, repeat a call that may have been heard, or keep an answer. What an
//! answer means is told by [`ApiError`], whether to ask again is the caller's business.

mod client;
mod connect;
mod credentials;
mod dial;
mod exec;
mod line;
mod pool;
mod standing;
mod transport;

pub use client::{Answer, Client, Watch};
pub use connect::{ConnectError, Trust, configure, connect, connect_url, connect_url_as};
pub use standing::Trouble;

pub use crate::wire::{Encoding, Lines, Patch};

use crate::wire::ApiError;

/// The result of a call.
pub type Result<T> = std::result::Result<T, ApiError>;
