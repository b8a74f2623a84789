//! Records per kind when the API server last answered, for probes and metrics.
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

use lakh_model::Monotonic;

/// Time of the server's last answer about one kind in one namespace, and whether each request since has failed.
#[derive(Debug)]
pub(crate) struct LastHeard {
    /// The kind, as in a path.
    pub(crate) kind: &'static str,
    /// The namespace; none for all.
    pub(crate) namespace: Option<Arc<str>>,
    /// In milliseconds since the program started; 0 if never.
    at: AtomicU64,
    /// Every request since has failed.
    is_lost: AtomicBool,
    /// Counts failed requests.
    failures: FailedTries,
}

/// Counters of failed requests, by the labels `kind` and `what`.
pub(crate) type FailedTries = Family<[(&'static str, &'static str); 2], Counter>;

impl LastHeard {
    /// Starts without an answer.
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

    /// Records an answer or an event.
    pub(crate) fn now(&self, now: Monotonic) {
        let millis = u64::try_from(now.since_start().as_millis()).unwrap_or(u64::MAX);
        self.at.store(millis, Ordering::Relaxed);
        // Rarely true: this saves a store per event.
        if self.is_lost.load(Ordering::Relaxed) {
            self.is_lost.store(false, Ordering::Relaxed);
        }
    }

    /// Records a failed request.
    pub(crate) fn lost(&self, what: &'static str) {
        let labels = [("kind", self.kind), ("what", what)];
        self.failures.get_or_create(&labels).inc();
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// Returns the time since the last answer; since the program started, if there was none.
    pub(crate) fn age(&self, now: Monotonic) -> Duration {
        now.since(Monotonic::from_millis(self.at.load(Ordering::Relaxed)))
    }

    /// Returns the time since the last answer if every request since has failed.
    pub(crate) fn lost_for(&self, now: Monotonic) -> Option<Duration> {
        let is_lost = self.is_lost.load(Ordering::Relaxed);
        is_lost.then(|| self.age(now))
    }
}
