//! Bytes as JSON.
//!
//! Must not: know what is read.

use serde::Deserialize;

/// Reads JSON. That it is text is found out for all of it at once: string by string takes longer. What is no text is told of
/// by its line and column.
pub(crate) fn read_json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(bytes),
    }
}
