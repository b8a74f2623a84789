//! The controller's metrics, for `/metrics`; those of Jobs and of queues have files of their own.

use std::{sync::atomic::AtomicU64, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Metric, Registry},
};

pub(crate) mod jobs;
pub(crate) mod measured_queue;
pub(crate) mod progress;
pub(crate) mod queues;

use crate::clock::instant;
use jobs::JobMetrics;
use queues::QueueFamilies;

/// All metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Those of Kubernetes' Job controller.
    pub(crate) jobs: JobMetrics,
    /// Those of work queues.
    pub(crate) queues: QueueFamilies,
    /// Turns of Jobs' actors.
    pub(crate) turns: Counter,
    /// Actors that panicked and were built anew.
    pub(crate) panics: Counter,
    /// Calls to the API server.
    pub(crate) calls: Family<CallLabels, Counter>,
    /// Objects that could not be read.
    pub(crate) unreadable: Family<Label, Counter>,
    /// Watches that were opened.
    pub(crate) watches: Family<Label, Counter>,
    /// Writes that wait for their turn or are under way.
    pub(crate) writes_pending: Gauge<i64>,
    /// How long after their time Jobs of CronJobs were created.
    pub(crate) cron_job_skew: Histogram,
    /// How long after their time finished Jobs were deleted.
    pub(crate) ttl_deletions: Histogram,
    /// How long Events waited until the server had them.
    pub(crate) event_delay: Histogram,
    /// Events that were dropped because too many waited.
    pub(crate) events_dropped: Counter<u64, AtomicU64>,
}

/// A call, by what it did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CallLabels {
    pub(crate) verb: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) code: u16,
}

/// One label: its name and its value.
type Label = [(&'static str, &'static str); 1];

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let jobs = JobMetrics::registered(&mut registry);
        let queues = QueueFamilies::registered(&mut registry);
        let cron_job_skew = register(
            &mut registry,
            "cronjob_controller_job_creation_skew_duration_seconds",
            "How long after their time Jobs of CronJobs were created",
            Histogram::new(exponential_buckets(1.0, 2.0, 10)),
        );
        let ttl_deletions = register(
            &mut registry,
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "How long after their time finished Jobs were deleted",
            Histogram::new(exponential_buckets(0.1, 2.0, 14)),
        );
        let own = registry.sub_registry_with_prefix("lakh");
        Self {
            jobs,
            queues,
            cron_job_skew,
            ttl_deletions,
            turns: at_zero(own, "turns", "Turns of Jobs' actors"),
            panics: at_zero(own, "actor_panics", "Actors built anew after a panic"),
            calls: at_zero(own, "api_calls", "Calls to the API server"),
            unreadable: at_zero(own, "unreadable_objects", "Objects that could not be read"),
            watches: at_zero(own, "watches", "Watches opened"),
            writes_pending: at_zero(own, "writes_pending", "Writes waiting or under way"),
            event_delay: register(
                own,
                "event_delay_seconds",
                "How long Events waited until the server had them",
                Histogram::new(exponential_buckets(0.01, 2.0, 14)),
            ),
            events_dropped: at_zero(own, "events_dropped", "Events dropped"),
            registry,
        }
    }
}

/// Registers a metric.
fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Registers a metric that starts at zero.
fn at_zero<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    register(registry, name, help, M::default())
}

impl Metrics {
    /// Counts a call.
    pub(crate) fn call(&self, verb: &'static str, resource: &'static str, code: u16) {
        let labels = CallLabels {
            verb,
            resource,
            code,
        };
        self.calls.get_or_create(&labels).inc();
    }

    /// Counts an object that could not be read.
    pub(crate) fn unreadable_object(&self, kind: &'static str) {
        self.unreadable.get_or_create(&[("kind", kind)]).inc();
    }

    /// Counts a watch that is opened.
    pub(crate) fn watch_opened(&self, kind: &'static str) {
        self.watches.get_or_create(&[("kind", kind)]).inc();
    }

    /// Starts a measurement for one of these metrics; nothing is decided by it.
    pub(crate) fn stopwatch(&self) -> impl Fn() -> Duration + use<> {
        let begun = instant();
        move || begun.elapsed()
    }

    /// All metrics, in the text format of OpenMetrics.
    pub(crate) fn text(&self) -> String {
        self.queues.look(instant());
        let mut text = String::new();
        // Writing to a string fails only if a metric's own encoder does; then what there is, is sent.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
