//! What rules see of a request or a watch.
//!
//! Responsible for: the value. Must not: know rules.

use crate::apiserver::http::Label;

/// A request, or a watch, as rules see it.
#[derive(Clone, Debug)]
pub struct ObservedRequest {
    /// What it is counted as.
    pub label: Label,
    /// Its path.
    pub path: String,
    /// Its query, still encoded.
    pub query: String,
    /// What `User-Agent` says.
    pub client: String,
}
