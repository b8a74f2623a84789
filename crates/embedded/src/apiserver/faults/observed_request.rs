//! Defines the attributes by which rules match requests and watches.
//!
//! Responsible for: the type. Must not: know rules.

use crate::apiserver::http::Label;

/// A request or a watch that rules match.
#[derive(Clone, Debug)]
pub struct ObservedRequest {
    /// Its labels in metrics.
    pub label: Label,
    /// Its path.
    pub path: String,
    /// Its query, still encoded.
    pub query: String,
    /// Its `User-Agent`.
    pub client: String,
}
