//! Implements JSON patch (RFC 6902).
//!
//! Responsible for: parsing and applying operations as the real server's library does: a negative index counts from the
//! end, and copying a missing member yields null. Must not: know Kubernetes.

use serde_json::{Value, json};

use crate::{
    apiserver::object::{ApiError, JsonView, Result, Tree},
    json::read_json,
};

/// Most operations in one patch, as on a real server.
const MAX_OPERATIONS: usize = 10_000;

/// Most bytes that the copies of one patch may create, as on a real server: each copy could double the object.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// One operation.
#[derive(Debug)]
pub(crate) struct PatchOperation {
    op: String,
    path: String,
    from: String,
    value: Option<Value>,
}

impl PatchOperation {
    /// Returns true if the operation can change the given top-level member.
    pub(super) fn touches(&self, member: &str) -> bool {
        [&self.path, &self.from]
            .into_iter()
            .any(|pointer| pointer.is_empty() || pointer.split('/').nth(1) == Some(member))
    }
}

/// Parses the operations.
pub(super) fn read(body: &[u8]) -> Result<Vec<PatchOperation>> {
    let value: Value = read_json(body).map_err(|error| not_json(&error))?;
    let Value::Array(items) = value else {
        let why = "error decoding patch: json: cannot unmarshal object into Go value of type \
                   []handlers.jsonPatchOp";
        return Err(ApiError::bad_request(why));
    };
    if items.len() > MAX_OPERATIONS {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            items.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    Ok(items.into_iter().map(operation).collect())
}

/// The error for a patch that is not JSON.
pub(crate) fn not_json(error: &serde_json::Error) -> ApiError {
    let why = match error.is_eof() {
        true => "unexpected end of JSON input".to_owned(),
        false => error.to_string(),
    };
    ApiError::bad_request(format!("error decoding patch: {why}"))
}

fn operation(mut item: Value) -> PatchOperation {
    let text = |name: &str| JsonView::from(Some(&item)).at(name).text().to_owned();
    PatchOperation {
        op: text("op"),
        path: text("path"),
        from: text("from"),
        value: item.as_object_mut().and_then(|item| item.remove("value")),
    }
}

/// Applies all operations, or none.
pub(super) fn apply(operations: &[PatchOperation], tree: &mut Tree) -> Result<()> {
    let mut root = Value::Object(tree.clone());
    let mut copied = 0;
    for operation in operations {
        step(&mut root, operation, &mut copied).ok_or_else(refused)?;
    }
    match root {
        Value::Object(patched) => {
            *tree = patched;
            Ok(())
        }
        _ => Err(refused()),
    }
}

fn refused() -> ApiError {
    let message = "the server rejected our request due to an error in our request";
    ApiError::new(422, "Invalid", message).with_details(json!({}))
}

/// Applies one operation; `copied` counts the bytes copied so far.
fn step(root: &mut Value, operation: &PatchOperation, copied: &mut usize) -> Option<()> {
    let given = || operation.value.clone();
    match operation.op.as_str() {
        "add" => add(root, &operation.path, given()?),
        "remove" => remove(root, &operation.path).map(drop),
        "replace" => match find(root, &operation.path) {
            Some(place) => {
                *place = given()?;
                Some(())
            }
            // A missing member is added.
            None => {
                let (parent, _) = parent(root, &operation.path)?;
                parent.is_object().then_some(())?;
                add(root, &operation.path, given()?)
            }
        },
        "move" => {
            let value = remove(root, &operation.from)?;
            add(root, &operation.path, value)
        }
        "copy" => {
            let value = copy(root, &operation.from)?;
            *copied += value.to_string().len();
            if *copied > MAX_COPIED {
                return None;
            }
            add(root, &operation.path, value)
        }
        "test" => {
            let wanted = given().unwrap_or_default();
            match find(root, &operation.path) {
                Some(found) => *found == wanted,
                None => wanted.is_null(),
            }
            .then_some(())
        }
        _ => None,
    }
}

/// The value that a pointer refers to.
fn find<'a>(root: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    if path.is_empty() {
        return Some(root);
    }
    let mut segments = path.strip_prefix('/')?.split('/');
    segments.try_fold(root, |parent, segment| match parent {
        Value::Object(members) => members.get_mut(&unescape(segment)),
        Value::Array(items) => {
            let place = index(segment, items.len())?;
            items.get_mut(place)
        }
        _ => None,
    })
}

