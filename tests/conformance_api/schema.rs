//! Renders schemas of OpenAPI documents as lines of text.
//!
//! Responsible for: all members of a schema, with descriptions as digests. Must not: send anything.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::case::Line;

/// The start of the explanation of enum values in a description.
const VALUES: &str = "\n\nPossible enum values:";

/// Renders a schema: a line of its own, then one for each field.
pub(crate) fn one(document: &Value, name: &str) -> Vec<Line> {
    let schema = &document["components"]["schemas"][name];
    let Value::Object(mut members) = schema.clone() else {
        return vec!["none".to_owned()];
    };
    let fields = members.remove("properties");
    let mut lines = vec![format!("{name} {}", told(members, true))];
    for (field, schema) in fields.iter().filter_map(Value::as_object).flatten() {
        let members = schema.as_object().cloned().unwrap_or_default();
        lines.push(format!(".{field} {}", told(members, true)));
    }
    lines
}

/// Renders a schema and all schemas that it refers to, each as a digest without the explanation of enum values.
pub(crate) fn all(document: &Value, name: &str) -> Vec<Line> {
    let schemas = &document["components"]["schemas"];
    let (mut found, mut rest) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(name) = rest.pop() {
        if found.insert(name.clone()) {
            references(&schemas[&name], &mut rest);
        }
    }
    let digest_of = |name: &String| {
        let mut schema = schemas[name].clone();
        if let Some(Value::Object(fields)) = schema.get_mut("properties") {
            for field in fields.values_mut() {
                let members = field.as_object().cloned().unwrap_or_default();
                *field = told(members, false);
            }
        }
        let members = schema.as_object().cloned().unwrap_or_default();
        format!("{name} {}", digest(&told(members, false).to_string()))
    };
    found.iter().map(digest_of).collect()
}

fn told(mut members: Map<String, Value>, meanings: bool) -> Value {
    if let Some(Value::String(text)) = members.remove("description") {
        let (text, values) = text.split_once(VALUES).unwrap_or((&text, ""));
        members.insert("description".to_owned(), digest(text).into());
        if meanings && !values.is_empty() {
            members.insert("values".to_owned(), digest(values).into());
        }
    }
    Value::Object(members)
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                found.extend(reference.rsplit('/').next().map(str::to_owned));
            }
            members.values().for_each(|it| references(it, found));
        }
        Value::Array(items) => items.iter().for_each(|it| references(it, found)),
        _ => {}
    }
}

/// FNV-1a: short, and the same in every release.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("#{hash:016x}")
}
