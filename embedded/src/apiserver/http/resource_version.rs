//! The parameter `resourceVersion`.
//!
//! Responsible for: reading it, and what is said of a text that is none. Must not: compare versions.

/// Reads a `resourceVersion` parameter; empty is 0.
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