/// The object or list that contains the pointer's target, and the pointer's last segment.
fn parent<'a, 'p>(root: &'a mut Value, path: &'p str) -> Option<(&'a mut Value, &'p str)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((find(root, parent)?, last))
}

fn copy(root: &mut Value, path: &str) -> Option<Value> {
    match parent(root, path)? {
        (Value::Object(members), last) => {
            Some(members.get(&unescape(last)).cloned().unwrap_or_default())
        }
        (Value::Array(items), last) => items.get(index(last, items.len())?).cloned(),
        _ => None,
    }
}

fn add(root: &mut Value, path: &str, value: Value) -> Option<()> {
    if !path.contains('/') {
        *root = value;
        return Some(());
    }
    match parent(root, path)? {
        (Value::Object(members), last) => drop(members.insert(unescape(last), value)),
        (Value::Array(items), "-") => items.push(value),
        (Value::Array(items), last) => items.insert(index(last, items.len() + 1)?, value),
        _ => return None,
    }
    Some(())
}

fn remove(root: &mut Value, path: &str) -> Option<Value> {
    match parent(root, path)? {
        (Value::Object(members), last) => members.remove(&unescape(last)),
        (Value::Array(items), last) => Some(items.remove(index(last, items.len())?)),
        _ => None,
    }
}

/// Parses an index into an array of `length` items.
fn index(segment: &str, length: usize) -> Option<usize> {
    let index: isize = segment.parse().ok()?;
    let place = if index < 0 {
        length.checked_add_signed(index)?
    } else {
        index.unsigned_abs()
    };
    (place < length).then_some(place)
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patch: &Value, expected: Option<Value>) {
        let Value::Object(mut tree) =
            json!({"metadata": {"finalizers": ["a", "b"], "labels": {"x/y": "1"}}})
        else {
            unreachable!()
        };
        let operations = read(patch.to_string().as_bytes()).unwrap();
        let done = apply(&operations, &mut tree);
        assert_eq!(done.ok().map(|()| Value::Object(tree)), expected, "{patch}");
    }

    #[test]
    fn operations() {
        let labels = json!({"x/y": "1"});
        check(
            &json!([{"op": "remove", "path": "/metadata/finalizers/0"}]),
            Some(json!({"metadata": {"finalizers": ["b"], "labels": labels}})),
        );
        check(
            &json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "c"}]),
            Some(json!({"metadata": {"finalizers": ["a", "b", "c"], "labels": labels}})),
        );
        check(
            &json!([{"op": "replace", "path": "/metadata/labels/x~1y", "value": "2"}]),
            Some(json!({"metadata": {"finalizers": ["a", "b"], "labels": {"x/y": "2"}}})),
        );
        check(
            &json!([{"op": "test", "path": "/metadata/finalizers/0", "value": "b"}]),
            None,
        );
        check(&json!([{"op": "remove", "path": "/spec"}]), None);
        check(
            &json!([{"op": "remove", "path": "/metadata/finalizers/-2"}]),
            Some(json!({"metadata": {"finalizers": ["b"], "labels": labels}})),
        );
        check(
            &json!([{"op": "add", "path": "/metadata/finalizers/-1", "value": "c"}]),
            Some(json!({"metadata": {"finalizers": ["a", "b", "c"], "labels": labels}})),
        );
        check(
            &json!([{"op": "remove", "path": "/metadata/finalizers/-3"}]),
            None,
        );
        check(
            &json!([{"op": "copy", "from": "/metadata/uid", "path": "/metadata/labels"}]),
            Some(json!({"metadata": {"finalizers": ["a", "b"], "labels": null}})),
        );
    }

    #[test]
    fn copies_are_limited() {
        let double = |number| {
            let path = format!("/metadata/labels/{number}");
            json!({"op": "copy", "from": "/metadata", "path": path})
        };
        check(&(0..100).map(double).collect(), None);
    }

    #[test]
    fn long_pointers_are_followed() {
        let path = "/metadata".repeat(100_000);
        check(&json!([{"op": "remove", "path": path}]), None);
    }
}
