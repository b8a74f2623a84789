//! Builds the OpenAPI schemas of the API's types.
//!
//! Responsible for: field descriptions for `kubectl explain`, and the source of `type_def`. Must not: know paths, or
//! read values.
//!
//! Different from a real server: the meaning of each enum value is left out.

use k8s_openapi::schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{
    kind::{KindInfo, served_rows},
    sections::sections,
};

/// Schema properties that the Rust types lack. A line is a type, or, indented by two spaces, a field of that type, with
/// words `KEY=VALUE`; [`say`] lists the keys.
const TABLE: &str = include_str!("schemas.txt");

/// Types that are a string or a number on the wire.
const SCALARS: [(&str, [&str; 2]); 2] = [
    (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        ["string", "number"],
    ),
    (INT_OR_STRING, ["integer", "string"]),
];

const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// The schemas of a group's kinds and of all types in them, by name.
pub(crate) fn of_group(group: &str) -> Map<String, Value> {
    let rows = || served_rows().filter(|row| row.group == group);
    let mut schemas = definitions(rows());
    for schema in schemas.values_mut() {
        wrap_references(schema);
    }
    for (name, kinds) in SCALARS {
        if let Some(Value::Object(schema)) = schemas.get_mut(name) {
            schema.remove("x-kubernetes-int-or-string");
            schema.insert(
                "oneOf".into(),
                kinds.map(|kind| json!({"type": kind})).into(),
            );
        }
    }
    if let Some(schema) = schemas.get_mut(INT_OR_STRING) {
        schema["format"] = "int-or-string".into();
    }
    for row in rows() {
        if let Some(schema) = schemas.get_mut(&name(row)) {
            schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(row)]);
        }
    }
    schemas
}

/// The schemas of `kinds` and of all types in them, by name.
pub(super) fn definitions(kinds: impl Iterator<Item = &'static KindInfo>) -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    for row in kinds {
        (row.add_schema)(&mut generator);
    }
    let mut schemas = generator.take_definitions(true);
    complete(&mut schemas);
    schemas
}

/// The name of a kind's schema.
pub(crate) fn name(row: &KindInfo) -> String {
    let group = row.short_group();
    format!("io.k8s.api.{group}.{}.{}", row.version, row.name)
}

/// The `x-kubernetes-group-version-kind` entry of a kind.
pub(crate) fn group_version_kind(row: &KindInfo) -> Value {
    json!({"group": row.group, "version": row.version, "kind": row.name})
}

/// Wraps a `$ref` that has siblings in `allOf`, because OpenAPI 3.0 ignores the siblings of a reference.
fn wrap_references(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.len() > 1
                && let Some(reference @ Value::String(_)) = members.remove("$ref")
            {
                members.insert("allOf".into(), json!([{"$ref": reference}]));
            }
            members.values_mut().for_each(wrap_references);
        }
        Value::Array(items) => items.iter_mut().for_each(wrap_references),
        _ => {}
    }
}

/// Adds the table's properties to the schemas present.
fn complete(schemas: &mut Map<String, Value>) {
    for (head, rows) in sections(TABLE) {
        let (name, words) = head.split_once(' ').unwrap_or((head, ""));
        let Some(schema) = schemas.get_mut(&format!("io.k8s.{name}")) else {
            continue;
        };
        say_all(schema, words);
        for row in rows {
            let (name, words) = row.split_once(' ').unwrap_or((row, ""));
            if let Some(schema) = schema["properties"].get_mut(name) {
                say_all(schema, words);
            }
        }
    }
}

fn say_all(schema: &mut Value, words: &str) {
    let Value::Object(schema) = schema else {
        return;
    };
    // In Go's types more fields are optional than in Rust's; the table lists the required ones.
    schema.remove("required");
    for (key, value) in words
        .split_whitespace()
        .filter_map(|word| word.split_once('='))
    {
        say(schema, key, value);
    }
}

