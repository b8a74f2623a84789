//! Finds duplicate fields in a JSON text.
//!
//! Responsible for: listing them along with unknown fields, in the order of the text. Must not: decide whether they are
//! an error.

use std::{collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Lists duplicate and unknown fields in the order of the text; `unknown` are the paths of the unknown ones.
pub(crate) fn findings(text: &[u8], unknown: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let walk = Walk {
        unknown,
        found: &mut found,
        path: String::new(),
    };
    // The caller has parsed the text as JSON already.
    let _ = walk.deserialize(&mut serde_json::Deserializer::from_slice(text));
    found
}

/// `unknown field "PATH"`.
pub(crate) fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

struct Walk<'a> {
    unknown: &'a [String],
    found: &'a mut Vec<String>,
    path: String,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen: HashSet<String> = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = if self.path.is_empty() {
                key.clone()
            } else {
                format!("{}.{key}", self.path)
            };
            if self.unknown.contains(&path) {
                self.found.push(unknown_field(&path));
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if !seen.insert(key) {
                self.found.push(format!("duplicate field \"{path}\""));
            }
            map.next_value_seed(Walk {
                unknown: self.unknown,
                found: self.found,
                path,
            })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while items
            .next_element_seed(Walk {
                unknown: self.unknown,
                found: self.found,
                path: format!("{}[{index}]", self.path),
            })?
            .is_some()
        {
            index += 1;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_fields_are_reported_in_text_order() {
        let text = br#"{"b": 1, "a": [{"c": 1, "c": null}, {"d": {"e": "", "e": 2.5}}], "b": {"f": true}}"#;
        let unknown = ["a[1].d".to_owned()];
        assert_eq!(
            findings(text, &unknown),
            [
                "duplicate field \"a[0].c\"",
                "unknown field \"a[1].d\"",
                "duplicate field \"b\"",
            ]
        );
    }
}
