//! Counts requests and exports the counters under upstream's metric name and labels.
//!
//! Responsible for: counters by request and status code. Must not: decide which requests count.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter},
};

use crate::apiserver::Label;

/// Number of responses for one kind of request and one status code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestCount {
    /// Verb, such as `create`.
    pub verb: &'static str,
    /// Resource, such as `pods`; empty for paths without one.
    pub resource: &'static str,
    /// Subresource, such as `status`; empty for the resource itself.
    pub subresource: &'static str,
    /// HTTP status code.
    pub code: u16,
    /// Number of responses.
    pub count: u64,
}

/// All counters; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestCounts(Arc<Mutex<BTreeMap<(Label, u16), u64>>>);

impl RequestCounts {
    /// Counts a response.
    pub(super) fn add(&self, label: Label, code: u16) {
        *self.0.lock().entry((label, code)).or_default() += 1;
    }

    /// Returns the current counters.
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

impl Collector for RequestCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.snapshot();
        if counts.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(
            "apiserver_request",
            "Requests over HTTP and of the hollow nodes, by verb, resource and response code.",
            None,
            MetricType::Counter,
        )?;
        for count in counts {
            let labels = [
                ("verb", count.verb.to_uppercase()),
                ("resource", count.resource.to_owned()),
                ("subresource", count.subresource.to_owned()),
                ("code", count.code.to_string()),
            ];
            ConstCounter::new(count.count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
