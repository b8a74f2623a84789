//! Measures a work queue: number of waiting keys, their waiting time, and the duration of turns.
//!
//! Must not: wait, or know the meaning of keys.

use std::{fmt::Debug, hash::Hash, time::Instant};

use hashbrown::HashMap;

use lakh_clock::instant;
use lakh_core::flow::WorkQueue;
use lakh_model::{Exponential, Monotonic, Now, Timeout};

use super::queues::QueueMetrics;

/// A [`WorkQueue`] with metrics; its methods are documented there.
#[derive(Debug)]
pub(crate) struct MeasuredQueue<K> {
    queue: WorkQueue<K>,
    metrics: QueueMetrics,
    /// Keys that are ready, and since when.
    waiting: HashMap<K, Instant>,
    /// Keys in progress, and since when: few.
    working: Vec<(K, Instant)>,
}

impl<K: Clone + Debug + Eq + Hash + Ord> MeasuredQueue<K> {
    pub(crate) fn new(backoff: Exponential, metrics: QueueMetrics) -> Self {
        Self {
            queue: WorkQueue::new(backoff),
            metrics,
            waiting: HashMap::new(),
            working: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, key: K) {
        if self.queue.add(key.clone()) {
            self.waits(key);
        }
    }

    pub(crate) fn add_new(&mut self, key: K) {
        if self.queue.add_new(key.clone()) {
            self.waits(key);
        }
    }

    pub(crate) fn has_new(&self) -> bool {
        self.queue.has_new()
    }

    fn waits(&mut self, key: K) {
        self.waiting.insert(key, instant());
        self.metrics.added();
    }

    pub(crate) fn add_at(&mut self, key: K, due: Timeout) {
        self.queue.add_at(key, due);
        self.metrics.retried();
    }

    pub(crate) fn add_rate_limited(&mut self, key: K, now: Monotonic) {
        self.queue.add_rate_limited(key, now);
        self.metrics.retried();
    }

    pub(crate) fn forget(&mut self, key: &K) {
        self.queue.forget(key);
    }

    pub(crate) fn take(&mut self, now: Now) -> Option<K> {
        while let Some(key) = self.queue.come_due(now) {
            self.waits(key);
        }
        let key = self.queue.take(now)?;
        let now = instant();
        let since = self.waiting.remove(&key).unwrap_or(now);
        self.metrics.begun(now, now - since);
        self.working.push((key.clone(), now));
        Some(key)
    }

    pub(crate) fn done(&mut self, key: &K) {
        if let Some(place) = self.working.iter().position(|(other, _)| other == key) {
            let (_, begun) = self.working.swap_remove(place);
            self.metrics.ended(begun, instant());
        }
        if self.queue.done(key) {
            self.waits(key.clone());
        }
    }

    pub(crate) fn next_due(&self) -> Timeout {
        self.queue.next_due()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
