//! Models a Pod as decoded from an event or a list: its record and its owner.

use compact_str::CompactString;

use super::{JobId, PodEnd, PodLabels, PodRecord};

/// The controller (owner) of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// A Job of the Pod's own namespace. The Job may not exist.
    Job(JobId),
    /// An object that is not a Job.
    Other,
    /// The Pod has no controller.
    None,
}

/// A Pod decoded from an event or a list.
#[derive(Clone, Debug)]
pub struct DecodedPod<'a> {
    /// Its namespace.
    pub namespace: CompactString,
    /// Its full name.
    pub name: CompactString,
    /// Its controlling owner.
    pub controller: Controller,
    /// Its labels.
    pub labels: PodLabels<'a>,
    /// The part that the cache keeps.
    pub record: PodRecord,
    /// Details of its end, if its Job requests them.
    pub end: Option<Box<PodEnd>>,
}

impl DecodedPod<'_> {
    /// Returns the same Pod without borrowed data.
    pub fn into_owned(self) -> DecodedPod<'static> {
        DecodedPod {
            namespace: self.namespace,
            name: self.name,
            controller: self.controller,
            labels: self.labels.into_owned(),
            record: self.record,
            end: self.end,
        }
    }
}
