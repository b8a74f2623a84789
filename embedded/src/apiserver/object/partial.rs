//! Reads JSON objects in part.
//!
//! Must not: know what is read.

use std::fmt;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::{Deserializer, Value, value::RawValue};

use super::tree::Tree;

/// Reads an object without some of its members; these as JSON, in the order in which they stand in it.
///
/// # Panics
///
/// If the text is no JSON object.
pub(crate) fn read_without<'t>(
    text: &'t str,
    names: &[&'static str],
) -> (Tree, Vec<(&'static str, &'t str)>) {
    let read = Deserializer::from_str(text).deserialize_map(Without { names });
    read.expect("what was stored is JSON")
}

struct Without<'n> {
    names: &'n [&'static str],
}

impl<'t> Visitor<'t> for Without<'_> {
    type Value = (Tree, Vec<(&'static str, &'t str)>);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let (mut tree, mut kept) = (Tree::new(), Vec::new());
        while let Some(name) = object.next_key::<String>()? {
            if let Some(name) = self.names.iter().find(|kept| **kept == name) {
                kept.push((*name, object.next_value::<&RawValue>()?.get()));
            } else {
                tree.insert(name, object.next_value::<Value>()?);
            }
        }
        Ok((tree, kept))
    }
}
