//! Decodes JSON from bytes.
//!
//! Must not: know the types that are decoded.

use std::{borrow::Cow, ops::Deref};

use serde::{Deserialize, Deserializer, de::Error as _};

/// Decodes JSON. UTF-8 is validated for the whole body at once, which is faster than string by string.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, serde_json::Error> {
    let text = std::str::from_utf8(body).map_err(serde_json::Error::custom)?;
    serde_json::from_str(text)
}

/// Decodes a count that the server does not validate. A negative count becomes 0, so that it cannot make an object
/// unreadable.
pub(super) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let number = i64::deserialize(from)?.max(0);
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

/// A JSON string, borrowed from the input unless it has escapes. Within lists and options serde would copy a plain
/// `Cow`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_where_it_is_unless_it_is_escaped() {
        let texts: Vec<Text<'_>> = read(br#"["as it is","\u0061"]"#).expect("good JSON");
        assert!(matches!(texts[0].0, Cow::Borrowed("as it is")));
        assert!(matches!(&texts[1].0, Cow::Owned(text) if text == "a"));
    }
}
