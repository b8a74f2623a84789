//! Represents a request to the API server as a value.
//!
//! Responsible for: the request type that the kubelet and the collector share. Must not: send it, or know its sender.

/// An HTTP request without a server address.
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
