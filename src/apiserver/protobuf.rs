//! Request bodies in Kubernetes' protobuf encoding, as far as kubectl sends them.
//!
//! Responsible for: turning the wire form of a few types into trees. Must not: guess; a body
//! with content that the tables below do not name is refused, so that nothing is lost silently.
//! Answers are never protobuf.

use serde_json::Value;

use super::object::Tree;

/// What every protobuf body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// The type of one field. Numbers and flags that the wire form writes even when they are zero
/// are left out; those that may be absent are kept as they come.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Int,
    OptionalInt,
    Flag,
    OptionalFlag,
    Map,
    Quantities,
    Message(Fields),
    /// Written by the server alone; not read.
    Ignored,
}

/// Number, name, type, and whether it repeats.
type Fields = &'static [(u64, &'static str, Type, bool)];

use Type::{Flag, Ignored, Int, Map, Message, OptionalFlag, OptionalInt, Quantities, Text};

const TYPE_META: Fields = &[(1, "apiVersion", Text, false), (2, "kind", Text, false)];
const OBJECT_META: Fields = &[
    (1, "name", Text, false),
    (2, "generateName", Text, false),
    (3, "namespace", Text, false),
    (5, "uid", Text, false),
    (6, "resourceVersion", Text, false),
    (7, "generation", Int, false),
    (11, "labels", Map, false),
    (12, "annotations", Map, false),
    (13, "ownerReferences", Message(OWNER), true),
    (14, "finalizers", Text, true),
];
const OWNER: Fields = &[
    (1, "kind", Text, false),
    (3, "name", Text, false),
    (4, "uid", Text, false),
    (5, "apiVersion", Text, false),
    (6, "controller", OptionalFlag, false),
    (7, "blockOwnerDeletion", OptionalFlag, false),
];
const NAMESPACE: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Ignored, false),
    (3, "status", Ignored, false),
];
const SERVICE_ACCOUNT: Fields = &[(1, "metadata", Message(OBJECT_META), false)];
const CONFIG_MAP: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "data", Map, false),
    (4, "immutable", OptionalFlag, false),
];
const JOB: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(JOB_SPEC), false),
    (3, "status", Ignored, false),
];
const JOB_SPEC: Fields = &[
    (1, "parallelism", OptionalInt, false),
    (2, "completions", OptionalInt, false),
    (3, "activeDeadlineSeconds", OptionalInt, false),
    (4, "selector", Message(SELECTOR), false),
    (5, "manualSelector", OptionalFlag, false),
    (6, "template", Message(TEMPLATE), false),
    (7, "backoffLimit", OptionalInt, false),
    (8, "ttlSecondsAfterFinished", OptionalInt, false),
    (9, "completionMode", Text, false),
    (10, "suspend", OptionalFlag, false),
    (12, "backoffLimitPerIndex", OptionalInt, false),
    (13, "maxFailedIndexes", OptionalInt, false),
    (14, "podReplacementPolicy", Text, false),
    (15, "managedBy", Text, false),
];
const SELECTOR: Fields = &[(1, "matchLabels", Map, false)];
const CRON_JOB: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(CRON_JOB_SPEC), false),
    (3, "status", Ignored, false),
];
const CRON_JOB_SPEC: Fields = &[
    (1, "schedule", Text, false),
    (2, "startingDeadlineSeconds", OptionalInt, false),
    (3, "concurrencyPolicy", Text, false),
    (4, "suspend", OptionalFlag, false),
    (5, "jobTemplate", Message(JOB_TEMPLATE), false),
    (6, "successfulJobsHistoryLimit", OptionalInt, false),
    (7, "failedJobsHistoryLimit", OptionalInt, false),
    (8, "timeZone", Text, false),
];
const JOB_TEMPLATE: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(JOB_SPEC), false),
];
const POD: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(POD_SPEC), false),
    (3, "status", Ignored, false),
];
const TEMPLATE: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "spec", Message(POD_SPEC), false),
];
const POD_SPEC: Fields = &[
    (2, "containers", Message(CONTAINER), true),
    (3, "restartPolicy", Text, false),
    (4, "terminationGracePeriodSeconds", OptionalInt, false),
    (5, "activeDeadlineSeconds", OptionalInt, false),
    (6, "dnsPolicy", Text, false),
    (7, "nodeSelector", Map, false),
    (8, "serviceAccountName", Text, false),
    (10, "nodeName", Text, false),
    (11, "hostNetwork", Flag, false),
    (16, "hostname", Text, false),
    (19, "schedulerName", Text, false),
    (20, "initContainers", Message(CONTAINER), true),
];
const CONTAINER: Fields = &[
    (1, "name", Text, false),
    (2, "image", Text, false),
    (3, "command", Text, true),
    (4, "args", Text, true),
    (5, "workingDir", Text, false),
    (7, "env", Message(ENV), true),
    (8, "resources", Message(RESOURCES), false),
    (13, "terminationMessagePath", Text, false),
    (14, "imagePullPolicy", Text, false),
];
const ENV: Fields = &[(1, "name", Text, false), (2, "value", Text, false)];
const RESOURCES: Fields = &[
    (1, "limits", Quantities, false),
    (2, "requests", Quantities, false),
];
const DELETE_OPTIONS: Fields = &[
    (1, "gracePeriodSeconds", OptionalInt, false),
    (2, "preconditions", Message(PRECONDITIONS), false),
    (3, "orphanDependents", OptionalFlag, false),
    (4, "propagationPolicy", Text, false),
    (5, "dryRun", Text, true),
];
const PRECONDITIONS: Fields = &[(1, "uid", Text, false), (2, "resourceVersion", Text, false)];
const EVICTION: Fields = &[
    (1, "metadata", Message(OBJECT_META), false),
    (2, "deleteOptions", Message(DELETE_OPTIONS), false),
];

