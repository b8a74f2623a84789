//! A work queue that those who work wait at: whose turn it is, and when.
//!
//! Must not: know what the keys are, or what is done in a turn.

use std::{fmt::Debug, hash::Hash};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    clock::Clock,
    model::{Exponential, Time, Timeout},
};

use super::{measured_queue::MeasuredQueue, queue_metrics::QueueMetrics};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Turns<K> {
    queue: Mutex<MeasuredQueue<K>>,
    changed: Notify,
    clock: Clock,
}

/// When a key comes again after its turn, but for news of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a key that is not handed back never has a turn again"]
pub(super) enum After {
    /// Not by itself.
    Over,
    /// At this time of day.
    At(Time),
    /// Soon; later after each failure in a row.
    Failed,
}

impl<K: Clone + Debug + Eq + Hash + Ord> Turns<K> {
    pub(super) fn new(backoff: Exponential, clock: Clock, metrics: QueueMetrics) -> Self {
        Self {
            queue: Mutex::new(MeasuredQueue::new(backoff, metrics)),
            changed: Notify::new(),
            clock,
        }
    }

    /// There is news of a key.
    pub(super) fn add(&self, key: K) {
        self.queue.lock().add(key);
        self.changed.notify_one();
    }

    /// A key is to have a turn at a later time of day, at the latest.
    pub(super) fn add_at(&self, key: K, due: Time) {
        self.queue.lock().add_at(key, due.into());
        // Whoever sleeps may now sleep too long.
        self.changed.notify_one();
    }

    /// A turn is over.
    pub(super) fn done(&self, key: K, after: After) {
        let mut queue = self.queue.lock();
        match after {
            // Whoever sleeps may now sleep too long, so all of these wake one.
            After::Failed => queue.add_rate_limited(key.clone(), self.clock.now().monotonic),
            After::At(due) => {
                queue.forget(&key);
                queue.add_at(key.clone(), due.into());
            }
            After::Over => queue.forget(&key),
        }
        queue.done(&key);
        drop(queue);
        self.changed.notify_one();
    }

    /// When the first key is due that waits for its time.
    #[cfg(test)]
    pub(super) fn next_due(&self) -> Timeout {
        self.queue.lock().next_due()
    }

    /// Waits for the next key whose turn it is.
    pub(super) async fn take(&self) -> K {
        loop {
            let changed = self.changed.notified();
            let (next, due, more) = {
                let mut queue = self.queue.lock();
                let next = queue.take(self.clock.now());
                (next, queue.next_due(), !queue.is_empty())
            };
            if let Some(key) = next {
                // Another one may take the next, or sleep until one is due.
                if more || due != Timeout::default() {
                    self.changed.notify_one();
                }
                return key;
            }
            tokio::select! {
                () = self.clock.sleep_until(due) => {}
                () = changed => {}
            }
        }
    }
}
