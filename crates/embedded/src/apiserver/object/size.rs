//! Computes the size of objects as a real server stores them.
//!
//! Responsible for: the limit on the size of an etcd request. Must not: encode anything.

use serde_json::Value;

use super::{
    error::{ApiError, Result},
    kind::Kind,
    stored::Kept,
    tree::Tree,
    type_def::{self, Scalar, TypeDef, type_at},
};

/// The largest request that etcd accepts, in bytes.
const MAX_REQUEST: usize = 1536 * 1024;

/// Bytes of a request besides the object: key, type and condition.
const AROUND: usize = 512;

/// Rejects an object that does not fit into one etcd request. `tree` lacks the members in `kept`.
pub(crate) fn check(kind: Kind, tree: &Tree, kept: &Kept<'_>) -> Result<()> {
    if upper_bound_of_members(tree) + kept.len() <= MAX_REQUEST {
        return Ok(());
    }
    let mut whole = tree.clone();
    kept.put_back(&mut whole);
    if message(type_def::of(kind), &whole) + AROUND <= MAX_REQUEST {
        return Ok(());
    }
    Err(ApiError::new(500, "", "etcdserver: request is too large"))
}

/// An upper bound of an object's protobuf size, computed without its type.
fn upper_bound_of_members(tree: &Tree) -> usize {
    let members = tree.iter();
    members
        .map(|(name, value)| name.len() + upper_bound(value) + 12)
        .sum()
}

fn upper_bound(value: &Value) -> usize {
    match value {
        Value::Object(members) => upper_bound_of_members(members),
        Value::Array(items) => items.iter().map(|item| upper_bound(item) + 12).sum(),
        Value::String(text) => text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 10,
    }
}

/// The protobuf size of a message: its tagged fields; map entries are messages of key and value.
fn message(shape: &TypeDef, members: &Tree) -> usize {
    let entry_of_map = |name: &String, value: &Value| {
        let entry = delimited(name.len()) + field(shape.member(name), value);
        delimited(entry)
    };
    let members = members.iter();
    match shape {
        TypeDef::Map { .. } => members.map(|(name, value)| entry_of_map(name, value)).sum(),
        TypeDef::Struct(at) => {
            let fields = &type_at(*at).fields;
            let known = members.filter_map(|(name, value)| Some(field(fields.get(name)?, value)));
            known.sum()
        }
        TypeDef::Scalar(_) | TypeDef::List { .. } => 0,
    }
}

fn field(shape: &TypeDef, value: &Value) -> usize {
    match (shape, value) {
        (TypeDef::List { items, .. }, Value::Array(list)) => {
            list.iter().map(|item| field(items, item)).sum()
        }
        // A map is encoded as repeated entries, like a list.
        (TypeDef::Map { .. }, Value::Object(members)) => message(shape, members),
        (TypeDef::Struct(_), Value::Object(members)) => delimited(message(shape, members)),
        (TypeDef::Scalar(Scalar::Bytes), Value::String(text)) => delimited(text.len() / 4 * 3),
        (TypeDef::Scalar(Scalar::Time), _) => 10,
        (TypeDef::Scalar(Scalar::Quantity), Value::String(text)) => {
            delimited(delimited(text.len()))
        }
        (_, Value::String(text)) => delimited(text.len()),
        (_, Value::Bool(_)) => 2,
        (_, Value::Number(number)) => 1 + varint(number.as_u64().unwrap_or(u64::MAX)),
        // A value stored as it was sent, such as managed fields, counts as text.
        (_, other) => delimited(other.to_string().len()),
    }
}

/// The size of a length-delimited field of `length` bytes, with its tag and length.
fn delimited(length: usize) -> usize {
    1 + varint(length as u64) + length
}

const fn varint(number: u64) -> usize {
    let bits = 64 - (number | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_count_and_names_of_fields_do_not() {
        let job = |variables: usize, length: usize| {
            let variable = json!({"name": "A", "value": "x".repeat(length)});
            let container = json!({"name": "c", "env": vec![variable; variables]});
            json!({"spec": {"template": {"spec": {"containers": [container]}}}})
        };
        let fits =
            |job: &Value| check(Kind::Job, job.as_object().unwrap(), &Kept::default()).is_ok();
        assert!(fits(&job(1, 1_570_000)));
        assert!(!fits(&job(1, 1_573_000)));
        // 2.5 MB of JSON.
        assert!(fits(&job(100_000, 1)));
        assert!(!fits(&job(200_000, 1)));
    }
}
