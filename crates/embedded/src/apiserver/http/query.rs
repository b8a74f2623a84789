//! Parses query strings: splitting and percent-decoding.
//!
//! Responsible for: the text form. Must not: interpret parameters.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Decoded parameters in their original order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the part of a URL after `?`.
    pub(crate) fn parse(text: &str) -> Self {
        Self(
            form_urlencoded::parse(text.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The first value of a parameter; empty if missing.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values of a parameter.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(have, _)| have == name)
            .map(|(_, value)| value.as_str())
    }

    /// The value of a boolean parameter; `None` if missing.
    pub(crate) fn flag_if_given(&self, name: &str) -> Option<bool> {
        self.get(name).map(|_| self.flag(name))
    }

    /// Returns true if a boolean parameter is present and true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(
            self.get(name),
            Some("true" | "True" | "TRUE" | "1" | "t" | "T")
        )
    }
}

/// Decodes `%XX` in a path.
pub(crate) fn decode_path(path: &str) -> Cow<'_, str> {
    percent_decode_str(path).decode_utf8_lossy()
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
        assert_eq!(decode_path("50%"), "50%");
    }
}
