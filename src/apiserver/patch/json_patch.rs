//! JSON patch (RFC 6902).
//!
//! Responsible for: reading and carrying out operations. Must not: know Kubernetes.

use serde_json::{Value, json};

use crate::apiserver::{
    error::{ApiError, Result},
    object::Tree,
};

/// Most operations in one patch, as the real server limits it.
const MAX_OPERATIONS: usize = 10_000;

/// One operation.
#[derive(Debug)]
pub(crate) struct Operation {
    op: String,
    path: String,
    from: String,
    value: Option<Value>,
}

impl Operation {
    /// Whether the operation can change the given top-level member.
    pub(super) fn touches(&self, member: &str) -> bool {
        [&self.path, &self.from]
            .into_iter()
            .any(|pointer| pointer.is_empty() || pointer.split('/').nth(1) == Some(member))
    }
}

/// Reads the operations.
pub(super) fn read(body: &[u8]) -> Result<Vec<Operation>> {
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        let why = if error.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else {
            error.to_string()
        };
        ApiError::bad_request(format!("error decoding patch: {why}"))
    })?;
    let Value::Array(items) = value else {
        return Err(ApiError::bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type \
             []handlers.jsonPatchOp",
        ));
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

fn operation(mut item: Value) -> Operation {
    let text = |name: &str| {
        item.get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    Operation {
        op: text("op"),
        path: text("path"),
        from: text("from"),
        value: item.as_object_mut().and_then(|item| item.remove("value")),
    }
}

/// Carries out all operations, or none.
pub(super) fn apply(operations: &[Operation], tree: &mut Tree) -> Result<()> {
    let mut root = Value::Object(tree.clone());
    for operation in operations {
        step(&mut root, operation).ok_or_else(refused)?;
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
    ApiError::new(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    )
    .with_details(json!({}))
}

fn step(root: &mut Value, operation: &Operation) -> Option<()> {
    let given = || operation.value.clone();
    match operation.op.as_str() {
        "add" => add(root, &operation.path, given()?),
        "remove" => remove(root, &operation.path).map(drop),
        "replace" => {
            *root.pointer_mut(&operation.path)? = given()?;
            Some(())
        }
        "move" => {
            let value = remove(root, &operation.from)?;
            add(root, &operation.path, value)
        }
        "copy" => {
            let value = root.pointer(&operation.from)?.clone();
            add(root, &operation.path, value)
        }
        "test" => {
            let found = root.pointer(&operation.path).unwrap_or(&Value::Null);
            (*found == given().unwrap_or_default()).then_some(())
        }
        _ => None,
    }
}

fn add(root: &mut Value, path: &str, value: Value) -> Option<()> {
    let Some((parent, last)) = path.rsplit_once('/') else {
        *root = value;
        return Some(());
    };
    match root.pointer_mut(parent)? {
        Value::Object(members) => {
            members.insert(unescape(last), value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let index: usize = last.parse().ok()?;
            if index > items.len() {
                return None;
            }
            items.insert(index, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(root: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = path.rsplit_once('/')?;
    match root.pointer_mut(parent)? {
        Value::Object(members) => members.remove(&unescape(last)),
        Value::Array(items) => {
            let index: usize = last.parse().ok()?;
            (index < items.len()).then(|| items.remove(index))
        }
        _ => None,
    }
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
    }
}
