//! Calls an API server: kubeconfig and TLS by kube, credentials, and HTTP by hyper on pooled connections.
//!
//! Must not: know Jobs, repeat a call that may have taken effect, or keep an answer. [`ApiError`] carries the meaning
//! of an answer; the caller decides whether to retry.

mod budget;
mod client;
mod coalesced_io;
mod connect;
mod connection;
mod credentials;
mod dial;
mod exec;
mod pool;
mod server_status;
mod transport;

pub use budget::{descriptor_limit, descriptors_of_a_port};
pub use client::{Answer, Client, OnRequest, Watch};
pub use coalesced_io::{CoalescedIo, Sockets};
pub use connect::{
    ConnectError, Trust, configure, configure_streams, configure_url, connect, connect_url,
    connect_url_as,
};
pub use server_status::Trouble;

pub use lakh_wire::{Encoding, Lines, Patch};

use lakh_wire::ApiError;

/// The result of a call.
pub type Result<T> = std::result::Result<T, ApiError>;
