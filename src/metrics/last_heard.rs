//! When the API server was last heard of a kind, for probes and metrics.
//!
//! Must not: judge whether that is too long ago.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use prometheus_client::metrics::{counter::Counter, family::Family};

use crate::model::Monotonic;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct LastHeard {
    /// The kind, as in a path.
    pub(crate) kind: &'static str,
    /// The namespace; none for all.
    pub(crate) namespace: Option<Arc<str>>,
    /// In milliseconds since the program began; 0 if never.
    at: AtomicU64,
    /// Whether every try since has failed.
    is_lost: AtomicBool,
    /// Counts the tries that failed.
    failures: FailedTries,
}

/// Counters of failed tries, by the labels `kind` and `what`.
pub(crate) type FailedTries = Family<[(&'static str, &'static str); 2], Counter>;

impl LastHeard {
    /// The server was never heard of it.
    pub(crate) fn new(
        kind: &'static str,
        namespace: Option<Arc<str>>,
        failures: FailedTries,
    ) -> Self {
        Self {
            kind,
            namespace,
            at: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            failures,
        }
    }

    /// It has said something.
    pub(crate) fn now(&self, now: Monotonic) {
        let millis = u64::try_from(now.since_start().as_millis()).unwrap_or(u64::MAX);
        self.at.store(millis, Ordering::Relaxed);
        // Hardly ever so: a store for each piece of news would be one more for nothing.
        if self.is_lost.load(Ordering::Relaxed) {
            self.is_lost.store(false, Ordering::Relaxed);
        }
    }

    /// A try has failed.
    pub(crate) fn lost(&self, what: &'static str) {
        let labels = [("kind", self.kind), ("what", what)];
        self.failures.get_or_create(&labels).inc();
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// How long ago the server was heard; since the program began, if never.
    pub(crate) fn age(&self, now: Monotonic) -> Duration {
        now.since(Monotonic::from_millis(self.at.load(Ordering::Relaxed)))
    }

    /// How long it has not been heard, though it was asked.
    pub(crate) fn lost_for(&self, now: Monotonic) -> Option<Duration> {
        let is_lost = self.is_lost.load(Ordering::Relaxed);
        is_lost.then(|| self.age(now))
    }
}
