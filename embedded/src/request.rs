//! A request to the API server as a value.
//!
//! Responsible for: what the parts of the cluster that ask something have in common. Must not: know who asks, or send it.

/// A request over HTTP, without a server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRequest {
    /// The HTTP method.
    pub method: &'static str,
    /// The path, from `/api` on.
    pub path: String,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body; empty for a GET.
    pub body: Vec<u8>,
}

/// The media type of JSON.
pub(crate) const JSON: &str = "application/json";
/// The media type of strategic merge patches.
pub(crate) const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
