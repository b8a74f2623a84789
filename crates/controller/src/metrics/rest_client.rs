//! Counts and times requests to the API server, under client-go's names, labels and buckets, so that dashboards made
//! for kube-controller-manager work.

use std::time::Duration;

use http::Method;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use super::{at_zero, register};

/// client-go's buckets for `rest_client_request_duration_seconds`.
const LATENCIES: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// The label value for a request without an answer, as in client-go.
const NO_ANSWER: &str = "<error>";

/// The metrics of requests to the API server; clones share them.
#[derive(Clone, Debug)]
pub struct RestClientMetrics {
    requests: Family<Outcome, Counter>,
    durations: Family<Target, Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    code: String,
    host: String,
    method: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Target {
    host: String,
    verb: String,
}

impl RestClientMetrics {
    /// Registers both metrics. The registry's encoder adds `_total` to the names of counters.
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let requests = at_zero(
            registry,
            "rest_client_requests",
            "Requests to the API server, by HTTP status code (<error> without a response), method and host",
        );
        let durations: Family<_, Histogram> =
            Family::new_with_constructor(|| Histogram::new(LATENCIES));
        let durations = register(
            registry,
            "rest_client_request_duration_seconds",
            "Seconds from sending a request to the API server until its response was complete, or a watch was open",
            durations,
        );
        Self {
            requests,
            durations,
        }
    }

    /// Records one request to a host (`name:port`). `code` is `None` if there was no answer.
    pub fn record(&self, host: &str, method: &Method, code: Option<u16>, took: Duration) {
        let outcome = Outcome {
            code: code.map_or_else(|| NO_ANSWER.to_owned(), |code| code.to_string()),
            host: host.to_owned(),
            method: method.to_string(),
        };
        self.requests.get_or_create(&outcome).inc();
        let target = Target {
            host: host.to_owned(),
            verb: method.to_string(),
        };
        self.durations
            .get_or_create(&target)
            .observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn labels_are_those_of_client_go() {
        let mut registry = Registry::default();
        let metrics = RestClientMetrics::registered(&mut registry);
        let host = "10.0.0.1:6443";
        metrics.record(host, &Method::POST, Some(201), Duration::from_millis(30));
        metrics.record(host, &Method::PATCH, None, Duration::from_secs(60));
        let mut text = String::new();
        encode(&mut text, &registry).expect("a string");
        for line in [
            r#"rest_client_requests_total{code="201",host="10.0.0.1:6443",method="POST"} 1"#,
            r#"rest_client_requests_total{code="<error>",host="10.0.0.1:6443",method="PATCH"} 1"#,
            r#"rest_client_request_duration_seconds_bucket{le="0.1",host="10.0.0.1:6443",verb="POST"} 1"#,
            r#"rest_client_request_duration_seconds_count{host="10.0.0.1:6443",verb="PATCH"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
