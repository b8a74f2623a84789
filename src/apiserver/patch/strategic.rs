//! Strategic merge patch: merge patch in which lists merge by a key.
//!
//! Responsible for: the directives and the table of merge keys. Must not: check results.
//!
//! Different from a real server: merge keys hang on the name of the list alone, because the
//! kinds served here use each name in one way.

use serde_json::Value;

use crate::apiserver::{
    error::{ApiError, Result},
    object::Tree,
};

/// Lists that merge, by member name, with the key of their items.
const MERGE_KEYS: &[(&str, &str)] = &[
    ("ownerReferences", "uid"),
    ("conditions", "type"),
    ("containers", "name"),
    ("initContainers", "name"),
    ("ephemeralContainers", "name"),
    ("env", "name"),
    ("volumes", "name"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("ports", "containerPort"),
    ("imagePullSecrets", "name"),
    ("hostAliases", "ip"),
    ("topologySpreadConstraints", "topologyKey"),
    ("schedulingGates", "name"),
    ("resourceClaims", "name"),
    ("podIPs", "ip"),
    ("hostIPs", "ip"),
    ("addresses", "type"),
    ("taints", "key"),
    ("secrets", "name"),
];

/// Lists of plain values that merge as sets.
const SETS: &[&str] = &["finalizers", "podCIDRs"];

const DELETE_SET: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";
const RETAIN_KEYS: &str = "$retainKeys";

/// Merges `patch` into `tree`.
pub(super) fn apply(tree: &mut Tree, patch: &Tree) -> Result<()> {
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
            let order = patch.get(&format!("{SET_ORDER}{name}"));
            merge_member(tree, name, change, order.and_then(Value::as_array))?;
        }
    }
    Ok(())
}

fn merge_member(
    tree: &mut Tree,
    name: &str,
    change: &Value,
    order: Option<&Vec<Value>>,
) -> Result<()> {
    match change {
        Value::Null => {
            tree.remove(name);
        }
        Value::Object(change) => {
            let member = tree.entry(name.to_owned()).or_insert(Value::Null);
            if !member.is_object() {
                *member = Value::Object(Tree::new());
            }
            if let Value::Object(member) = member {
                apply(member, change)?;
            }
        }
        Value::Array(change) => merge_list(tree, name, change, order)?,
        other => {
            tree.insert(name.to_owned(), other.clone());
        }
    }
    Ok(())
}

fn merge_list(
    tree: &mut Tree,
    name: &str,
    change: &[Value],
    order: Option<&Vec<Value>>,
) -> Result<()> {
    let Some(Value::Array(items)) = tree.get_mut(name) else {
        let fresh = change.iter().filter(|item| item.get("$patch").is_none());
        tree.insert(name.to_owned(), fresh.cloned().collect());
        return Ok(());
    };
    let order = order.map_or(change, Vec::as_slice);
    if SETS.contains(&name) {
        let before = items.clone();
        for value in change {
            if !items.contains(value) {
                items.push(value.clone());
            }
        }
        reorder(items, &before, order, None);
        return Ok(());
    }
    let Some(key) = merge_key(name, change) else {
        *items = change.to_vec();
        return Ok(());
    };
    if change
        .iter()
        .any(|item| item.get("$patch").is_some_and(|it| it == "replace"))
    {
        let rest = change.iter().filter(|item| item.get("$patch").is_none());
        *items = rest.cloned().collect();
        return Ok(());
    }
    let before = items.clone();
    for item in change {
        merge_item(items, key, item)?;
    }
    reorder(items, &before, order, Some(key));
    Ok(())
}

/// Puts a merged list in order: what the patch names comes in the patch's order, the rest in the order
/// that it had, and of one of each that were there before, the first one stays first.
fn reorder(items: &mut Vec<Value>, before: &[Value], order: &[Value], key: Option<&str>) {
    let place = |list: &[Value], item: &Value| match key {
        None => list.iter().position(|have| have == item),
        Some(key) => {
            let wanted = item.get(key)?;
            list.iter().position(|have| have.get(key) == Some(wanted))
        }
    };
    let (mut named, rest): (Vec<Value>, Vec<Value>) = std::mem::take(items)
        .into_iter()
        .partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    let mut named = named.into_iter().peekable();
    for item in rest {
        let stays_behind = |first: &Value| match (place(before, first), place(before, &item)) {
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

fn merge_item(items: &mut Vec<Value>, key: &str, change: &Value) -> Result<()> {
    let Some(wanted) = change.get(key) else {
        let message = format!("map: map[{key}:<nil>] does not contain declared merge key: {key}");
        return Err(ApiError::new(500, "InternalError", message));
    };
    let place = items.iter().position(|item| item.get(key) == Some(wanted));
    let directive = change.get("$patch").and_then(Value::as_str);
    match (directive, place) {
        (Some("delete"), Some(_)) => items.retain(|item| item.get(key) != Some(wanted)),
        (Some("delete"), None) => {}
        (_, Some(place)) => {
            if let (Value::Object(item), Value::Object(change)) = (&mut items[place], change) {
                apply(item, change)?;
            }
        }
        (_, None) => {
            let mut fresh = Tree::new();
            if let Value::Object(change) = change {
                apply(&mut fresh, change)?;
            }
            items.push(Value::Object(fresh));
        }
    }
    Ok(())
}

/// The merge key of a list of objects; `ports` of a Service-like list has another key, so the
/// items must carry it.
fn merge_key(name: &str, change: &[Value]) -> Option<&'static str> {
    let (_, key) = MERGE_KEYS.iter().find(|(list, _)| *list == name)?;
    change.iter().all(Value::is_object).then_some(*key)
}

fn delete_from_set(tree: &mut Tree, list: &str, values: &Value) {
    let (Some(Value::Array(items)), Value::Array(values)) = (tree.get_mut(list), values) else {
        return;
    };
    items.retain(|item| !values.contains(item));
}

fn retain_keys(tree: &mut Tree, patch: &Tree) {
    if let Some(Value::Array(keys)) = patch.get(RETAIN_KEYS) {
        tree.retain(|name, _| keys.iter().any(|key| key == name));
    }
}

fn unknown_directive(directive: &str, patch: &Tree) -> ApiError {
    let patch = go_text(&Value::Object(patch.clone()));
    let message = format!("unknown patch type: {directive} in map: {patch}");
    ApiError::new(500, "", message)
}

/// A value as Go prints it.
pub(super) fn go_text(value: &Value) -> String {
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

    fn check(before: &Value, patch: &Value, expected: &Value) {
        let mut tree = before.as_object().unwrap().clone();
        apply(&mut tree, patch.as_object().unwrap()).unwrap();
        assert_eq!(Value::Object(tree), *expected, "{patch}");
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
