//! Bytes as JSON text.
//!
//! Must not: know what is read.

use serde::{Deserialize, de::Error as _};

/// Reads JSON. That it is text is found out for all of it at once: string by string takes longer.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, serde_json::Error> {
    let text = std::str::from_utf8(body).map_err(serde_json::Error::custom)?;
    serde_json::from_str(text)
}
