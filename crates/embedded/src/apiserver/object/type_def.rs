//! Defines the API's types: their fields, the values that the fields accept, and their merge rules.
//!
//! Responsible for: a form of the schemas that code can walk in parallel with a value. Must not: read values.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::{
    kind::{KINDS, Kind},
    schemas,
};

/// The type of a value.
#[derive(Debug)]
pub(crate) enum TypeDef {
    Scalar(Scalar),
    /// An object with fields; the index of its type in the table.
    Struct(usize),
    Map {
        atomic: bool,
        values: Box<Self>,
    },
    List {
        by: ListBy,
        /// The same for strategic merge patches.
        merge: ListBy,
        items: Box<Self>,
    },
}

/// A value without members or items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Text,
    Time,
    /// Base64 in JSON.
    Bytes,
    Int32,
    Int64,
    Float,
    Flag,
    Quantity,
    IntOrText,
    /// Any value; it is never inspected.
    Any,
}

/// The identity of a list's items.
#[derive(Debug)]
pub(crate) enum ListBy {
    /// None: the list is one value.
    Place,
    /// The items themselves.
    Value,
    /// Some of the items' fields, each with its default.
    Keys(Vec<(String, Option<String>)>),
}

/// A type with fields.
#[derive(Debug)]
pub(crate) struct Struct {
    /// Its name in Go, without the package.
    pub(crate) name: String,
    /// The object is merged and owned as one value.
    pub(crate) atomic: bool,
    pub(crate) fields: BTreeMap<String, TypeDef>,
}

static ANY: TypeDef = TypeDef::Scalar(Scalar::Any);
static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

struct Table {
    types: Vec<Struct>,
    /// The types of all kinds, in the order of [`Kind`].
    kinds: Vec<TypeDef>,
}

/// The type of a kind's objects.
pub(crate) fn of(kind: Kind) -> &'static TypeDef {
    &TABLE.kinds[kind as usize]
}

/// The type that a [`TypeDef::Struct`] refers to.
pub(crate) fn type_at(place: usize) -> &'static Struct {
    &TABLE.types[place]
}

impl TypeDef {
    /// Returns true if values of this type are merged and owned as a whole.
    pub(crate) fn is_leaf(&self) -> bool {
        match self {
            Self::Scalar(_) => true,
            Self::Struct(place) => type_at(*place).atomic,
            Self::Map { atomic, .. } => *atomic,
            Self::List { by, .. } => matches!(by, ListBy::Place),
        }
    }

    /// The type of an object's member.
    pub(crate) fn member(&self, name: &str) -> &Self {
        match self {
            Self::Struct(place) => type_at(*place).fields.get(name).unwrap_or(&ANY),
            Self::Map { values, .. } => values,
            _ => &ANY,
        }
    }

    /// Returns true if `name` is a field of this type, not a key of a map.
    pub(crate) fn declares(&self, name: &str) -> bool {
        matches!(self, Self::Struct(place) if type_at(*place).fields.contains_key(name))
    }

    /// The type of the value at a path element.
    pub(crate) fn below(&self, element: &str) -> &Self {
        match (self, element.strip_prefix("f:")) {
            (_, Some(name)) => self.member(name),
            (Self::List { items, .. }, None) => items,
            (_, None) => &ANY,
        }
    }
}

impl Table {
    fn read() -> Self {
        let schemas = Schemas(schemas::definitions(KINDS.iter()));
        let read = |(name, schema): (&String, &Value)| Struct {
            name: last_part(name, '.').to_owned(),
            atomic: schema["x-kubernetes-map-type"] == "atomic",
            fields: members(&schema["properties"])
                .map(|(name, schema)| (name.clone(), schemas.shape(schema)))
                .collect(),
        };
        let kind = |row| TypeDef::Struct(schemas.place(&schemas::name(row)));
        Self {
            types: schemas.0.iter().map(read).collect(),
            kinds: KINDS.iter().map(kind).collect(),
        }
    }
}

/// The schemas of all types, by name.
struct Schemas(Map<String, Value>);

impl Schemas {
    fn place(&self, name: &str) -> usize {
        let found = self.0.keys().position(|known| known == name);
        found.unwrap_or_else(|| panic!("the API has the type {name}"))
    }

