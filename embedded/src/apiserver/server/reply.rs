//! What a client gets: an answer that is complete, or a watch.
//!
//! Responsible for: the two, and the answers about requests that never reach the server. Must not: encode.

use serde_json::json;

use super::watch::WatchCursor;
use crate::apiserver::{http::too_large, object::ApiError, print::Response};

/// The answer to one request.
#[derive(Debug)]
#[must_use = "a dropped reply leaves a client waiting"]
pub enum Reply {
    /// One answer that is complete now.
    Complete(Response),
    /// A stream: pull it with [`super::ApiServer::pull`] and encode what comes.
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

    /// 403 for a request that is refused before it is known what it is about.
    pub fn forbidden(why: &str) -> Self {
        let error = ApiError::new(403, "Forbidden", format!("forbidden: {why}"));
        Self::Complete(error.with_details(json!({})).into())
    }

    /// 408: the request's body did not come.
    pub fn body_timed_out() -> Self {
        let error = ApiError::new(408, "Timeout", "the request's body did not come in time");
        Self::Complete(error.into())
    }

    /// 413: the request's body is too large.
    pub fn body_too_large() -> Self {
        Self::Complete(too_large().into())
    }

    /// 500: what was done could not be made to last.
    pub fn not_saved(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        let details = json!({"causes": [{"message": why}]});
        let error = ApiError::new(500, "InternalError", message).with_details(details);
        Self::Complete(error.into())
    }
}
