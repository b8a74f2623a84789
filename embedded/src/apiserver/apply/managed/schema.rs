//! The definitions of all types: which fields there are, and how they merge.
//!
//! Responsible for: reading `schema.txt` once and finding types. Must not: look at values.
//!
//! A line of the table is a type with its fields. `str`, `num`, `bool` and `any` are single values;
//! `[]T` is a list that is one value, `[=]T` a set, `[a,b=c]T` a list whose items are known by the
//! fields a and b, b being c where it is missing; `{}T` is a map, `{!}T` one that is one value. A `!`
//! behind a type's name says that whole objects of it are one value.

use std::{collections::BTreeMap, sync::LazyLock};

use crate::apiserver::object::kind::Kind;

/// What a value looks like.
#[derive(Debug)]
pub(super) enum TypeDef {
    Text,
    Number,
    Flag,
    /// Anything; never looked into.
    Any,
    /// An object with fields; the index of its type in the table.
    Struct(usize),
    Map {
        atomic: bool,
        values: Box<Self>,
    },
    List {
        by: ListBy,
        items: Box<Self>,
    },
}

/// What identifies the items of a list.
#[derive(Debug)]
pub(super) enum ListBy {
    /// Nothing: the list is one value.
    Place,
    /// Themselves.
    Value,
    /// Some of their fields, with the values these have where they are missing.
    Keys(Vec<(&'static str, Option<&'static str>)>),
}

/// A type with fields.
#[derive(Debug)]
pub(super) struct Struct {
    pub(super) atomic: bool,
    pub(super) fields: BTreeMap<&'static str, TypeDef>,
}

static ANY: TypeDef = TypeDef::Any;
static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("schema.txt")));

struct Table {
    names: Vec<&'static str>,
    types: Vec<Struct>,
}

/// The shape of a kind's objects.
pub(super) fn of(kind: Kind) -> TypeDef {
    TypeDef::Struct(TABLE.place(kind.info().name))
}

/// The type behind [`TypeDef::Struct`].
pub(super) fn type_at(place: usize) -> &'static Struct {
    &TABLE.types[place]
}

impl TypeDef {
    /// Whether values of this shape are taken as a whole.
    pub(super) fn is_leaf(&self) -> bool {
        match self {
            Self::Text | Self::Number | Self::Flag | Self::Any => true,
            Self::Struct(place) => type_at(*place).atomic,
            Self::Map { atomic, .. } => *atomic,
            Self::List { by, .. } => matches!(by, ListBy::Place),
        }
    }

    /// The shape of a member of an object.
    pub(super) fn member(&self, name: &str) -> &Self {
        match self {
            Self::Struct(place) => type_at(*place).fields.get(name).unwrap_or(&ANY),
            Self::Map { values, .. } => values,
            _ => &ANY,
        }
    }

    /// Whether an object's member is a field of its type, not an entry of a map.
    pub(super) fn declares(&self, name: &str) -> bool {
        match self {
            Self::Struct(place) => type_at(*place).fields.contains_key(name),
            _ => false,
        }
    }

    /// The shape of what stands behind an element of a path.
    pub(super) fn below(&self, element: &str) -> &Self {
        match (self, element.strip_prefix("f:")) {
            (_, Some(name)) => self.member(name),
            (Self::List { items, .. }, None) => items,
            (_, None) => &ANY,
        }
    }
}

impl Table {
    fn read(text: &'static str) -> Self {
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        let head = |line: &'static str| line.split(' ').next().unwrap_or(line);
        let names = lines()
            .map(|line| head(line).trim_end_matches('!'))
            .collect();
        let mut table = Self {
            names,
            types: Vec::new(),
        };
        for line in lines() {
            let fields = line.split(' ').skip(1).map(|field| {
                let (name, shape) = field.split_once(':').expect("a field has a shape");
                (name, table.shape(shape))
            });
            let read = Struct {
                atomic: head(line).ends_with('!'),
                fields: fields.collect(),
            };
            table.types.push(read);
        }
        table
    }

    fn place(&self, name: &str) -> usize {
        let found = self.names.binary_search(&name);
        found.unwrap_or_else(|_| panic!("the table of types has {name}, in order"))
    }

    fn shape(&self, text: &'static str) -> TypeDef {
        if let Some(rest) = text.strip_prefix('[') {
            let (by, items) = rest.split_once(']').expect("a list has an end");
            return TypeDef::List {
                by: ListBy::read(by),
                items: Box::new(self.shape(items)),
            };
        }
        if let Some(rest) = text.strip_prefix('{') {
            let (mark, values) = rest.split_once('}').expect("a map has an end");
            return TypeDef::Map {
                atomic: mark == "!",
                values: Box::new(self.shape(values)),
            };
        }
        match text {
            "str" => TypeDef::Text,
            "num" => TypeDef::Number,
            "bool" => TypeDef::Flag,
            "any" => TypeDef::Any,
            name => TypeDef::Struct(self.place(name)),
        }
    }
}

impl ListBy {
    fn read(text: &'static str) -> Self {
        match text {
            "" => Self::Place,
            "=" => Self::Value,
            keys => Self::Keys(
                keys.split(',')
                    .map(|key| match key.split_once('=') {
                        Some((key, default)) => (key, Some(default)),
                        None => (key, None),
                    })
                    .collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_shape() {
        for kind in Kind::all() {
            let shape = of(kind);
            assert!(shape.declares("metadata"), "{kind:?}");
            assert!(!shape.is_leaf());
        }
        let names = &TABLE.names;
        assert!(names.is_sorted(), "types stand in order");
        let port = of(Kind::Pod);
        let container = port.member("spec").member("containers").below("k:{}");
        let TypeDef::List {
            by: ListBy::Keys(keys),
            ..
        } = container.member("ports")
        else {
            panic!("ports are known by keys")
        };
        assert_eq!(keys, &[("containerPort", None), ("protocol", Some("TCP"))]);
        assert!(of(Kind::Job).member("spec").member("selector").is_leaf());
    }
}
