//! Measures the latency of the Job's Pod writes, queueing included.
//!
//! All Jobs share one queue, so this is the Job's only signal of the overall load. One write is timed at a time;
//! responses come roughly in the order of the writes.
//!
//! Must not: know the content of the writes.

use std::time::Duration;

use crate::model::Monotonic;

/// Counts requested and answered Pod writes of a Job, and times one of them at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteLatency {
    asked: u64,
    answered: u64,
    timed: Option<Timed>,
    took: Duration,
}

#[derive(Clone, Debug)]
struct Timed {
    /// The write's position in the sequence of requests.
    number: u64,
    since: Monotonic,
}

impl WriteLatency {
    /// Records a requested write.
    pub(super) fn ask(&mut self, now: Monotonic) {
        self.asked += 1;
        self.timed.get_or_insert(Timed {
            number: self.asked,
            since: now,
        });
    }

    /// Records the response to a write.
    pub(super) fn answer(&mut self, now: Monotonic) {
        self.answered += 1;
        if let Some(timed) = self.timed.take_if(|timed| timed.number <= self.answered) {
            self.took = now.since(timed.since);
        }
    }

    /// Returns the latency of the last timed write, or the age of the one being timed if that is longer. The age is
    /// rounded down to a power of two seconds: otherwise a wait derived from it would be extended a little again and
    /// again.
    pub(super) fn take(&self, now: Monotonic) -> Duration {
        let so_far = self.timed.as_ref().map_or(Duration::ZERO, |timed| {
            let seconds = now.since(timed.since).as_secs();
            Duration::from_secs(seconds.checked_ilog2().map_or(0, |log| 1 << log))
        });
        self.took.max(so_far)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_write_is_timed_at_a_time() {
        let at = Monotonic::from_secs;
        let took = |write_latency: &WriteLatency, now| write_latency.take(at(now)).as_secs();
        let mut write_latency = WriteLatency::default();
        write_latency.ask(at(100));
        write_latency.ask(at(101));
        assert_eq!(took(&write_latency, 100), 0);
        write_latency.answer(at(103));
        assert_eq!(took(&write_latency, 103), 3);
        // No write was being timed when the second was requested, and none is now.
        write_latency.answer(at(120));
        assert_eq!(took(&write_latency, 120), 3);
        write_latency.ask(at(130));
        write_latency.answer(at(131));
        assert_eq!(took(&write_latency, 131), 1);
    }

    #[test]
    fn writes_without_response_count_in_doublings() {
        let at = Monotonic::from_secs;
        let mut write_latency = WriteLatency::default();
        write_latency.ask(at(100));
        let so_far: Vec<_> = [0, 1, 2, 3, 4, 7, 8]
            .map(|seconds| write_latency.take(at(100 + seconds)).as_secs())
            .into();
        assert_eq!(so_far, [0, 1, 2, 2, 4, 4, 8]);
    }
}