/// Reads a body; `None` if it is broken, or holds what cannot be kept.
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
    let head = message(head, TYPE_META)?;
    let table = match head.get("kind")?.as_str()? {
        "Namespace" => NAMESPACE,
        "ServiceAccount" => SERVICE_ACCOUNT,
        "ConfigMap" => CONFIG_MAP,
        "Job" => JOB,
        "CronJob" => CRON_JOB,
        "Pod" => POD,
        "DeleteOptions" => DELETE_OPTIONS,
        "Eviction" => EVICTION,
        _ => return None,
    };
    let mut tree = message(raw, table)?;
    tree.extend(head);
    Some(tree)
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Wire<'_> {
    /// Whether this is what the wire form writes for a member that is not set: zeros, at any
    /// depth.
    fn is_zero(&self) -> bool {
        match self {
            Self::Number(number) => *number == 0,
            Self::Bytes(bytes) => {
                fields(bytes).all(|field| field.is_some_and(|(_, value)| value.is_zero()))
            }
        }
    }
}

/// The fields of a message in order; `None` once where it is broken.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = Option<(u64, Wire<'_>)>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = field(&mut rest);
        if field.is_none() {
            rest = &[];
        }
        Some(field)
    })
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

fn message(bytes: &[u8], table: Fields) -> Option<Tree> {
    let mut tree = Tree::new();
    for field in fields(bytes) {
        let (number, value) = field?;
        match table.iter().find(|(known, ..)| *known == number) {
            Some((_, name, kind, repeated)) => member(&mut tree, name, *kind, *repeated, &value)?,
            None if value.is_zero() => {}
            None => return None,
        }
    }
    Some(tree)
}

fn member(tree: &mut Tree, name: &str, kind: Type, repeated: bool, wire: &Wire<'_>) -> Option<()> {
    let value: Value = match (kind, wire) {
        (Ignored, _) => return Some(()),
        (Int | Flag, Wire::Number(0)) => return Some(()),
        (Int | OptionalInt, Wire::Number(number)) => number.cast_signed().into(),
        (Flag | OptionalFlag, Wire::Number(number)) => (*number != 0).into(),
        (Text, Wire::Bytes(bytes)) if bytes.is_empty() && !repeated => return Some(()),
        (Text, Wire::Bytes(bytes)) => std::str::from_utf8(bytes).ok()?.into(),
        (Message(table), Wire::Bytes(bytes)) => Value::Object(message(bytes, table)?),
        (Map | Quantities, Wire::Bytes(bytes)) => {
            let (key, value) = entry(bytes, matches!(kind, Quantities))?;
            let map = tree
                .entry(name)
                .or_insert_with(|| Value::Object(Tree::new()));
            map.as_object_mut()?.insert(key, value.into());
            return Some(());
        }
        _ => return None,
    };
    if repeated {
        let list = tree.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        list.as_array_mut()?.push(value);
    } else {
        tree.insert(name.to_owned(), value);
    }
    Some(())
}

/// One entry of a map; a quantity is a message around its text.
fn entry(bytes: &[u8], quantity: bool) -> Option<(String, String)> {
    let (mut key, mut value) = (String::new(), String::new());
    for field in fields(bytes) {
        let (number, Wire::Bytes(bytes)) = field? else {
            return None;
        };
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        match number {
            1 => key = text(bytes)?,
            2 if quantity => {
                let mut inner = fields(bytes);
                let (1, Wire::Bytes(bytes)) = inner.next()?? else {
                    return None;
                };
                value = text(bytes)?;
            }
            2 => value = text(bytes)?,
            _ => return None,
        }
    }
    Some((key, value))
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
        assert!(read(&body("Secret", b"")).is_none());
        assert!(read(&body("ConfigMap", &bytes(9, b"\x08\x01"))).is_none());
        assert!(read(&namespace[..namespace.len() - 1]).is_none());
    }
}
