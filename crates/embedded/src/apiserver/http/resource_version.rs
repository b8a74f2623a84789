//! Parses the parameter `resourceVersion`.
//!
//! Responsible for: parsing, and the error text for an invalid version. Must not: compare versions.

/// Parses a `resourceVersion` parameter; empty is 0.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid \
             syntax"
        )
    })
}
