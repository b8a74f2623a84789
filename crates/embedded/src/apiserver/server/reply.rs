//! Defines replies: a complete response, or a watch.
//!
//! Responsible for: both, and the responses to requests that never reach the server. Must not: encode.

use serde_json::json;

use super::watch::WatchCursor;
use crate::apiserver::{http::too_large, object::ApiError, print::Response};

/// The reply to one request.
#[derive(Debug)]
#[must_use = "a dropped reply leaves a client waiting"]
pub enum Reply {
    /// A complete response.
    Complete(Response),
    /// A stream: call [`super::ApiServer::pull`] and encode the result.
    Watch(Box<WatchCursor>),
}

impl Reply {
    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::Complete(response) => response.status,
            Self::Watch(_) => 200,
        }
    }

    /// 403 for a request that is rejected before its target is known.
    pub fn forbidden(why: &str) -> Self {
        let error = ApiError::new(403, "Forbidden", format!("forbidden: {why}"));
        Self::Complete(error.with_details(json!({})).into())
    }

    /// 408: the request body did not arrive in time.
    pub fn body_timed_out() -> Self {
        let error = ApiError::new(408, "Timeout", "the request's body did not come in time");
        Self::Complete(error.into())
    }

    /// 413: the request body is too large.
    pub fn body_too_large() -> Self {
        Self::Complete(too_large().into())
    }

    /// 500: the change could not be saved.
    pub fn not_saved(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        let details = json!({"causes": [{"message": why}]});
        let error = ApiError::new(500, "InternalError", message).with_details(details);
        Self::Complete(error.into())
    }
}
