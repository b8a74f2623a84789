//! The server's request counts as a metric, by upstream's name and labels.
//!
//! Must not: count; it reads [`RequestCounts`] when somebody asks.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter},
};

use super::counts::RequestCounts;

/// The metrics of requests.
#[derive(Debug)]
pub(super) struct RequestMetrics(pub(super) Arc<RequestCounts>);

impl Collector for RequestMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.0.snapshot();
        if counts.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(
            "apiserver_request",
            "Requests over HTTP and of the hollow nodes, by what they asked for and the answer's code.",
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
