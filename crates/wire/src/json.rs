//! Decodes JSON from bytes.
//!
//! Must not: know the types that are decoded.

use serde::{Deserialize, de::Error as _};

/// Decodes JSON. UTF-8 is validated for the whole body at once, which is faster than string by string.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, serde_json::Error> {
    let text = std::str::from_utf8(body).map_err(serde_json::Error::custom)?;
    serde_json::from_str(text)
}
