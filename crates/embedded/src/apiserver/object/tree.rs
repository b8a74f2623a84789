//! Provides access to objects as JSON trees while a request works on them.
//!
//! Responsible for: reading and writing members, mainly those of `metadata`. Must not: know kinds or rules.

use std::sync::LazyLock;

use serde_json::{Map, Value};

/// A JSON object.
pub(crate) type Tree = Map<String, Value>;

static EMPTY: LazyLock<Tree> = LazyLock::new(Tree::new);

/// An object without members.
pub(crate) fn empty() -> &'static Tree {
    &EMPTY
}

/// The object's metadata; empty if it has none.
pub(crate) fn metadata(tree: &Tree) -> &Tree {
    section(tree, "metadata")
}

/// The object's metadata, inserted if missing.
pub(crate) fn metadata_mut(tree: &mut Tree) -> &mut Tree {
    section_mut(tree, "metadata")
}

/// The value at a path; `a.b` is the member b of the member a.
fn get<'a>(tree: &'a Tree, path: &str) -> Option<&'a Value> {
    let mut names = names(path);
    let first = tree.get(names.next()?)?;
    names.try_fold(first, |whole, name| whole.get(name))
}

/// The names in a dotted path. `split` is slower for such short strings.
pub(super) fn names(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let path = rest?;
        let end = path.bytes().position(|byte| byte == b'.');
        rest = end.map(|end| &path[end + 1..]);
        Some(end.map_or(path, |end| &path[..end]))
    })
}

/// The object at a path; empty if it is missing or has another type.
pub(crate) fn section<'a>(tree: &'a Tree, path: &str) -> &'a Tree {
    match get(tree, path) {
        Some(Value::Object(section)) => section,
        _ => &EMPTY,
    }
}

/// An object of strings; empty strings are left out.
pub(crate) fn of_texts<const N: usize>(members: [(&str, &str); N]) -> Value {
    let given = members.into_iter().filter(|(_, text)| !text.is_empty());
    given.collect()
}

/// A member that is an object; inserted if it is missing or has another type.
pub(crate) fn section_mut<'a>(tree: &'a mut Tree, name: &str) -> &'a mut Tree {
    if !matches!(tree.get(name), Some(Value::Object(_))) {
        tree.insert(name.to_owned(), Value::Object(Tree::new()));
    }
    match tree.get_mut(name) {
        Some(Value::Object(section)) => section,
        _ => unreachable!("the member was just made an object"),
    }
}

/// The string at a path; empty if missing.
pub(crate) fn text<'a>(tree: &'a Tree, path: &str) -> &'a str {
    get(tree, path).and_then(Value::as_str).unwrap_or_default()
}

/// The strings of the array at a path.
pub(crate) fn strings<'a>(tree: &'a Tree, path: &str) -> impl Iterator<Item = &'a str> {
    items(tree, path).iter().filter_map(Value::as_str)
}

/// The elements of the array at a path.
pub(crate) fn items<'a>(tree: &'a Tree, path: &str) -> &'a [Value] {
    let array = get(tree, path).and_then(Value::as_array);
    array.map_or(&[], Vec::as_slice)
}

/// The elements of an array member; inserted if it is missing or has another type.
pub(crate) fn list_mut<'a>(tree: &'a mut Tree, name: &str) -> &'a mut Vec<Value> {
    if !matches!(tree.get(name), Some(Value::Array(_))) {
        tree.insert(name.to_owned(), Value::Array(Vec::new()));
    }
    match tree.get_mut(name) {
        Some(Value::Array(items)) => items,
        _ => unreachable!("the member was just made an array"),
    }
}

/// The objects of an array member.
pub(crate) fn objects_mut<'a>(
    tree: &'a mut Tree,
    name: &str,
) -> impl Iterator<Item = &'a mut Tree> {
    let items = tree.get_mut(name).and_then(Value::as_array_mut);
    let items = items.into_iter().flatten();
    items.filter_map(Value::as_object_mut)
}

/// The integer at a path.
pub(crate) fn int(tree: &Tree, path: &str) -> Option<i64> {
    get(tree, path).and_then(Value::as_i64)
}

/// Returns true if the value at a path is `true`.
pub(crate) fn flag(tree: &Tree, path: &str) -> bool {
    get(tree, path) == Some(&Value::Bool(true))
}

/// Sets a member if it is missing or null.
pub(crate) fn default(tree: &mut Tree, name: &str, value: impl Into<Value>) {
    if matches!(tree.get(name), None | Some(Value::Null)) {
        tree.insert(name.to_owned(), value.into());
    }
}

/// Copies a member from `from`, or removes it if `from` lacks it.
pub(crate) fn restore(tree: &mut Tree, from: &Tree, name: &str) {
    match from.get(name) {
        Some(value) if tree.get(name) == Some(value) => {}
        Some(value) => drop(tree.insert(name.to_owned(), value.clone())),
        None => drop(tree.remove(name)),
    }
}

/// Removes a string from an array member, and the member if it becomes empty.
pub(crate) fn remove_string(tree: &mut Tree, name: &str, value: &str) {
    let Some(Value::Array(items)) = tree.get_mut(name) else {
        return;
    };
    items.retain(|item| item != value);
    if items.is_empty() {
        tree.remove(name);
    }
}

/// Adds a string to an array member unless it is present.
pub(crate) fn add_string(tree: &mut Tree, name: &str, value: &str) {
    let items = list_mut(tree, name);
    if !items.iter().any(|item| item == value) {
        items.push(value.into());
    }
}

/// Removes null members at every depth, and empty maps, lists and strings directly in `metadata`, so that equal objects
/// have equal trees.
pub(crate) fn drop_nulls(tree: &mut Tree) {
    drop_null_members(tree);
    if let Some(Value::Object(metadata)) = tree.get_mut("metadata") {
        metadata.retain(|_, value| match value {
            Value::Object(members) => !members.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => true,
        });
    }
}

fn drop_null_members(tree: &mut Tree) {
    tree.retain(|_, value| !value.is_null());
    tree.values_mut().for_each(drop_nulls_in);
}

fn drop_nulls_in(value: &mut Value) {
    match value {
        Value::Object(members) => drop_null_members(members),
        Value::Array(items) => items.iter_mut().for_each(drop_nulls_in),
        _ => {}
    }
}
