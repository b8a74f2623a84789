//! Stores one object: its serialized bytes and the few fields that queries need.
//!
//! Responsible for: a byte layout from which lists, watches and metadata views are sliced without parsing. Must not:
//! decide which writes are valid.

use std::{ops::Range, sync::Arc};

use compact_str::CompactString;
use serde_json::Value;

use super::{
    kind::{Kind, KindInfo},
    tree::{self, Tree},
};
use crate::{json::read_json, model::Time};

/// A stored object. It is immutable: a write creates a new one, which shares equal parts with its predecessor.
///
/// The bytes always begin `{"kind":K,"apiVersion":V,"metadata":{"resourceVersion":"N"`. So the resourceVersion can be
/// replaced, and metadata, spec and status sliced, by offset alone.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Kind.
    pub kind: Kind,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: CompactString,
    /// Name.
    pub name: CompactString,
    /// UID.
    pub uid: Arc<str>,
    /// The resourceVersion of the write that produced this state.
    pub version: u64,
    /// The creation time.
    pub created: Time,
    /// `metadata.generation`; 0 for kinds that do not count generations.
    pub generation: i64,
    /// The deletion timestamp, if deletion was requested.
    pub deletion: Option<Time>,
    /// Labels in key order.
    pub labels: Arc<[(CompactString, CompactString)]>,
    /// The owner references, reduced to the fields that garbage collection needs.
    pub owners: Arc<[OwnerReference]>,
    /// Names of the finalizers.
    pub finalizers: Arc<[CompactString]>,
    /// `status.phase` of Pods and Namespaces, else empty.
    pub phase: CompactString,
    /// `spec.nodeName` of Pods, else empty.
    pub node: CompactString,
    bytes: Arc<[u8]>,
    metadata_end: u32,
    /// The ranges of the values of [`CUT`], relative to the end of the metadata; empty for a missing member.
    cut: [Range<u32>; 2],
}

/// Members that are sliced by offset, in this order.
const CUT: [&str; 2] = ["spec", "status"];

/// One owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerReference {
    /// The owner's UID.
    pub uid: Arc<str>,
    /// Its kind, if the server serves that kind.
    pub kind: Option<Kind>,
    /// Its name.
    pub name: CompactString,
    /// `blockOwnerDeletion`: it blocks the owner's foreground deletion.
    pub blocks: bool,
}

/// Members of a stored object that a write does not change: they are neither parsed nor serialized again. Empty by
/// default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept<'s> {
    before: Option<&'s Stored>,
    /// Sorted by name, with their JSON.
    members: Vec<(&'static str, &'s str)>,
}

impl<'s> Kept<'s> {
    /// Reads an object without the members `names`, which must be in [`CUT`].
    pub(crate) fn read(object: &'s Stored, names: &[&'static str]) -> (Tree, Self) {
        let (mut rest, mut from) = (Vec::with_capacity(object.bytes.len()), 0);
        let mut members = Vec::new();
        for (name, place) in object.cut() {
            if names.contains(&name) {
                let json = str::from_utf8(&object.bytes[place.clone()]);
                members.push((name, json.expect("stored bytes were written from texts")));
                rest.extend_from_slice(&object.bytes[from..place.start - name_len(name)]);
                from = place.end;
            }
        }
        rest.extend_from_slice(&object.bytes[from..]);
        let tree = read_json(&rest).expect("stored bytes were written from a tree");
        let before = Some(object);
        (tree, Self { before, members })
    }

    /// A member's JSON.
    pub(crate) fn get(&self, name: &str) -> Option<&'s str> {
        let mut members = self.members.iter();
        members
            .find(|(kept, _)| *kept == name)
            .map(|(_, json)| *json)
    }

    /// The stored object, if this member of it is kept.
    fn source(&self, name: &str) -> Option<&'s Stored> {
        self.before.filter(|_| self.get(name).is_some())
    }

    /// All kept members.
    fn members(&self) -> impl Iterator<Item = (&'static str, &'s str)> {
        self.members.iter().copied()
    }

    /// The total length of their JSON.
    pub(crate) fn len(&self) -> usize {
        self.members.iter().map(|(_, json)| json.len()).sum()
    }

    /// Inserts them into a tree that lacks them.
    pub(crate) fn put_back(&self, tree: &mut Tree) {
        for (name, json) in self.members() {
            let value = serde_json::from_str(json).expect("it was read as JSON");
            tree.insert(name.to_owned(), value);
        }
    }
}

