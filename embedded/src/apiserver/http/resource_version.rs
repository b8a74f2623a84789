//! The parameter `resourceVersion`.
//!
//! Responsible for: reading it, and the errors for what is none. Must not: compare versions.

use crate::apiserver::object::{ApiError, Result};

/// Reads a `resourceVersion` parameter; empty is 0.
pub(crate) fn parse(text: &str) -> Result<u64> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: \
             strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

/// The same failure for anything but lists, which a real server does not take for the client's.
pub(crate) fn unprefixed(error: &ApiError) -> ApiError {
    let text = error.to_string();
    let why = text.trim_start_matches("invalid resource version: ");
    ApiError::new(500, "", why)
}
