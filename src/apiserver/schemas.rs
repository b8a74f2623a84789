//! The API's types as OpenAPI schemas.
//!
//! Responsible for: what `kubectl explain` tells of a field. Must not: know paths, or check
//! anything: that is done with the types themselves.
//!
//! Different from a real server: defaults and merge keys of lists are left out, and possible
//! values are named for the fields that people set on Jobs and their Pods.

use k8s_openapi::schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    resources::{KINDS, KindInfo},
    types::{self, Visitor},
};

/// Possible values by type and field; a real server sorts them, too.
const ENUMS: &[(&str, &str, &[&str])] = &[
    (
        "batch.v1.CronJobSpec",
        "concurrencyPolicy",
        &["Allow", "Forbid", "Replace"],
    ),
    (
        "batch.v1.JobSpec",
        "completionMode",
        &["Indexed", "NonIndexed"],
    ),
    (
        "batch.v1.JobSpec",
        "podReplacementPolicy",
        &["Failed", "TerminatingOrFailed"],
    ),
    (
        "batch.v1.PodFailurePolicyOnExitCodesRequirement",
        "operator",
        &["In", "NotIn"],
    ),
    (
        "batch.v1.PodFailurePolicyRule",
        "action",
        &["Count", "FailIndex", "FailJob", "Ignore"],
    ),
    (
        "core.v1.Container",
        "imagePullPolicy",
        &["Always", "IfNotPresent", "Never"],
    ),
    (
        "core.v1.Container",
        "terminationMessagePolicy",
        &["FallbackToLogsOnError", "File"],
    ),
    ("core.v1.ContainerPort", "protocol", &["SCTP", "TCP", "UDP"]),
    (
        "core.v1.PodSpec",
        "dnsPolicy",
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    ),
    (
        "core.v1.PodSpec",
        "preemptionPolicy",
        &["Never", "PreemptLowerPriority"],
    ),
    (
        "core.v1.PodSpec",
        "restartPolicy",
        &["Always", "Never", "OnFailure"],
    ),
    (
        "core.v1.PodStatus",
        "phase",
        &["Failed", "Pending", "Running", "Succeeded", "Unknown"],
    ),
    (
        "core.v1.Taint",
        "effect",
        &["NoExecute", "NoSchedule", "PreferNoSchedule"],
    ),
    (
        "core.v1.Toleration",
        "effect",
        &["NoExecute", "NoSchedule", "PreferNoSchedule"],
    ),
    (
        "core.v1.Toleration",
        "operator",
        &["Equal", "Exists", "Gt", "Lt"],
    ),
];

/// Types that are a text or a number on the wire.
const SCALARS: [(&str, &str); 2] = [
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "number"),
    ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "integer"),
];

/// The schemas of a group's kinds, and of all types in them, by name.
pub(crate) fn of_group(group: &str) -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    for row in KINDS.iter().filter(|row| row.group == group) {
        types::visit(row.kind, Add(&mut generator));
    }
    let mut schemas = generator.take_definitions(true);
    for schema in schemas.values_mut() {
        wrap_references(schema);
    }
    for (name, number) in SCALARS {
        if let Some(schema) = schemas.get_mut(name) {
            schema["oneOf"] = json!([{"type": "string"}, {"type": number}]);
        }
    }
    for (name, field, values) in ENUMS {
        let schema = schemas.get_mut(&format!("io.k8s.api.{name}"));
        if let Some(field) = schema.and_then(|schema| schema["properties"].get_mut(field)) {
            name_values(field, values);
        }
    }
    for row in KINDS.iter().filter(|row| row.group == group) {
        if let Some(schema) = schemas.get_mut(&name(row)) {
            schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(row)]);
        }
    }
    schemas
}

/// The name of a kind's schema.
pub(crate) fn name(row: &KindInfo) -> String {
    let group = row.group.split('.').next().unwrap_or_default();
    let group = if group.is_empty() { "core" } else { group };
    format!("io.k8s.api.{group}.{}.{}", row.version, row.name)
}

/// How documents say which kind something is about.
pub(crate) fn group_version_kind(row: &KindInfo) -> Value {
    json!({"group": row.group, "version": row.version, "kind": row.name})
}

struct Add<'a>(&'a mut SchemaGenerator);

impl Visitor for Add<'_> {
    type Answer = ();

    fn visit<T: JsonSchema>(self) {
        self.0.subschema_for::<T>();
    }
}

/// A member beside a reference counts for nothing in OpenAPI 3.0: the reference goes one deeper.
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

fn name_values(field: &mut Value, values: &[&str]) {
    let list: String = values
        .iter()
        .map(|value| format!("\n - `\"{value}\"`"))
        .collect();
    let said = field["description"].as_str().unwrap_or_default();
    field["description"] = format!("{said}\n\nPossible enum values:{list}").into();
    field["enum"] = json!(values);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::apiserver::resources::GROUPS;

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
            for row in KINDS.iter().filter(|row| row.group == group) {
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
    fn possible_values_are_named_where_the_field_is() {
        let mut schemas = of_group("batch");
        schemas.append(&mut of_group(""));
        for (name, field, values) in ENUMS {
            let property = &schemas[&format!("io.k8s.api.{name}")]["properties"][field];
            assert_eq!(property["enum"], json!(values), "{name}.{field}");
            assert_eq!(property["type"], "string", "{name}.{field}");
        }
    }
}