impl Stored {
    /// Encodes `tree` as the state of version `version`.
    pub(crate) fn encode(kind: Kind, version: u64, tree: &Tree) -> Self {
        Self::encode_with(kind, version, tree, &Kept::default())
    }

    /// The same, with the members in `kept` in place of those of the tree.
    pub(crate) fn encode_with(kind: Kind, version: u64, tree: &Tree, kept: &Kept<'_>) -> Self {
        let (bytes, metadata_end, cut) = write_object(kind.info(), version, tree, kept);
        let metadata = tree::metadata(tree);
        Self {
            kind,
            namespace: tree::text(metadata, "namespace").into(),
            name: tree::text(metadata, "name").into(),
            uid: tree::text(metadata, "uid").into(),
            version,
            created: time(metadata, "creationTimestamp").unwrap_or_default(),
            generation: tree::int(metadata, "generation").unwrap_or_default(),
            deletion: time(metadata, "deletionTimestamp"),
            labels: labels(metadata),
            owners: owners(metadata),
            finalizers: tree::strings(metadata, "finalizers")
                .map(CompactString::from)
                .collect(),
            phase: match kept.source("status") {
                Some(before) => before.phase.clone(),
                None => tree::text(tree, "status.phase").into(),
            },
            node: match (kept.source("spec"), kind) {
                (Some(before), _) => before.node.clone(),
                (None, Kind::Pod) => tree::text(tree, "spec.nodeName").into(),
                (None, _) => CompactString::default(),
            },
            bytes: bytes.into(),
            metadata_end,
            cut,
        }
    }

    /// The present members of [`CUT`] and the ranges of their values.
    fn cut(&self) -> impl Iterator<Item = (&'static str, Range<usize>)> {
        let end = self.metadata_end as usize;
        let places = CUT.into_iter().zip(&self.cut);
        let places = places.filter(|(_, place)| !place.is_empty());
        places.map(move |(name, at)| (name, end + at.start as usize..end + at.end as usize))
    }

    /// Shares the parts that are equal in the previous state. The log keeps many states of an object for a while.
    /// Separate small allocations for each state would fragment memory, and filling the gaps takes longer the more
    /// there are.
    pub(crate) fn share(&mut self, before: &Self) {
        fn share<T: PartialEq + ?Sized>(own: &mut Arc<T>, before: &Arc<T>) {
            if own == before {
                *own = Arc::clone(before);
            }
        }
        share(&mut self.uid, &before.uid);
        share(&mut self.labels, &before.labels);
        share(&mut self.owners, &before.owners);
        share(&mut self.finalizers, &before.finalizers);
    }

    /// The same state at another version, as a DELETED event contains it.
    pub(crate) fn at_version(&self, version: u64) -> Self {
        let start = prefix_len(self.kind.info());
        let old_digits = self.version.checked_ilog10().unwrap_or(0) as usize + 1;
        let digits = version.to_string();
        let mut bytes = Vec::with_capacity(self.bytes.len() + 2);
        bytes.extend_from_slice(&self.bytes[..start]);
        bytes.extend_from_slice(digits.as_bytes());
        bytes.extend_from_slice(&self.bytes[start + old_digits..]);
        let metadata_end = self.metadata_end as usize + digits.len() - old_digits;
        Self {
            version,
            bytes: bytes.into(),
            metadata_end: metadata_end as u32,
            ..self.clone()
        }
    }

    /// The whole object as JSON.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The object as a list item: without `kind` and `apiVersion`, and without the opening brace, which the caller
    /// writes.
    pub(crate) fn list_item(&self) -> &[u8] {
        &self.bytes[metadata_start(self.kind.info())..]
    }

    /// `"metadata":{...}`.
    pub fn metadata(&self) -> &[u8] {
        &self.bytes[metadata_start(self.kind.info())..self.metadata_end as usize]
    }

    /// Parses the object into a tree.
    pub(crate) fn tree(&self) -> Tree {
        read_json(&self.bytes).expect("stored bytes were written from a tree")
    }

