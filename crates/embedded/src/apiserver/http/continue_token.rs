//! Encodes and decodes the continue tokens of paged lists: URL-safe base64 of a small JSON object.
//!
//! Responsible for: the text form. Must not: list anything.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, general_purpose::NO_PAD},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Encodes without padding and decodes with or without it, like Go.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    NO_PAD.with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The position at which a list continues.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "v", rename = "meta.k8s.io/v1")]
pub(crate) struct ContinueToken {
    /// Version of the first page; -1 if the client accepted an inconsistent continuation.
    #[serde(rename = "rv")]
    pub(crate) version: i64,
    /// Key of the last object sent.
    #[serde(rename = "start")]
    pub(crate) after: String,
    /// The number of objects sent before.
    #[serde(default)]
    pub(crate) seen: u64,
}

impl ContinueToken {
    /// Encodes the token.
    pub(crate) fn encode(&self) -> String {
        BASE64.encode(json!(self).to_string())
    }

    /// Decodes a token.
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
