//! Continue tokens of paged lists: URL-safe base64 of a small JSON object.
//!
//! Responsible for: their text form. Must not: list anything.

use serde_json::{Value, json};

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// Version of the first page; -1 where the client accepted an inconsistent rest.
    pub(crate) version: i64,
    /// Key of the last object delivered.
    pub(crate) after: String,
    /// How many objects came before.
    pub(crate) seen: u64,
}

impl ContinueToken {
    /// Writes the token.
    pub(crate) fn encode(&self) -> String {
        let token = json!({
            "v": "meta.k8s.io/v1",
            "rv": self.version,
            "start": self.after,
            "seen": self.seen,
        });
        base64(token.to_string().as_bytes())
    }

    /// Reads a token.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let token: Value = serde_json::from_slice(&unbase64(text)?).ok()?;
        if token.get("v")? != "meta.k8s.io/v1" {
            return None;
        }
        Some(Self {
            version: token.get("rv")?.as_i64()?,
            after: token.get("start")?.as_str()?.to_owned(),
            seen: token
                .get("seen")
                .and_then(Value::as_u64)
                .unwrap_or_default(),
        })
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 2);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| usize::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for sextet in 0..=chunk.len() {
            text.push(char::from(LETTERS[bits >> (18 - 6 * sextet) & 63]));
        }
    }
    text
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut have) = (0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = LETTERS.iter().position(|have| *have == letter)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        have += 6;
        if have >= 8 {
            have -= 8;
            bytes.push(u8::try_from(bits >> have & 0xFF).ok()?);
        }
    }
    Some(bytes)
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