    /// A label's value.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels
            .binary_search_by(|(have, _)| have.as_str().cmp(key))
            .ok()
            .map(|at| self.labels[at].1.as_str())
    }

    /// Returns true if it is a Pod that has terminated.
    pub fn has_ended(&self) -> bool {
        self.kind == Kind::Pod && matches!(&*self.phase, "Succeeded" | "Failed")
    }

    /// Returns true if the object has the finalizer `name`.
    pub(crate) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|have| have == name)
    }

    /// The storage key.
    pub(crate) fn key(&self) -> Box<str> {
        key(&self.namespace, &self.name)
    }
}

/// The storage key of an object; keys sort as in a real server's storage.
pub(crate) fn key(namespace: &str, name: &str) -> Box<str> {
    if namespace.is_empty() {
        return name.into();
    }
    let mut key = String::with_capacity(namespace.len() + name.len() + 1);
    key.push_str(namespace);
    key.push('/');
    key.push_str(name);
    key.into()
}

fn write_object(
    info: &KindInfo,
    version: u64,
    tree: &Tree,
    kept: &Kept<'_>,
) -> (Vec<u8>, u32, [Range<u32>; 2]) {
    let mut out = Vec::with_capacity(2048);
    out.extend_from_slice(b"{\"kind\":\"");
    out.extend_from_slice(info.name.as_bytes());
    out.extend_from_slice(b"\",\"apiVersion\":\"");
    out.extend_from_slice(info.api_version.as_bytes());
    out.extend_from_slice(b"\",\"metadata\":{\"resourceVersion\":\"");
    out.extend_from_slice(version.to_string().as_bytes());
    out.push(b'"');
    for (name, value) in tree::metadata(tree) {
        if name != "resourceVersion" {
            write_name(&mut out, name);
            write_value(&mut out, value);
        }
    }
    out.push(b'}');
    let metadata_end = out.len();
    let offset = |end: usize| u32::try_from(end).expect("bodies are limited to 3 MiB");
    let mut cut = [0..0, 0..0];
    let mut write = |name: &str, value: MemberValue<'_>| {
        write_name(&mut out, name);
        let start = offset(out.len() - metadata_end);
        match value {
            MemberValue::Read(value) => write_value(&mut out, value),
            MemberValue::Kept(json) => out.extend_from_slice(json.as_bytes()),
        }
        if let Some(at) = CUT.iter().position(|cut| *cut == name) {
            cut[at] = start..offset(out.len() - metadata_end);
        }
    };
    let mut kept = kept.members().peekable();
    for (name, value) in tree {
        while let Some((kept, json)) = kept.next_if(|(kept, _)| *kept < name.as_str()) {
            write(kept, MemberValue::Kept(json));
        }
        match kept.next_if(|(kept, _)| *kept == name.as_str()) {
            Some((kept, json)) => write(kept, MemberValue::Kept(json)),
            None if matches!(name.as_str(), "kind" | "apiVersion" | "metadata") => {}
            None => write(name, MemberValue::Read(value)),
        }
    }
    kept.for_each(|(name, json)| write(name, MemberValue::Kept(json)));
    out.push(b'}');
    (out, offset(metadata_end), cut)
}

