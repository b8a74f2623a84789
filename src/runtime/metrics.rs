//! What the controller counts, for `/metrics`: of itself here, of Jobs and of queues beside.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::{job_metrics::JobMetrics, queue_metrics::QueueFamilies};
use crate::clock::instant;

/// All metrics.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    /// Those of Kubernetes' Job controller.
    pub(super) jobs: JobMetrics,
    /// Those of work queues.
    pub(super) queues: QueueFamilies,
    /// Turns of Jobs' actors.
    pub(super) turns: Counter,
    /// Actors that panicked and were built anew.
    pub(super) panics: Counter,
    /// Calls to the API server.
    pub(super) calls: Family<Call, Counter>,
    /// Objects that could not be read.
    pub(super) unreadable: Family<Kind, Counter>,
    /// Watches that were opened.
    pub(super) watches: Family<Kind, Counter>,
    /// Writes that wait for their turn or are under way.
    pub(super) writes_pending: Gauge<i64>,
    /// How long after their time Jobs of CronJobs were created.
    pub(super) cron_job_skew: Histogram,
    /// How long after their time finished Jobs were deleted.
    pub(super) ttl_deletions: Histogram,
    /// How long Events waited until the server had them.
    pub(super) event_delay: Histogram,
    /// Events that were dropped because too many waited.
    pub(super) events_dropped: Counter<u64, AtomicU64>,
}

/// A call, by what it did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Call {
    pub(super) verb: &'static str,
    pub(super) resource: &'static str,
    pub(super) code: u16,
}

/// A kind of object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Kind {
    pub(super) kind: &'static str,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            jobs: JobMetrics::default(),
            queues: QueueFamilies::default(),
            turns: Counter::default(),
            panics: Counter::default(),
            calls: Family::default(),
            unreadable: Family::default(),
            watches: Family::default(),
            writes_pending: Gauge::default(),
            cron_job_skew: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            ttl_deletions: Histogram::new(exponential_buckets(0.1, 2.0, 14)),
            event_delay: Histogram::new(exponential_buckets(0.01, 2.0, 14)),
            events_dropped: Counter::default(),
        };
        metrics.jobs.register(&mut metrics.registry);
        metrics.queues.register(&mut metrics.registry);
        let skew = metrics.cron_job_skew.clone();
        metrics.registry.register(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "How long after their time Jobs of CronJobs were created",
            skew,
        );
        let late = metrics.ttl_deletions.clone();
        metrics.registry.register(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "How long after their time finished Jobs were deleted",
            late,
        );
        let registry = metrics.registry.sub_registry_with_prefix("lakh");
        registry.register("turns", "Turns of Jobs' actors", metrics.turns.clone());
        registry.register(
            "actor_panics",
            "Actors built anew after a panic",
            metrics.panics.clone(),
        );
        registry.register(
            "api_calls",
            "Calls to the API server",
            metrics.calls.clone(),
        );
        let unreadable = metrics.unreadable.clone();
        registry.register(
            "unreadable_objects",
            "Objects that could not be read",
            unreadable,
        );
        registry.register("watches", "Watches opened", metrics.watches.clone());
        let pending = metrics.writes_pending.clone();
        registry.register("writes_pending", "Writes waiting or under way", pending);
        registry.register(
            "event_delay_seconds",
            "How long Events waited until the server had them",
            metrics.event_delay.clone(),
        );
        let dropped = metrics.events_dropped.clone();
        registry.register("events_dropped", "Events dropped", dropped);
        metrics
    }

    /// Counts a call.
    pub(super) fn call(&self, verb: &'static str, resource: &'static str, code: u16) {
        self.calls
            .get_or_create(&Call {
                verb,
                resource,
                code,
            })
            .inc();
    }

    /// All metrics, in the text format of OpenMetrics.
    pub(super) fn text(&self) -> String {
        self.queues.look(instant());
        let mut text = String::new();
        // Writing to a string fails only if a metric's own encoder does; then what there is, is sent.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// A number that only grows, for progress through versions.
#[derive(Debug, Default)]
pub(super) struct Watermark(AtomicU64);

impl Watermark {
    pub(super) fn raise(&self, to: u64) {
        self.0.fetch_max(to, Ordering::AcqRel);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }
}
