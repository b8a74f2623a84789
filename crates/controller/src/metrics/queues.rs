//! Exports the metrics of work queues, with client-go's names and buckets.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::{Label, at_zero, register};

type PerQueue<M> = Family<Label, M>;
type Seconds = Gauge<f64, AtomicU64>;

/// The metrics of all queues. Each has the queue's name as a label.
#[derive(Debug)]
pub(crate) struct QueueFamilies {
    depth: PerQueue<Gauge>,
    adds: PerQueue<Counter>,
    retries: PerQueue<Counter>,
    waited: PerQueue<Histogram>,
    worked: PerQueue<Histogram>,
    unfinished: PerQueue<Seconds>,
    longest: PerQueue<Seconds>,
    queues: Mutex<Vec<(&'static str, QueueMetrics)>>,
}

/// The metrics of one queue; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct QueueMetrics {
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
    unfinished: Seconds,
    longest: Seconds,
    /// Start times of the turns in progress.
    begun: Arc<Mutex<Vec<Instant>>>,
}

impl QueueFamilies {
    /// Registers and returns the metrics. The registry's encoder adds `_total` to the names of counters.
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let own = registry.sub_registry_with_prefix("workqueue");
        let seconds = || -> PerQueue<Histogram> {
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(1e-8, 10.0, 12)))
        };
        Self {
            depth: at_zero(own, "depth", "Keys in the queue"),
            adds: at_zero(own, "adds", "Keys added to the queue"),
            retries: at_zero(own, "retries", "Keys requeued for a later time"),
            waited: register(
                own,
                "queue_duration_seconds",
                "Time that keys waited in the queue",
                seconds(),
            ),
            worked: register(own, "work_duration_seconds", "Duration of syncs", seconds()),
            unfinished: at_zero(
                own,
                "unfinished_work_seconds",
                "Total duration so far of the syncs in progress",
            ),
            longest: at_zero(
                own,
                "longest_running_processor_seconds",
                "Duration so far of the longest sync in progress",
            ),
            queues: Mutex::default(),
        }
    }

    /// Returns the metrics of the queue of this name, which the queues of all shards share.
    pub(crate) fn of(&self, queue: &'static str) -> QueueMetrics {
        let mut queues = self.queues.lock();
        if let Some((_, known)) = queues.iter().find(|(known, _)| *known == queue) {
            return known.clone();
        }
        let name = [("name", queue)];
        let named = queue;
        let queue = QueueMetrics {
            depth: self.depth.get_or_create_owned(&name),
            adds: self.adds.get_or_create_owned(&name),
            retries: self.retries.get_or_create_owned(&name),
            waited: self.waited.get_or_create_owned(&name),
            worked: self.worked.get_or_create_owned(&name),
            unfinished: self.unfinished.get_or_create_owned(&name),
            longest: self.longest.get_or_create_owned(&name),
            begun: Arc::default(),
        };
        queues.push((named, queue.clone()));
        queue
    }

    /// Updates the gauges of the turns in progress.
    pub(crate) fn look(&self, now: Instant) {
        for (_, queue) in &*self.queues.lock() {
            let begun = queue.begun.lock();
            let so_far = begun.iter().map(|begun| (now - *begun).as_secs_f64());
            queue
                .unfinished
                .set(so_far.clone().fold(0.0, |sum, one| sum + one));
            queue.longest.set(so_far.fold(0.0, f64::max));
        }
    }
}

impl QueueMetrics {
    /// Records that a key was added.
    pub(crate) fn added(&self) {
        self.depth.inc();
        self.adds.inc();
    }

    /// Records that a key is retried at a later time.
    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    /// Records that a key's turn begins after this wait.
    pub(crate) fn begun(&self, now: Instant, wait: Duration) {
        self.depth.dec();
        self.waited.observe(wait.as_secs_f64());
        self.begun.lock().push(now);
    }

    /// Records the end of the turn that began at `begun`.
    pub(crate) fn ended(&self, begun: Instant, now: Instant) {
        self.worked.observe((now - begun).as_secs_f64());
        let mut all = self.begun.lock();
        if let Some(place) = all.iter().position(|other| *other == begun) {
            all.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use lakh_clock::instant;

    #[test]
    fn running_syncs_are_reported_with_their_duration() {
        let mut registry = Registry::default();
        let families = QueueFamilies::registered(&mut registry);
        let (jobs, other) = (families.of("job"), families.of("cronjob"));
        let told = |at: Instant| {
            families.look(at);
            let mut text = String::new();
            encode(&mut text, &registry).expect("it can be written");
            let of = |name: &str, queue: &str| {
                let sample = format!("workqueue_{name}_seconds{{name=\"{queue}\"}} ");
                let value = text.lines().find_map(|line| line.strip_prefix(&sample));
                value.expect("it is told of").to_owned()
            };
            ["job", "cronjob"].map(|queue| {
                let names = ["unfinished_work", "longest_running_processor"];
                names.map(|name| of(name, queue))
            })
        };
        let start = instant();
        let at = |secs: u64| start + Duration::from_secs(secs);
        for queue in [&jobs, &jobs, &other] {
            queue.added();
        }
        jobs.begun(at(0), Duration::ZERO);
        jobs.begun(at(3), Duration::ZERO);
        other.begun(at(4), Duration::ZERO);
        assert_eq!(told(at(5)), [["7.0", "5.0"], ["1.0", "1.0"]]);
        jobs.ended(at(0), at(6));
        other.ended(at(4), at(6));
        assert_eq!(told(at(7)), [["4.0", "4.0"], ["0.0", "0.0"]]);
    }
}
