//! Parses the notation for request bodies.
//!
//! Responsible for: `job + {spec: {parallelism: 2}}` to bytes. Must not: know requests.
//!
//! A body is a sum of terms, merged like JSON merge patches. A term is a name in `bodies.yaml`, `@` for the last object
//! in a response, or YAML in flow style. `raw ` begins a literal body.

use std::sync::LazyLock;

use serde_json::{Map, Value};

static NAMED: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_saphyr::from_str(include_str!("bodies.yaml")).unwrap());

/// The bytes of a body.
pub(crate) fn bytes(text: &str, last: Option<&Value>) -> Vec<u8> {
    let mut rest = text.trim();
    if let Some(raw) = rest.strip_prefix("raw ") {
        return raw.replace("\n  ", "\n").into_bytes();
    }
    if rest.is_empty() {
        return Vec::new();
    }
    let mut sum: Option<Value> = None;
    while !rest.is_empty() {
        let (term, more) = if rest.starts_with(['{', '[']) {
            (serde_saphyr::from_str(rest).unwrap(), "")
        } else {
            let (name, more) = rest.split_once(" + ").unwrap_or((rest, ""));
            let named = if name == "@" { last } else { NAMED.get(name) };
            let value = named.unwrap_or_else(|| panic!("no body is named {name}"));
            (value.clone(), more)
        };
        match &mut sum {
            None => sum = Some(term),
            Some(sum) => merge(sum, term),
        }
        rest = more.trim();
    }
    sum.unwrap().to_string().into_bytes()
}

fn merge(target: &mut Value, change: Value) {
    let (Value::Object(members), Value::Object(changes)) = (&mut *target, &change) else {
        *target = change;
        return;
    };
    for (name, change) in changes {
        if change.is_null() {
            members.remove(name);
        } else {
            merge(
                members.entry(name.clone()).or_insert(Value::Null),
                change.clone(),
            );
        }
    }
}
