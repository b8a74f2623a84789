//! Implements strategic merge patch: a merge patch that merges lists by a key.
//!
//! Responsible for: the directives; the types define the merge keys. Must not: validate results.

use hashbrown::{HashMap, HashSet};
use serde_json::Value;

use crate::apiserver::object::{ApiError, ListBy, Result, Tree, TypeDef, tree};

const DELETE_SET: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";
const RETAIN_KEYS: &str = "$retainKeys";

/// Merges `patch` into `tree`, an object of the type `shape`.
pub(super) fn apply(shape: &TypeDef, tree: &mut Tree, patch: &Tree) -> Result<()> {
    match patch.get("$patch").and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("replace") => tree.clear(),
        Some("delete") => {
            tree.clear();
            return Ok(());
        }
        Some(other) => return Err(unknown_directive(other, patch)),
    }
    retain_keys(tree, patch);
    for (name, change) in patch {
        if let Some(list) = name.strip_prefix(DELETE_SET) {
            delete_from_set(tree, list, change);
        } else if !name.starts_with('$') {
            let order = change.as_array().map(|_| format!("{SET_ORDER}{name}"));
            let order = order.and_then(|order| patch.get(&order));
            merge_member(shape.member(name), tree, name, change, order)?;
        }
    }
    Ok(())
}

fn merge_member(
    shape: &TypeDef,
    tree: &mut Tree,
    name: &str,
    change: &Value,
    order: Option<&Value>,
) -> Result<()> {
    match change {
        Value::Null => drop(tree.remove(name)),
        Value::Object(change) => apply(shape, tree::section_mut(tree, name), change)?,
        Value::Array(change) => match tree.get_mut(name) {
            Some(Value::Array(items)) => {
                let order = order.and_then(Value::as_array).unwrap_or(change);
                merge_list(shape, items, change, order)?;
            }
            _ => {
                let fresh = change.iter().filter(|item| item.get("$patch").is_none());
                tree.insert(name.to_owned(), fresh.cloned().collect());
            }
        },
        other => drop(tree.insert(name.to_owned(), other.clone())),
    }
    Ok(())
}

fn merge_list(
    shape: &TypeDef,
    items: &mut Vec<Value>,
    change: &[Value],
    order: &[Value],
) -> Result<()> {
    let (merge, shape) = match shape {
        TypeDef::List { merge, items, .. } => (merge, &**items),
        _ => (&ListBy::Place, shape),
    };
    let key = match merge {
        ListBy::Value => {
            let before = Places::of(items, None);
            let mut known: HashSet<&Value> = HashSet::new();
            for value in change {
                if known.insert(value) && before.find(value).is_none() {
                    items.push(value.clone());
                }
            }
            reorder(items, &before, &Places::of(order, None));
            return Ok(());
        }
        ListBy::Keys(keys) if change.iter().all(Value::is_object) => &*keys[0].0,
        _ => {
            *items = change.to_vec();
            return Ok(());
        }
    };
    let replaces = |item: &Value| item.get("$patch").is_some_and(|it| it == "replace");
    if change.iter().any(replaces) {
        let rest = change.iter().filter(|item| item.get("$patch").is_none());
        *items = rest.cloned().collect();
        return Ok(());
    }
    let before = Places::of(items, Some(key));
    merge_items(shape, items, before.clone(), key, change)?;
    reorder(items, &before, &Places::of(order, Some(key)));
    Ok(())
}

/// The first position of each item of a list, by its identity: the value of its key, or the item itself. A map, because
/// a patch may name every item, and a search for each would be quadratic.
#[derive(Clone)]
struct Places<'k> {
    key: Option<&'k str>,
    by_identity: HashMap<Value, usize>,
}

impl<'k> Places<'k> {
    fn of(list: &[Value], key: Option<&'k str>) -> Self {
        let by_identity = HashMap::with_capacity(list.len());
        let mut places = Self { key, by_identity };
        for (place, item) in list.iter().enumerate() {
            if let Some(identity) = places.identity(item) {
                places.by_identity.entry_ref(identity).or_insert(place);
            }
        }
        places
    }

    fn identity<'a>(&self, item: &'a Value) -> Option<&'a Value> {
        match self.key {
            None => Some(item),
            Some(key) => item.get(key),
        }
    }

    fn find(&self, item: &Value) -> Option<usize> {
        self.by_identity.get(self.identity(item)?).copied()
    }
}

/// Sorts a merged list: items in `order` come in that order, the others in their previous order. Two items, one from
/// each group, keep their relative order if both were in the list before.
fn reorder(items: &mut Vec<Value>, before: &Places<'_>, order: &Places<'_>) {
    let (mut named, rest): (Vec<Value>, Vec<Value>) = std::mem::take(items)
        .into_iter()
        .partition(|item| order.find(item).is_some());
    named.sort_by_cached_key(|item| order.find(item));
    let mut named = named.into_iter().peekable();
    for item in rest {
        let place = before.find(&item);
        let stays_behind = |first: &Value| match (before.find(first), place) {
            (Some(first), Some(item)) => first < item,
            _ => true,
        };
        while let Some(first) = named.next_if(stays_behind) {
            items.push(first);
        }
        items.push(item);
    }
    items.extend(named);
}

