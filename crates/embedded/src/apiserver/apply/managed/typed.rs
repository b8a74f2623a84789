//! Validates an applied configuration against its type.
//!
//! Responsible for: type errors and their texts. Must not: read stored objects.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{set::shown, walk::elements};
use crate::apiserver::{
    apply::patch::go_text,
    object::{ListBy, Scalar, Tree, TypeDef},
};

/// Lists the type errors of an object, each with its path.
pub(super) fn problems(shape: &TypeDef, object: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    check_members(shape, object, "", &mut found);
    found
}

fn check_members(shape: &TypeDef, members: &Tree, path: &str, found: &mut Vec<String>) {
    for (name, member) in members {
        let path = format!("{path}.{name}");
        if matches!(shape, TypeDef::Struct(_)) && !shape.declares(name) {
            found.push(format!("{path}: field not declared in schema"));
        } else {
            check(shape.member(name), member, &path, found);
        }
    }
}

fn check(shape: &TypeDef, value: &Value, path: &str, found: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    let go = || format!("&{{{}}}", go_text(value));
    let (expected, got) = match (shape, value) {
        (TypeDef::Scalar(Scalar::Any | Scalar::Quantity | Scalar::IntOrText), _)
        | (TypeDef::Scalar(Scalar::Text | Scalar::Time | Scalar::Bytes), Value::String(_))
        | (TypeDef::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float), Value::Number(_))
        | (TypeDef::Scalar(Scalar::Flag), Value::Bool(_)) => return,
        (TypeDef::Scalar(Scalar::Text | Scalar::Time | Scalar::Bytes), _) => {
            let got = format!("&value.valueUnstructured{{Value:{}}}", go_text(value));
            ("string", got)
        }
        (TypeDef::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float), _) => {
            ("numeric (int or float)", go_type(value).to_owned())
        }
        (TypeDef::Scalar(Scalar::Flag), _) => ("boolean", go()),
        (TypeDef::List { by, items, .. }, Value::Array(list)) => {
            return check_list(by, items, list, path, found);
        }
        (TypeDef::List { .. }, _) => ("list", go()),
        (TypeDef::Struct(_) | TypeDef::Map { .. }, Value::Object(members)) => {
            return check_members(shape, members, path, found);
        }
        (TypeDef::Struct(_) | TypeDef::Map { .. }, _) => ("map", go()),
    };
    found.push(format!("{path}: expected {expected}, got {got}"));
}

fn check_list(by: &ListBy, items: &TypeDef, list: &[Value], path: &str, found: &mut Vec<String>) {
    if let ListBy::Keys(keys) = by {
        for (place, item) in list.iter().enumerate() {
            let missing = keys
                .iter()
                .find(|(key, default)| default.is_none() && item.get(key).is_none());
            if let Some((key, _)) = missing {
                found.push(format!(
                    "{path}: element {place}: associative list with keys has an element that omits \
                     key field {key:?} (and doesn't have default value)"
                ));
                return;
            }
        }
    }
    let mut seen = BTreeSet::new();
    for ((element, item), place) in elements(by, list).into_iter().zip(0..) {
        let below = match by {
            ListBy::Place => format!("{path}[{place}]"),
            ListBy::Value | ListBy::Keys(_) => format!("{path}{}", shown(&[&element])),
        };
        check(items, item, &below, found);
        if !seen.insert(element.clone()) {
            let element = shown(&[&element]);
            found.push(format!("{path}: duplicate entries for key {element}"));
        }
    }
}

const fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
