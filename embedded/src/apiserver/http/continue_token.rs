//! Continue tokens of paged lists: URL-safe base64 of a small JSON object.
//!
//! Responsible for: their text form. Must not: list anything.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, general_purpose::NO_PAD},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// As Go writes it; with or without padding, as it reads it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    NO_PAD.with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "v", rename = "meta.k8s.io/v1")]
pub(crate) struct ContinueToken {
    /// Version of the first page; -1 where the client accepted an inconsistent rest.
    #[serde(rename = "rv")]
    pub(crate) version: i64,
    /// Key of the last object delivered.
    #[serde(rename = "start")]
    pub(crate) after: String,
    /// How many objects came before.
    #[serde(default)]
    pub(crate) seen: u64,
}

impl ContinueToken {
    /// Writes the token.
    pub(crate) fn encode(&self) -> String {
        BASE64.encode(json!(self).to_string())
    }

    /// Reads a token.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        serde_json::from_slice(&BASE64.decode(text).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        for after in ["", "a", "default/job-1", "default/jöb-12"] {
            let token = ContinueToken {
                version: -1,
                after: after.into(),
                seen: 7,
            };
            assert_eq!(ContinueToken::decode(&token.encode()), Some(token));
        }
        assert_eq!(ContinueToken::decode("garbage!"), None);
    }
}
