//! Query strings: splitting and percent-decoding.
//!
//! Responsible for: the text form. Must not: know what parameters mean.

/// Decoded parameters in the order given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the part of a URL after `?`.
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|part| !part.is_empty()).map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(name, true), decode(value, true))
        });
        Self(pairs.collect())
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(have, _)| have == name)
            .map(|(_, value)| value.as_str())
    }

    /// The first value of a parameter; empty if it is not given.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Every value of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(have, _)| have == name)
            .map(|(_, value)| value.as_str())
    }

    /// Whether a boolean parameter is on.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(
            self.get(name),
            Some("true" | "True" | "TRUE" | "1" | "t" | "T")
        )
    }
}

/// Decodes `%XX`, and `+` as a blank where forms are meant.
pub(crate) fn decode(text: &str, plus_is_blank: bool) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'+' if plus_is_blank => bytes.push(b' '),
            b'%' => match tail.split_at_checked(2).and_then(|(hex, _)| hex_byte(hex)) {
                Some(byte) => {
                    bytes.push(byte);
                    rest = &tail[2..];
                }
                None => bytes.push(b'%'),
            },
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex_byte(hex: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(hex[0])? * 16 + digit(hex[1])?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in%20%28d%29&watch=1&x");
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert!(query.flag("watch"));
        assert_eq!(query.get("x"), Some(""));
        assert_eq!(query.get("y"), None);
        assert_eq!(decode("50%", false), "50%");
    }
}
