//! A Pod as it was observed: its record, and who owns it.

use compact_str::CompactString;

use super::{JobId, PodEnd, PodLabels, PodRecord};

/// Who controls a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// A Job of the Pod's own namespace, if there is such a one.
    Job(JobId),
    /// Something that is not a Job.
    Other,
    /// Nobody.
    None,
}

/// A Pod as read from an event or a list.
#[derive(Clone, Debug)]
pub struct DecodedPod<'a> {
    /// Its namespace.
    pub namespace: CompactString,
    /// Its whole name.
    pub name: CompactString,
    /// Who controls it.
    pub controller: Controller,
    /// Its labels.
    pub labels: PodLabels<'a>,
    /// What is kept of it.
    pub record: PodRecord,
    /// How it ended, where its Job asks that somebody knows.
    pub end: Option<Box<PodEnd>>,
}

impl DecodedPod<'_> {
    /// The same, without what it was read from.
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
