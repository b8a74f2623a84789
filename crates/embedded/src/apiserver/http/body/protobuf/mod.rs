//! Decodes request bodies in Kubernetes' protobuf encoding, for the messages that kubectl and controllers send.
//!
//! Responsible for: turning the wire format of a few types into trees. Must not: drop data silently; a body with
//! content that the table does not list is rejected. Responses are never protobuf.

mod numbers;

use std::iter;

use k8s_openapi::ByteString;
use serde_json::Value;

use crate::{
    apiserver::object::{Tree, tree},
    model::Time,
};
use numbers::{MessageField, Type, Zero, of_body, of_message};

/// The prefix of every protobuf body.
const MAGIC: &[u8] = b"k8s\0";

/// Decodes a body; `None` if it is broken or has unsupported content.
pub(crate) fn read(body: &[u8]) -> Option<Tree> {
    let envelope = body.strip_prefix(MAGIC)?;
    let (mut head, mut raw): (&[u8], &[u8]) = (&[], &[]);
    for field in fields(envelope) {
        match field? {
            (1, Wire::Bytes(bytes)) => head = bytes,
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let head = message(head, of_message("TypeMeta"))?;
    let mut tree = message(raw, of_body(head.get("kind")?.as_str()?)?)?;
    tree.extend(head);
    Some(tree)
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The maximum depth at which unknown fields are checked for zero. No type of the API is deeper.
const MAX_DEPTH: usize = 32;

impl Wire<'_> {
    /// Returns true if this encodes an unset member: only zeros, in at most `depth` levels of messages.
    fn is_zero(&self, depth: usize) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Bytes(bytes) => {
                depth > 0
                    && fields(bytes)
                        .all(|field| field.is_some_and(|(_, value)| value.is_zero(depth - 1)))
            }
        }
    }
}

/// The fields of a message in order; `None` for a broken field, after which the caller must stop.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = Option<(u64, Wire<'_>)>> {
    iter::from_fn(move || (!rest.is_empty()).then(|| field(&mut rest)))
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let tag = varint(rest)?;
    let value = match tag & 7 {
        0 => Wire::Number(varint(rest)?),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            let (bytes, after) = rest.split_at_checked(length)?;
            *rest = after;
            Wire::Bytes(bytes)
        }
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn message(bytes: &[u8], table: &[MessageField]) -> Option<Tree> {
    let mut tree = Tree::new();
    for field in fields(bytes) {
        let (number, value) = field?;
        match table.iter().find(|known| known.number == number) {
            Some(field) => member(&mut tree, field, &value)?,
            None if value.is_zero(MAX_DEPTH) => {}
            None => return None,
        }
    }
    Some(tree)
}

fn member(tree: &mut Tree, field: &MessageField, wire: &Wire<'_>) -> Option<()> {
    let value = match (field.kind, wire) {
        (Type::Ignored, _)
        | (Type::Int(Zero::LeftOut) | Type::Flag(Zero::LeftOut), Wire::Number(0))
        | (Type::Time | Type::MicroTime, Wire::Bytes([])) => return Some(()),
        (Type::Text(Zero::LeftOut), Wire::Bytes([])) if !field.repeats => return Some(()),
        (Type::Map(values), Wire::Bytes(bytes)) => {
            let (key, value) = entry(bytes, *values)?;
            tree::section_mut(tree, field.name?).insert(key, value);
            return Some(());
        }
        (kind, wire) => value(kind, wire)?,
    };
    match (field.name, value) {
        (None, Value::Object(members)) => tree.extend(members),
        (Some(name), value) if field.repeats => {
            tree::list_mut(tree, name).push(value);
        }
        (Some(name), value) => drop(tree.insert(name.to_owned(), value)),
        (None, _) => return None,
    }
    Some(())
}

fn value(kind: Type, wire: &Wire<'_>) -> Option<Value> {
    Some(match (kind, wire) {
        (Type::Int(_), Wire::Number(number)) => number.cast_signed().into(),
        (Type::Flag(_), Wire::Number(number)) => (*number != 0).into(),
        (Type::Text(_), Wire::Bytes(bytes)) => text(bytes)?.into(),
        (Type::Bytes, Wire::Bytes(bytes)) => {
            serde_json::to_value(ByteString(bytes.to_vec())).ok()?
        }
        // A quantity is a message that contains its string.
        (Type::Quantity, Wire::Bytes(bytes)) => {
            message(bytes, of_message("Quantity"))?.remove("string")?
        }
        (Type::Time, Wire::Bytes(bytes)) => time(bytes)?.0.into(),
        (Type::MicroTime, Wire::Bytes(bytes)) => {
            let (seconds, micros) = time(bytes)?;
            let seconds = seconds.trim_end_matches('Z');
            format!("{seconds}.{micros:06}Z").into()
        }
        (Type::IntOrText, Wire::Bytes(bytes)) => int_or_text(bytes)?,
        (Type::Message(name), Wire::Bytes(bytes)) => message(bytes, of_message(name))?.into(),
        _ => return None,
    })
}

