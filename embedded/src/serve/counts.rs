//! Counters of requests.
//!
//! Responsible for: counting by request and status code. Must not: export metrics.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::apiserver::Label;

/// How often one kind of request was answered with one code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestCount {
    /// Verb, such as `create`.
    pub verb: &'static str,
    /// Resource, such as `pods`; empty for paths without one.
    pub resource: &'static str,
    /// What of the resource, such as `status`; empty for the resource itself.
    pub subresource: &'static str,
    /// HTTP status code.
    pub code: u16,
    /// How often.
    pub count: u64,
}

/// All counters.
#[derive(Debug, Default)]
pub(super) struct RequestCounts(Mutex<BTreeMap<(Label, u16), u64>>);

impl RequestCounts {
    /// Counts one answer.
    pub(super) fn add(&self, label: Label, code: u16) {
        *self.0.lock().entry((label, code)).or_default() += 1;
    }

    /// The counters now.
    pub(super) fn snapshot(&self) -> Vec<RequestCount> {
        let counts = self.0.lock();
        counts
            .iter()
            .map(|(&(label, code), &count)| RequestCount {
                verb: label.verb,
                resource: label.resource,
                subresource: label.subresource,
                code,
                count,
            })
            .collect()
    }
}
