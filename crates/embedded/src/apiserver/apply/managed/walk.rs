//! Walks values along their types: lists fields, compares and merges.
//!
//! Responsible for: the tree walks of server-side apply. Must not: know field managers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::set::FieldSet;
use crate::apiserver::object::{ListBy, Tree, TypeDef};

/// The fields in which two values differ.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) added: FieldSet,
    pub(super) changed: FieldSet,
    pub(super) removed: FieldSet,
}

/// The fields that a value sets.
pub(super) fn fields(shape: &TypeDef, value: &Value) -> FieldSet {
    if shape.is_leaf() {
        return FieldSet {
            here: true,
            ..FieldSet::default()
        };
    }
    let mut set = FieldSet::default();
    for (element, (below, part)) in parts(shape, Some(value)) {
        let mut node = fields(below, part);
        let nothing = part.is_null() || part.as_object().is_some_and(Map::is_empty);
        let name = element.strip_prefix("f:");
        node.here |= name.is_none_or(|name| nothing || !shape.declares(name));
        if !node.is_empty() {
            set.below.entry(element).or_default().add(node);
        }
    }
    set
}

/// Compares two objects.
pub(super) fn compare(shape: &TypeDef, old: &Tree, new: &Tree) -> Difference {
    let mut difference = Difference::default();
    // Members are compared one by one, so that neither object is copied.
    let added = new.keys().filter(|name| !old.contains_key(*name));
    for name in old.keys().chain(added) {
        let mut path = vec![format!("f:{name}")];
        difference.walk(shape.member(name), old.get(name), new.get(name), &mut path);
    }
    difference
}

impl Difference {
    /// All three sets.
    pub(super) fn sets(&mut self) -> [&mut FieldSet; 3] {
        [&mut self.added, &mut self.changed, &mut self.removed]
    }

    fn walk(
        &mut self,
        shape: &TypeDef,
        old: Option<&Value>,
        new: Option<&Value>,
        path: &mut Vec<String>,
    ) {
        if old == new {
            return;
        }
        if shape.is_leaf() || (is_bare(old) && is_bare(new)) {
            match (old, new) {
                (None, _) => self.added.insert(path),
                (_, None) => self.removed.insert(path),
                _ => self.changed.insert(path),
            }
            return;
        }
        let mut both: BTreeMap<String, (&TypeDef, [Option<&Value>; 2])> = BTreeMap::new();
        for (side, value) in [old, new].into_iter().enumerate() {
            // Of several parts with the same element, the first counts.
            for (element, (shape, part)) in parts(shape, value).into_iter().rev() {
                both.entry(element).or_insert((shape, [None; 2])).1[side] = Some(part);
            }
        }
        for (element, (shape, [old, new])) in both {
            path.push(element);
            self.walk(shape, old, new, path);
            path.pop();
        }
        match (old, new) {
            (None, _) => self.added.insert(path),
            (_, None) => self.removed.insert(path),
            _ => {}
        }
    }
}

/// Merges `config` into `live`, as apply does.
pub(super) fn merge(shape: &TypeDef, live: Option<&Value>, config: &Value) -> Value {
    let Some(live) = live.filter(|_| !shape.is_leaf()) else {
        return config.clone();
    };
    match (shape, live, config) {
        (TypeDef::List { by, items, .. }, Value::Array(live), Value::Array(config)) => {
            Value::Array(merge_list(by, items, live, config))
        }
        (_, Value::Object(live), Value::Object(config)) => {
            let mut merged = live.clone();
            for (name, member) in config {
                let member = merge(shape.member(name), live.get(name), member);
                merged.insert(name.clone(), member);
            }
            Value::Object(merged)
        }
        _ => config.clone(),
    }
}