/// One entry of a map.
fn entry(bytes: &[u8], values: Type) -> Option<(String, Value)> {
    let (mut key, mut entry) = (String::new(), Value::from(""));
    for field in fields(bytes) {
        match field? {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?.to_owned(),
            (2, wire) => entry = value(values, &wire)?,
            _ => return None,
        }
    }
    Some((key, entry))
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Seconds since the epoch as an RFC 3339 string, and the microseconds after them.
fn time(bytes: &[u8]) -> Option<(String, i64)> {
    let time = message(bytes, of_message("Timestamp"))?;
    let number = |name: &str| tree::int(&time, name).unwrap_or_default();
    let (seconds, nanos) = (number("seconds"), number("nanos"));
    // The API accepts the years 1 to 9999.
    let known = (-62_135_596_800..=253_402_300_799).contains(&seconds);
    let whole = (0..1_000_000_000).contains(&nanos);
    (known && whole).then(|| (Time::from_secs(seconds).to_rfc3339(), nanos / 1000))
}

/// Decodes the type, the number and the string.
fn int_or_text(bytes: &[u8]) -> Option<Value> {
    let either = message(bytes, of_message("IntOrString"))?;
    Some(match tree::int(&either, "type") {
        Some(1) => tree::text(&either, "strVal").into(),
        _ => tree::int(&either, "intVal").unwrap_or_default().into(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
        out.extend_from_slice(content);
        out
    }

    fn body(kind: &str, raw: &[u8]) -> Vec<u8> {
        let head = [bytes(1, b"v1"), bytes(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes(1, &head), bytes(2, raw)].concat()
    }

    #[test]
    fn bodies_are_read_or_refused() {
        let label = bytes(11, &[bytes(1, b"a"), bytes(2, b"b")].concat());
        let metadata = [bytes(1, b"n"), bytes(8, b""), label, vec![7 << 3, 0]].concat();
        let namespace = body("Namespace", &[bytes(1, &metadata), bytes(3, b"")].concat());
        let expected = json!({
            "kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": "n", "labels": {"a": "b"}},
        });
        assert_eq!(read(&namespace).map(Value::Object), Some(expected));
        assert!(read(&body("Service", b"")).is_none());
        assert!(read(&body("ConfigMap", &bytes(9, b"\x08\x01"))).is_none());
        assert!(read(&namespace[..namespace.len() - 1]).is_none());
    }

    #[test]
    fn a_real_servers_cron_job_is_read() {
        let body = include_bytes!("../../../../../../../tests/fixtures/cron-job.pb");
        let json = include_bytes!("../../../../../../../tests/fixtures/cron-job.json");
        let mut expected: Value = serde_json::from_slice(json).unwrap();
        // The server sets these two members.
        let metadata = expected["metadata"].as_object_mut().unwrap();
        metadata.retain(|name, _| !["creationTimestamp", "managedFields"].contains(&name.as_str()));
        crate::apiserver::object::tree::drop_nulls(expected.as_object_mut().unwrap());
        assert_eq!(Value::Object(read(body).unwrap()), expected);
    }

    #[test]
    fn a_real_controllers_status_write_is_decoded() {
        let status = |body: &[u8]| read(body).unwrap()["status"].take();
        let met = |kind: &str| {
            json!({
                "type": kind, "status": "True", "reason": "CompletionsReached",
                "message": "Reached expected number of succeeded pods",
                "lastProbeTime": "2026-11-23T12:44:39Z",
                "lastTransitionTime": "2026-11-23T12:44:39Z",
            })
        };
        let uncounted = include_bytes!("../../../../../../../tests/fixtures/job-uncounted.pb");
        assert_eq!(
            status(uncounted),
            json!({
                "conditions": [met("SuccessCriteriaMet")],
                "startTime": "2026-11-23T12:44:37Z",
                "ready": 0,
                "terminating": 0,
                "uncountedTerminatedPods": {"succeeded": ["a7ff0d38-8687-4fb2-9e70-d1019fc66081"]},
            })
        );
        let complete = include_bytes!("../../../../../../../tests/fixtures/job-complete.pb");
        assert_eq!(
            status(complete),
            json!({
                "conditions": [met("SuccessCriteriaMet"), met("Complete")],
                "startTime": "2026-11-23T12:44:37Z",
                "completionTime": "2026-11-23T12:44:39Z",
                "ready": 0,
                "succeeded": 1,
                "terminating": 0,
                "uncountedTerminatedPods": {},
            })
        );
    }

    #[test]
    fn zeros_of_a_container_are_decoded_as_in_json() {
        let at = [1 << 3, 0x80, 0x94, 0xeb, 0xdc, 0x03, 2 << 3, 0];
        let end = [vec![1 << 3, 0, 2 << 3, 0], bytes(6, &at), bytes(5, b"")].concat();
        let state = bytes(3, &end);
        let container = [
            bytes(1, b"c"),
            bytes(2, &state),
            bytes(3, b""),
            vec![4 << 3, 0, 5 << 3, 0],
            bytes(6, b""),
            bytes(7, b""),
        ];
        let status = [bytes(1, b"Succeeded"), bytes(8, &container.concat())].concat();
        let pod = read(&body("Pod", &bytes(3, &status))).unwrap();
        let end = json!({"exitCode": 0, "finishedAt": "2001-09-09T01:46:40Z"});
        let container = json!({
            "name": "c", "state": {"terminated": end}, "lastState": {}, "ready": false,
            "restartCount": 0, "image": "", "imageID": "",
        });
        let status = json!({"phase": "Succeeded", "containerStatuses": [container]});
        assert_eq!(pod["status"], status);
        // A time out of range.
        let never = bytes(
            3,
            &bytes(7, &[1 << 3, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]),
        );
        assert!(read(&body("Pod", &never)).is_none());
    }

    #[test]
    fn quotas_and_leases_are_read() {
        let hard = bytes(1, &[bytes(1, b"pods"), bytes(2, &bytes(1, b"1"))].concat());
        let quota = read(&body("ResourceQuota", &bytes(2, &hard))).unwrap();
        assert_eq!(quota["spec"], json!({"hard": {"pods": "1"}}));
        let at = [
            1 << 3,
            0x80,
            0x94,
            0xeb,
            0xdc,
            0x03,
            2 << 3,
            0xC0,
            0x84,
            0x3D,
        ];
        let lease = read(&body("Lease", &bytes(2, &bytes(4, &at)))).unwrap();
        assert_eq!(lease["spec"]["renewTime"], "2001-09-09T01:46:40.001000Z");
    }

    #[test]
    fn a_secrets_bytes_are_base64() {
        let entry = bytes(2, &[bytes(1, b"k"), bytes(2, b"\xFFv")].concat());
        let secret = read(&body("Secret", &entry)).unwrap();
        assert_eq!(secret["data"]["k"], "/3Y=");
    }

    #[test]
    fn reviews_of_access_are_read() {
        let asked = [bytes(2, b"list"), bytes(3, b"batch"), bytes(5, b"jobs")].concat();
        let spec = [bytes(1, &asked), bytes(3, b"bob"), bytes(4, b"readers")].concat();
        let status = bytes(3, &[1 << 3, 0]);
        let raw = [bytes(1, b""), bytes(2, &spec), status].concat();
        let review = read(&body("SubjectAccessReview", &raw)).unwrap();
        let asked = json!({"verb": "list", "group": "batch", "resource": "jobs"});
        assert_eq!(
            review["spec"],
            json!({"resourceAttributes": asked, "user": "bob", "groups": ["readers"]})
        );
        let raw = bytes(2, &bytes(1, b"default"));
        let review = read(&body("SelfSubjectRulesReview", &raw)).unwrap();
        assert_eq!(review["spec"], json!({"namespace": "default"}));
    }

    #[test]
    fn members_in_members_have_an_end() {
        // Builds from the innermost message outwards, each with a length of three bytes.
        let mut deep = Vec::new();
        for depth in 0..100_000_u32 {
            let length = depth * 4;
            deep.extend([
                u8::try_from(length >> 14 & 0x7F).unwrap(),
                u8::try_from(length >> 7 & 0x7F | 0x80).unwrap(),
                u8::try_from(length & 0x7F | 0x80).unwrap(),
                1 << 3 | 2,
            ]);
        }
        deep.reverse();
        assert!(!Wire::Bytes(&deep).is_zero(MAX_DEPTH));
        assert!(Wire::Bytes(&deep[deep.len() - 4 * MAX_DEPTH..]).is_zero(MAX_DEPTH + 1));
    }
}