/// A member's value: parsed, or kept as JSON.
enum MemberValue<'a> {
    Read(&'a Value),
    Kept(&'a str),
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("writing to memory does not fail");
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    serde_json::to_writer(&mut *out, name).expect("writing to memory does not fail");
    out.push(b':');
}

/// The length of the name of a member of [`CUT`] with its comma, quotes and colon.
const fn name_len(name: &str) -> usize {
    ",\"\":".len() + name.len()
}

/// The offset of `"metadata":`.
const fn metadata_start(info: &KindInfo) -> usize {
    "{\"kind\":\"".len()
        + info.name.len()
        + "\",\"apiVersion\":\"".len()
        + info.api_version.len()
        + "\",".len()
}

/// The offset of the version's digits.
const fn prefix_len(info: &KindInfo) -> usize {
    metadata_start(info) + "\"metadata\":{\"resourceVersion\":\"".len()
}

fn time(metadata: &Tree, name: &str) -> Option<Time> {
    Time::parse_rfc3339(tree::text(metadata, name))
}

fn labels(metadata: &Tree) -> Arc<[(CompactString, CompactString)]> {
    let Some(Value::Object(labels)) = metadata.get("labels") else {
        return Arc::default();
    };
    let pair =
        |(key, value): (&String, &Value)| Some((key.as_str().into(), value.as_str()?.into()));
    let mut pairs: Vec<(CompactString, CompactString)> = labels.iter().filter_map(pair).collect();
    pairs.sort_unstable();
    pairs.into()
}

fn owners(metadata: &Tree) -> Arc<[OwnerReference]> {
    let Some(Value::Array(owners)) = metadata.get("ownerReferences") else {
        return Arc::default();
    };
    let read = |owner: &Value| {
        let text = |field: &str| owner.get(field)?.as_str();
        Some(OwnerReference {
            uid: text("uid")?.into(),
            kind: Kind::named(text("apiVersion")?, text("kind")?),
            name: text("name")?.into(),
            blocks: owner.get("blockOwnerDeletion") == Some(&Value::Bool(true)),
        })
    };
    owners.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_version_is_replaced_without_parsing() {
        let Value::Object(tree) = json!({
            "kind": "Job", "apiVersion": "batch/v1",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "3"},
            "spec": {"note": "\"resourceVersion\":\"9\""},
        }) else {
            unreachable!()
        };
        let nine = Stored::encode(Kind::Job, 9, &tree);
        let thousand = nine.at_version(1000);
        assert_eq!(thousand.tree()["metadata"]["resourceVersion"], "1000");
        assert_eq!(
            thousand.bytes(),
            Stored::encode(Kind::Job, 1000, &tree).bytes()
        );
        let (rest, kept) = Kept::read(&thousand, &["spec"]);
        assert_eq!(rest["metadata"], thousand.tree()["metadata"]);
        assert_eq!(
            kept.get("spec"),
            Some(r#"{"note":"\"resourceVersion\":\"9\""}"#)
        );
        let item = [b"{", thousand.list_item()].concat();
        let item: Value = serde_json::from_slice(&item).unwrap();
        assert_eq!(item["spec"], json!({"note": "\"resourceVersion\":\"9\""}));
        assert!(item.get("kind").is_none());
        let metadata = [b"{", thousand.metadata(), b"}"].concat();
        let metadata: Value = serde_json::from_slice(&metadata).unwrap();
        assert_eq!(metadata["metadata"]["name"], "a");
    }

    #[test]
    fn a_state_shares_unchanged_parts_with_the_previous_one() {
        let state = |version, label: &str| {
            let Value::Object(tree) = json!({
                "metadata": {"name": "a", "namespace": "n", "uid": "u", "labels": {"l": label},
                             "finalizers": ["f"], "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "o"}]},
            }) else {
                unreachable!()
            };
            Stored::encode(Kind::Pod, version, &tree)
        };
        let first = state(1, "one");
        let mut second = state(2, "two");
        second.share(&first);
        assert!(Arc::ptr_eq(&first.uid, &second.uid));
        assert!(Arc::ptr_eq(&first.owners, &second.owners));
        assert!(Arc::ptr_eq(&first.finalizers, &second.finalizers));
        assert_eq!(second.labels[0].1, "two");
        assert_eq!(second.bytes(), state(2, "two").bytes());
    }

    #[test]
    fn unchanged_fields_are_stored_as_before() {
        let Value::Object(tree) = json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"nodeName": "node", "text": "\"é\\"},
            "status": {"phase": "Running"},
        }) else {
            unreachable!()
        };
        let whole = Stored::encode(Kind::Pod, 7, &tree);
        for names in [&["spec", "status"][..], &["spec"], &["status"], &[]] {
            let (mut read, kept) = Kept::read(&whole, names);
            assert!(names.iter().all(|name| !read.contains_key(*name)));
            // A part of the member may replace the whole one.
            read.extend(names.iter().map(|name| ((*name).to_owned(), json!({}))));
            let again = Stored::encode_with(Kind::Pod, 7, &read, &kept);
            assert_eq!(again.bytes(), whole.bytes(), "{names:?}");
            assert_eq!((&*again.phase, &*again.node), ("Running", "node"));
            kept.put_back(&mut read);
            assert_eq!(Value::Object(read), Value::Object(whole.tree()));
        }
    }
}