/// Merges two lists. Applied items come in the order of the configuration. Other live items keep their position
/// relative to the items that both lists have.
fn merge_list(by: &ListBy, items: &TypeDef, live: &[Value], config: &[Value]) -> Vec<Value> {
    let (live, config) = (elements(by, live), elements(by, config));
    let index = |list: &[(String, &Value)]| -> BTreeMap<String, usize> {
        // Of several items with the same element, the first counts.
        let places = list.iter().enumerate().rev();
        places
            .map(|(place, (element, _))| (element.clone(), place))
            .collect()
    };
    let (in_live, in_config) = (index(&live), index(&config));
    let shared = config.iter().map(|(element, _)| element);
    let mut shared = shared
        .filter(|element| in_live.contains_key(*element))
        .peekable();
    let mut merged = Vec::new();
    let (mut old, mut new) = (0, 0);
    while old < live.len() || new < config.len() {
        if let Some((mine, item)) = live.get(old) {
            let Some(place) = in_config.get(mine) else {
                merged.push((*item).clone());
                old += 1;
                continue;
            };
            let awaited = new < config.len() && shared.peek().is_some_and(|next| *next != mine);
            if *place < new || awaited {
                // The item is merged already, or will be at its position in the configuration.
                old += 1;
                continue;
            }
        }
        let Some((theirs, change)) = config.get(new) else {
            break;
        };
        let there = in_live.get(theirs).map(|place| live[*place].1);
        merged.push(merge(items, there, change));
        new += 1;
        shared.next_if(|next| *next == theirs);
    }
    merged
}

/// Returns `value` without the fields of a set; null if nothing is left.
pub(super) fn remove(shape: &TypeDef, value: &Value, set: &FieldSet) -> Value {
    if shape.is_leaf() {
        return value.clone();
    }
    let kept = parts(shape, Some(value)).into_iter();
    let kept = kept.filter_map(|(element, (below, part))| match set.below.get(&element) {
        Some(node) if node.here => None,
        Some(node) => Some((element, remove(below, part, node))),
        None => Some((element, part.clone())),
    });
    let kept: Value = match value {
        Value::Array(_) => kept.map(|(_, item)| item).collect(),
        Value::Object(_) => kept
            .map(|(element, part)| (element[2..].to_owned(), part))
            .collect(),
        _ => return value.clone(),
    };
    Some(kept)
        .filter(|kept| !is_bare(Some(kept)))
        .unwrap_or_default()
}

/// Returns a set plus the declared fields along its paths.
pub(super) fn with_named(shape: &TypeDef, set: &FieldSet) -> FieldSet {
    let mut named = FieldSet {
        here: set.here,
        ..FieldSet::default()
    };
    for (element, node) in &set.below {
        let mut node = with_named(shape.below(element), node);
        let name = element.strip_prefix("f:");
        node.here |= name.is_some_and(|name| shape.declares(name));
        named.below.insert(element.clone(), node);
    }
    named
}

/// The items of a list, each with its path element.
pub(super) fn elements<'a>(by: &ListBy, list: &'a [Value]) -> Vec<(String, &'a Value)> {
    let mut place = 0..;
    list.iter()
        .map(|item| {
            let element = match by {
                ListBy::Place => format!("i:{}", place.next().unwrap_or(0)),
                ListBy::Value => format!("v:{item}"),
                ListBy::Keys(keys) => {
                    let key = |(key, default): &(String, Option<String>)| {
                        let given = item.get(key).cloned();
                        (key.clone(), given.unwrap_or_else(|| json!(default)))
                    };
                    format!("k:{}", Value::Object(keys.iter().map(key).collect()))
                }
            };
            (element, item)
        })
        .collect()
}

/// The parts of a value, each with its path element and its type.
fn parts<'a>(
    shape: &'a TypeDef,
    value: Option<&'a Value>,
) -> Vec<(String, (&'a TypeDef, &'a Value))> {
    match (shape, value) {
        (TypeDef::List { by, items, .. }, Some(Value::Array(list))) => {
            let elements = elements(by, list).into_iter();
            elements
                .map(|(element, item)| (element, (&**items, item)))
                .collect()
        }
        (_, Some(Value::Object(members))) => members
            .iter()
            .map(|(name, part)| (format!("f:{name}"), (shape.member(name), part)))
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns true if a value is missing, null or empty.
fn is_bare(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(members)) => members.is_empty(),
        Some(_) => false,
    }
}
