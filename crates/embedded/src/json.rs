//! Decodes JSON bytes.
//!
//! Must not: know the decoded types.

use serde::Deserialize;

/// Decodes JSON. UTF-8 is validated once for the whole input, which is faster than per string. Input that is not UTF-8
/// gives an error with line and column.
pub(crate) fn read_json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(bytes),
    }
}
