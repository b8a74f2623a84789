//! Measures latencies: until the first Pod of a new Job, and until a status counts finished Pods.
//!
//! Must not: decide anything; these are measurements.

use lakh_core::decide::Outcome;
use lakh_model::Monotonic;

use crate::metrics::jobs::JobMetrics;

/// The latency measurements of one Job that are in progress.
#[derive(Debug, Default)]
pub(super) struct Delays {
    /// Since when a new Job waits for its first Pod.
    new_since: Option<Monotonic>,
    /// Since when the oldest finished Pod waits to be recorded in a status.
    ended_since: Option<Monotonic>,
    /// The same for the Pods in the status write in flight.
    naming_since: Option<Monotonic>,
}

impl Delays {
    /// Starts the measurement for a new Job.
    pub(super) fn begin(&mut self, now: Monotonic) {
        self.new_since = Some(now);
    }

    /// Handles the end of a sync: `waiting` finished Pods are not recorded yet, and `names` is true if the sync writes
    /// a status that records some. That status records the Pods that waited, and possibly Pods that this sync has seen
    /// first.
    pub(super) fn after_turn(&mut self, waiting: u32, names: bool, now: Monotonic) {
        if names {
            self.naming_since = self.ended_since.take().or(Some(now));
        }
        if waiting > 0 {
            self.ended_since.get_or_insert(now);
        }
    }

    /// Handles the outcome of a write.
    pub(super) fn heard(&mut self, outcome: &Outcome, metrics: &JobMetrics, now: Monotonic) {
        match outcome {
            Outcome::PodCreated(_) => {
                if let Some(since) = self.new_since.take() {
                    metrics.first_pod(now.since(since));
                }
            }
            Outcome::StatusWritten => {
                if let Some(since) = self.naming_since.take() {
                    metrics.counted(now.since(since));
                }
            }
            // The Pods keep waiting.
            Outcome::StatusNotWritten => {
                self.ended_since = self.naming_since.take().or(self.ended_since);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[test]
    fn the_first_pod_that_ended_is_what_a_status_is_measured_by() {
        let metrics = Metrics::default();
        let at = Monotonic::from_secs;
        let mut delays = Delays::default();
        delays.after_turn(0, false, at(1));
        delays.after_turn(1, false, at(10));
        delays.after_turn(5, false, at(12));
        // The status is refused; the next one records two more.
        delays.after_turn(0, true, at(13));
        delays.after_turn(2, false, at(14));
        delays.heard(&Outcome::StatusNotWritten, &metrics.jobs, at(15));
        delays.after_turn(0, true, at(16));
        delays.heard(&Outcome::StatusWritten, &metrics.jobs, at(17));
        // A Pod recorded in the sync that has seen it first.
        delays.after_turn(0, true, at(18));
        delays.heard(&Outcome::StatusWritten, &metrics.jobs, at(20));
        // A status that records no Pod.
        delays.after_turn(0, false, at(21));
        delays.heard(&Outcome::StatusWritten, &metrics.jobs, at(22));
        let text = metrics.text(at(23));
        let sum = "lakh_count_delay_seconds_sum 9.0";
        assert!(text.contains(sum), "{text}");
        assert!(text.contains("lakh_count_delay_seconds_count 2"), "{text}");
    }
}