    fn shape(&self, schema: &Value) -> TypeDef {
        let text = |member: &str| schema[member].as_str().unwrap_or_default();
        // A reference with siblings is wrapped in `allOf`.
        let inner = schema["allOf"][0]["$ref"].as_str();
        let name = last_part(inner.unwrap_or(text("$ref")), '/');
        TypeDef::Scalar(match (text("type"), text("format")) {
            _ if name.ends_with(".Quantity") => Scalar::Quantity,
            _ if name.ends_with(".IntOrString") => Scalar::IntOrText,
            _ if name.ends_with("Time") => Scalar::Time,
            _ if name.ends_with(".FieldsV1") => Scalar::Any,
            _ if !name.is_empty() => return TypeDef::Struct(self.place(name)),
            ("array", _) => {
                return TypeDef::List {
                    by: self.list_by(schema),
                    merge: merge_by(schema),
                    items: Box::new(self.shape(&schema["items"])),
                };
            }
            ("object", _) => {
                return TypeDef::Map {
                    atomic: text("x-kubernetes-map-type") == "atomic",
                    values: Box::new(self.shape(&schema["additionalProperties"])),
                };
            }
            ("string", "byte") => Scalar::Bytes,
            ("string", _) => Scalar::Text,
            ("integer", "int32") => Scalar::Int32,
            ("integer", _) => Scalar::Int64,
            ("number", _) => Scalar::Float,
            ("boolean", _) => Scalar::Flag,
            _ => Scalar::Any,
        })
    }

    fn list_by(&self, list: &Value) -> ListBy {
        match list["x-kubernetes-list-type"].as_str() {
            Some("set") => ListBy::Value,
            Some("map") => {
                let item = list["items"]["$ref"].as_str().unwrap_or_default();
                let fields = &self.0[last_part(item, '/')]["properties"];
                let keys = list["x-kubernetes-list-map-keys"].as_array();
                let keys = keys.into_iter().flatten().filter_map(Value::as_str);
                let key = |key: &str| {
                    let default = fields[key]["default"].as_str();
                    (key.to_owned(), default.map(str::to_owned))
                };
                ListBy::Keys(keys.map(key).collect())
            }
            _ => ListBy::Place,
        }
    }
}

fn merge_by(list: &Value) -> ListBy {
    let said = |what: &str| list[format!("x-kubernetes-patch-{what}")].as_str();
    match (said("strategy"), said("merge-key")) {
        (Some(_), Some(key)) => ListBy::Keys(vec![(key.to_owned(), None)]),
        (Some(_), None) => ListBy::Value,
        (None, _) => ListBy::Place,
    }
}

fn last_part(name: &str, mark: char) -> &str {
    name.rsplit(mark).next().unwrap_or_default()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats the keys that identify a list's items.
    fn keys(kind: Kind, path: &str) -> String {
        let list = path.split('.').fold(of(kind), |shape, name| match shape {
            TypeDef::List { items, .. } => items.member(name),
            shape => shape.member(name),
        });
        match list {
            TypeDef::List {
                by: ListBy::Keys(keys),
                ..
            } => {
                let key = |(key, default): &(String, Option<String>)| match default {
                    Some(default) => format!("{key}={default}"),
                    None => key.clone(),
                };
                keys.iter().map(key).collect::<Vec<_>>().join(",")
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn types_merge_as_their_schemas_say() {
        let check = |kind, path, expected| assert_eq!(keys(kind, path), expected, "{path}");
        let ports = "containerPort,protocol=TCP";
        check(Kind::Pod, "spec.containers", "name=");
        check(Kind::Pod, "spec.containers.ports", ports);
        check(Kind::Job, "spec.template.spec.initContainers.ports", ports);
        check(Kind::Job, "metadata.ownerReferences", "uid=");
        check(Kind::Workload, "spec.podGroupTemplates", "name=");
        check(Kind::PodGroup, "status.conditions", "type=");
        let metadata = of(Kind::Job).member("metadata");
        assert!(!metadata.is_leaf() && metadata.declares("labels"));
        assert!(of(Kind::Job).member("spec").member("selector").is_leaf());
        let uid = metadata.member("uid");
        assert!(matches!(uid, TypeDef::Scalar(Scalar::Text)));
        let created = metadata.member("creationTimestamp");
        assert!(matches!(created, TypeDef::Scalar(Scalar::Time)));
    }
}
