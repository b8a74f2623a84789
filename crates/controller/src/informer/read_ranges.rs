//! Restricts lists and watches of a replica that shares the work to its ranges of namespaces. The replica then reads as
//! few of the other replicas' objects as possible.
//!
//! A server that can select by ranges sends only these. Objects of other ranges that arrive anyway are skipped.
//!
//! Must not: know which replica owns a range.

use lakh_model::Partition;
use lakh_wire::{Object, decode_place, paths};

use super::news::Kind;

/// The ranges that are read: as query parameters for the server, and as a filter for Pods that arrive anyway.
#[derive(Clone, Debug)]
pub struct ReadRanges {
    partition: Partition,
    /// For each range, true if it is read.
    ranges: Vec<bool>,
    /// Additional query parameters of lists and watches.
    query: String,
}

impl ReadRanges {
    /// Reads the ranges that have their flag set, and no others.
    pub fn new(partition: Partition, ranges: Vec<bool>) -> Self {
        let read = ranges.iter().enumerate().filter(|(_, is_read)| **is_read);
        let selector = partition.selector(read.map(|(range, _)| range));
        let query = selector.map(|text| format!("&shardSelector={}", paths::escaped(&text)));
        Self {
            partition,
            ranges,
            query: query.unwrap_or_default(),
        }
    }

    pub(super) fn query(&self) -> &str {
        &self.query
    }

    /// Returns the version of an object outside the ranges, if that is cheap to see. Only Pods are checked: they are
    /// many.
    pub(super) fn passes_over(&self, kind: Kind, object: Object<'_>) -> Option<u64> {
        let (Kind::Pod, Object::Protobuf(message)) = (kind, object) else {
            return None;
        };
        let (namespace, version) = decode_place(message)?;
        let range = self.partition.range_of(namespace);
        let is_read = self.ranges.get(range).copied().unwrap_or(false);
        (!is_read).then_some(version)
    }
}
