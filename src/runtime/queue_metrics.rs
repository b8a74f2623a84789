//! The metrics of a work queue, by the standard client's names and buckets.

use std::time::Duration;

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// The queue's name, which all its metrics have as a label.
const LABELS: [(&str, &str); 1] = [("name", "job")];

type Named<M> = Family<[(&'static str, &'static str); 1], M>;

/// See the module's text.
#[derive(Debug)]
pub(super) struct QueueMetrics {
    depth: Named<Gauge>,
    adds: Named<Counter>,
    retries: Named<Counter>,
    waited: Named<Histogram>,
    worked: Named<Histogram>,
}

impl Default for QueueMetrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(1e-8, 10.0, 12));
        Self {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: Family::new_with_constructor(seconds),
            worked: Family::new_with_constructor(seconds),
        }
    }
}

impl QueueMetrics {
    /// Registers all of them. The registry's encoder adds `_total` to the names of counters.
    pub(super) fn register(&self, registry: &mut Registry) {
        let own = registry.sub_registry_with_prefix("workqueue");
        own.register("depth", "Jobs that wait for their turn", self.depth.clone());
        own.register(
            "adds",
            "Jobs that came to wait for their turn",
            self.adds.clone(),
        );
        own.register(
            "retries",
            "Jobs to have a turn at a later time",
            self.retries.clone(),
        );
        own.register(
            "queue_duration_seconds",
            "How long Jobs waited for their turn",
            self.waited.clone(),
        );
        own.register(
            "work_duration_seconds",
            "How long turns took",
            self.worked.clone(),
        );
    }

    /// So many keys wait now, of which so many are new.
    pub(super) fn waiting(&self, depth: usize, new: usize) {
        let depth = i64::try_from(depth).unwrap_or(i64::MAX);
        self.depth.get_or_create(&LABELS).set(depth);
        self.adds.get_or_create(&LABELS).inc_by(new as u64);
    }

    /// A key is to wait until a later time.
    pub(super) fn retried(&self) {
        self.retries.get_or_create(&LABELS).inc();
    }

    /// A key has its turn after it waited so long.
    pub(super) fn waited(&self, wait: Duration) {
        self.waited
            .get_or_create(&LABELS)
            .observe(wait.as_secs_f64());
    }

    /// A turn took so long.
    pub(super) fn worked(&self, took: Duration) {
        self.worked
            .get_or_create(&LABELS)
            .observe(took.as_secs_f64());
    }
}