/// Adds one `KEY=VALUE` of the table to a schema.
fn say(schema: &mut Map<String, Value>, key: &str, value: &str) {
    let list = || Value::from(value.split(',').collect::<Vec<_>>());
    let json = || serde_json::from_str::<Value>(value).unwrap_or_default();
    let (inside, member, value) = match key {
        "required" => ("", "required", list()),
        "enum" => {
            let values = value.split(',');
            let named: String = values.map(|value| format!("\n - `\"{value}\"`")).collect();
            let said = schema.get("description").and_then(Value::as_str);
            let said = said.unwrap_or_default();
            let description = format!("{said}\n\nPossible enum values:{named}");
            schema.insert("description".into(), description.into());
            ("", "enum", list())
        }
        "default" => ("", "default", json()),
        "items" => ("items", "default", json()),
        "values" => ("additionalProperties", "default", json()),
        "choices" => ("items", "enum", list()),
        "list" => ("", "x-kubernetes-list-type", value.into()),
        "keys" => ("", "x-kubernetes-list-map-keys", list()),
        "map" => ("", "x-kubernetes-map-type", value.into()),
        "merge" => ("", "x-kubernetes-patch-merge-key", value.into()),
        "strategy" => ("", "x-kubernetes-patch-strategy", value.into()),
        "unions" => ("", "x-kubernetes-unions", json()),
        other => unreachable!("the table has no {other}"),
    };
    let schema = match inside {
        "" => Some(schema),
        inside => schema.get_mut(inside).and_then(Value::as_object_mut),
    };
    if let Some(schema) = schema {
        schema.insert(member.into(), value);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::apiserver::object::GROUPS;

    fn references(schema: &Value, found: &mut BTreeSet<String>) {
        match schema {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    found.insert(reference.clone());
                }
                members
                    .values()
                    .for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_kind_and_every_reference_is_there() {
        let groups = GROUPS.iter().map(|(group, _)| *group);
        for group in groups.chain([""]) {
            let schemas = of_group(group);
            for row in served_rows().filter(|row| row.group == group) {
                let schema = &schemas[&name(row)];
                assert!(schema["description"].is_string(), "{}", row.name);
                assert_eq!(
                    schema["x-kubernetes-group-version-kind"][0]["kind"],
                    row.name
                );
            }
            let mut found = BTreeSet::new();
            schemas
                .values()
                .for_each(|schema| references(schema, &mut found));
            assert!(!found.is_empty());
            for reference in found {
                let name = reference.strip_prefix("#/components/schemas/");
                assert!(
                    name.is_some_and(|name| schemas.contains_key(name)),
                    "{reference}"
                );
            }
        }
    }

    #[test]
    fn schema_rows_name_existing_types_and_fields() {
        let groups = GROUPS.iter().map(|(group, _)| *group);
        let mut schemas = Map::new();
        for group in groups.chain([""]) {
            schemas.append(&mut of_group(group));
        }
        let mut of = &Value::Null;
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default();
            let schema = if line.starts_with(' ') {
                &of["properties"][name]
            } else {
                of = &schemas[&format!("io.k8s.{name}")];
                of
            };
            for (key, value) in words.filter_map(|word| word.split_once('=')) {
                let member = match key {
                    "required" | "default" => key,
                    "enum" => {
                        assert_eq!(schema["type"], "string", "{value}");
                        key
                    }
                    "items" | "choices" => "items",
                    "values" => "additionalProperties",
                    "list" => "x-kubernetes-list-type",
                    "keys" => "x-kubernetes-list-map-keys",
                    "map" => "x-kubernetes-map-type",
                    "merge" => "x-kubernetes-patch-merge-key",
                    "strategy" => "x-kubernetes-patch-strategy",
                    _ => "x-kubernetes-unions",
                };
                assert!(schema.get(member).is_some(), "{key}={value}: {schema}");
            }
        }
    }
}
