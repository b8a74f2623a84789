//! The ranges that a replica which shares reads: as little of others' as can be.
//!
//! Where the server can select by ranges it sends no others. All that comes nevertheless is passed over.
//!
//! Must not: know whose a range is.

use crate::{
    model::Partition,
    wire::{Object, decode_place, paths},
};

use super::news::Kind;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct ReadRanges {
    partition: Partition,
    /// Whether each range is read.
    ranges: Vec<bool>,
    /// What a list or a watch asks for besides.
    query: String,
}

impl ReadRanges {
    /// These ranges are read, by their numbers, and no others.
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

    /// The version of an object that is not read, if that is seen at once. Only Pods are worth a look: there are many.
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
