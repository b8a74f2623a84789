//! Tests server-side apply and managed fields by replaying requests with the responses of a real server.
//!
//! `apply.jsonl` was recorded from kube-apiserver 1.36.2, with a second between requests. A line has a request and its
//! response: the code; the error message, or the object without fields that differ in each run; the owners of its
//! fields; and whether its version has changed.

use std::collections::BTreeMap;

use super::*;

struct Replay {
    cluster: Cluster,
    versions: BTreeMap<String, Value>,
}

impl Replay {
    fn send(&mut self, send: &Value) -> Value {
        let text = |name: &str| send[name].as_str().unwrap_or_default().to_owned();
        let (method, path, media) = (text("method"), text("path"), text("type"));
        let agent = send["agent"].as_str().unwrap_or("tester/1.0 (x)");
        let body = match &send["body"] {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let request = Request {
            method: &method,
            path,
            query,
            content_type: &media,
            user_agent: agent,
            body: body.as_bytes(),
            ..Request::default()
        };
        let Reply::Complete(response) = self.cluster.server.handle(request, self.cluster.now)
        else {
            panic!("a watch was not expected")
        };
        let code = response.status;
        let answer: Value = serde_json::from_slice(&response.into_bytes()).unwrap();
        let mut seen = self.seen(answer, query.contains("dryRun"));
        seen["code"] = code.into();
        seen
    }

    /// The response in the form of the file.
    fn seen(&mut self, mut answer: Value, dry_run: bool) -> Value {
        if answer["kind"] == "Status" {
            let mut seen = json!({"message": answer["message"], "reason": answer["reason"]});
            if answer.get("details").is_some() {
                seen["details"] = answer["details"].take();
            }
            return seen;
        }
        let metadata = answer["metadata"].as_object_mut().unwrap();
        let version = metadata.remove("resourceVersion").unwrap_or_default();
        let uid = metadata.remove("uid");
        let managed = metadata.remove("managedFields").unwrap_or(json!([]));
        metadata.remove("creationTimestamp");
        let generated = metadata.contains_key("generateName");
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        if generated {
            metadata.remove("name");
        }
        let key = format!("{}{}", answer["kind"], answer["metadata"]["name"]);
        let last = self.versions.get(&key).unwrap_or(&Value::Null);
        let written = *last != version;
        if !dry_run {
            self.versions.insert(key, version);
        }
        let uid = uid.as_ref().and_then(Value::as_str).unwrap_or("@");
        let mut text = answer.to_string().replace(uid, "UID");
        if generated {
            text = text.replace(&name, "NAME");
        }
        let mut object: Value = serde_json::from_str(&text).unwrap();
        drop_empty_metadata(&mut object);
        let entry = |entry: &Value| {
            json!({
                "manager": entry["manager"],
                "operation": entry["operation"],
                "subresource": entry["subresource"].as_str().unwrap_or_default(),
                "timed": entry.get("time").is_some(),
                "fields": entry["fieldsV1"],
            })
        };
        let managed: Vec<Value> = managed.as_array().unwrap().iter().map(entry).collect();
        json!({"object": object, "managed": managed, "written": written})
    }
}

/// Real servers return the metadata of templates even if it is empty.
fn drop_empty_metadata(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| name != "metadata" || *member != json!({}));
            members.values_mut().for_each(drop_empty_metadata);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_metadata),
        _ => {}
    }
}

/// Real servers return several conflicts or errors in random order.
fn in_order(answer: &mut Value) {
    if let Some(Value::Array(causes)) = answer.pointer_mut("/details/causes") {
        causes.sort_by_key(Value::to_string);
    }
    let message = answer["message"].as_str().unwrap_or_default();
    if let Some((start, list)) = message.split_once("errors:\n") {
        let mut lines: Vec<&str> = list.lines().collect();
        lines.sort_unstable();
        answer["message"] = format!("{start}errors:\n{}", lines.join("\n")).into();
    }
}

#[test]
fn answers_are_those_of_a_real_server() {
    let mut replay = Replay {
        cluster: Cluster::new(),
        versions: BTreeMap::new(),
    };
    let mut wrong = Vec::new();
    let rows = include_str!("apply.jsonl").lines();
    for (number, row) in (1..).zip(rows) {
        let row: Value = serde_json::from_str(row).unwrap();
        let (send, mut expected) = (&row["send"], row["expect"].clone());
        replay.cluster.now = Time::from_secs(replay.cluster.now.as_secs() + 1);
        let mut seen = replay.send(send);
        in_order(&mut expected);
        drop_empty_metadata(&mut expected["object"]);
        in_order(&mut seen);
        for (name, value) in expected.as_object().unwrap() {
            if name == "object" && value.is_null() {
                continue;
            }
            if seen.get(name) != Some(value) {
                wrong.push(format!(
                    "line {number}: {} {}\n  {name} should be {value}\n  but is {}",
                    send["method"], send["path"], seen[name]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