/// Merges items one by one, in the order of the patch.
fn merge_items(
    shape: &TypeDef,
    items: &mut Vec<Value>,
    mut places: Places<'_>,
    key: &str,
    changes: &[Value],
) -> Result<()> {
    // For each deleted identity, the index below which its items are removed.
    let mut deleted: HashMap<&Value, usize> = HashMap::new();
    for change in changes {
        let Some(wanted) = change.get(key) else {
            let message =
                format!("map: map[{key}:<nil>] does not contain declared merge key: {key}");
            return Err(ApiError::new(500, "InternalError", message));
        };
        let place = places.by_identity.get(wanted).copied();
        let directive = change.get("$patch").and_then(Value::as_str);
        match (directive, place) {
            (Some("delete"), Some(_)) => {
                places.by_identity.remove(wanted);
                deleted.insert(wanted, items.len());
            }
            (Some("delete"), None) => {}
            (_, Some(place)) => {
                if let (Value::Object(item), Value::Object(change)) = (&mut items[place], change) {
                    apply(shape, item, change)?;
                }
            }
            (_, None) => {
                let mut fresh = Tree::new();
                if let Value::Object(change) = change {
                    apply(shape, &mut fresh, change)?;
                }
                places.by_identity.insert(wanted.clone(), items.len());
                items.push(Value::Object(fresh));
            }
        }
    }
    if !deleted.is_empty() {
        let mut place = 0;
        items.retain(|item| {
            let until = item.get(key).and_then(|identity| deleted.get(identity));
            place += 1;
            until.is_none_or(|until| place > *until)
        });
    }
    Ok(())
}

fn delete_from_set(tree: &mut Tree, list: &str, values: &Value) {
    let (Some(Value::Array(items)), Value::Array(values)) = (tree.get_mut(list), values) else {
        return;
    };
    let values: HashSet<&Value> = values.iter().collect();
    items.retain(|item| !values.contains(item));
}

fn retain_keys(tree: &mut Tree, patch: &Tree) {
    if let Some(Value::Array(keys)) = patch.get(RETAIN_KEYS) {
        let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
        tree.retain(|name, _| keys.contains(name.as_str()));
    }
}

fn unknown_directive(directive: &str, patch: &Tree) -> ApiError {
    let patch = go_text(&Value::Object(patch.clone()));
    let message = format!("unknown patch type: {directive} in map: {patch}");
    ApiError::new(500, "", message)
}

/// A value in Go's print format.
pub(crate) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{name}:{}", go_text(value));
            let members: Vec<String> = members.iter().map(member).collect();
            format!("map[{}]", members.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apiserver::object::{Kind, type_def};

    fn check(before: &Value, patch: &Value, expected: &Value) {
        let mut tree = before.as_object().unwrap().clone();
        let shape = type_def::of(Kind::Pod);
        apply(shape, &mut tree, patch.as_object().unwrap()).unwrap();
        assert_eq!(Value::Object(tree), *expected, "{patch}");
    }

    #[test]
    fn an_item_may_be_deleted_and_made_anew_in_one_patch() {
        let twice = json!([{"uid": "1", "kind": "A"}, {"uid": "2"}, {"uid": "1", "kind": "B"}]);
        let deleted = json!({"$patch": "delete", "uid": "1"});
        let cases = [
            (json!([deleted]), json!([{"uid": "2"}])),
            (
                json!([deleted, {"uid": "1", "kind": "C"}]),
                json!([{"uid": "1", "kind": "C"}, {"uid": "2"}]),
            ),
            (
                json!([{"uid": "1", "kind": "C"}, deleted]),
                json!([{"uid": "2"}]),
            ),
            (
                json!([{"uid": "3"}, {"$patch": "delete", "uid": "3"}, {"uid": "3", "kind": "D"}]),
                json!([{"uid": "3", "kind": "D"}, {"uid": "1", "kind": "A"}, {"uid": "2"},
                       {"uid": "1", "kind": "B"}]),
            ),
        ];
        for (patch, expected) in cases {
            check(
                &json!({"metadata": {"ownerReferences": twice}}),
                &json!({"metadata": {"ownerReferences": patch}}),
                &json!({"metadata": {"ownerReferences": expected}}),
            );
        }
    }

    #[test]
    fn lists_merge_by_key() {
        check(
            &json!({"metadata": {"finalizers": ["a", "b"]}}),
            &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
            &json!({"metadata": {"finalizers": ["b"]}}),
        );
        check(
            &json!({"metadata": {"finalizers": ["a"]}}),
            &json!({"metadata": {"finalizers": ["b", "a"]}}),
            &json!({"metadata": {"finalizers": ["b", "a"]}}),
        );
        check(
            &json!({"metadata": {"ownerReferences": [{"uid": "1"}, {"uid": "2"}]}}),
            &json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "1"}]}}),
            &json!({"metadata": {"ownerReferences": [{"uid": "2"}]}}),
        );
        check(
            &json!({"status": {"conditions": [{"type": "A", "status": "False"}]}}),
            &json!({"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B"}],
                    "$setElementOrder/conditions": [{"type": "B"}, {"type": "A"}]}}),
            &json!({"status": {"conditions": [{"type": "B"}, {"type": "A", "status": "True"}]}}),
        );
        check(
            &json!({"status": {"containerStatuses": [{"name": "a"}]}}),
            &json!({"status": {"containerStatuses": [{"name": "b"}]}}),
            &json!({"status": {"containerStatuses": [{"name": "b"}]}}),
        );
        check(
            &json!({"spec": {"strategy": {"type": "A", "old": 1}}}),
            &json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "B"}}}),
            &json!({"spec": {"strategy": {"type": "B"}}}),
        );
    }
}
