//! Reports to probes and metrics if this replica can write the Lease of its election.
//!
//! A replica that could not take over is not ready: a rollout must not replace replicas that can lead by such ones.
//!
//! Must not: read a clock, or write the Lease.

use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;

use lakh_model::Monotonic;

/// The outcome of the writes to one Lease, dry runs included.
#[derive(Debug)]
pub(crate) struct LeaseHealth {
    state: Mutex<State>,
    gauge: Gauge<i64>,
}

#[derive(Debug, Default)]
struct State {
    has_succeeded: bool,
    /// Time of the first failure since the last success, and the latest error.
    failing: Option<(Monotonic, String)>,
}

impl LeaseHealth {
    /// Starts without a write.
    pub(crate) fn new(gauge: Gauge<i64>) -> Self {
        gauge.set(0);
        Self {
            state: Mutex::default(),
            gauge,
        }
    }

    /// Records that a write was accepted.
    pub(crate) fn record_success(&self) {
        *self.state.lock() = State {
            has_succeeded: true,
            failing: None,
        };
        self.gauge.set(1);
    }

    /// Records that a write failed.
    pub(crate) fn record_failure(&self, error: String, now: Monotonic) {
        let mut state = self.state.lock();
        let since = state.failing.take().map_or(now, |(since, _)| since);
        state.failing = Some((since, error));
        self.gauge.set(0);
    }

    /// Returns the reason why the Lease cannot be written, if that has lasted for the grace period. There is no grace
    /// before the first success.
    pub(crate) fn problem(&self, grace: Duration, now: Monotonic) -> Option<String> {
        let state = self.state.lock();
        let Some((since, error)) = &state.failing else {
            return (!state.has_succeeded).then(|| "the Lease has not been written yet".to_owned());
        };
        let lasts = now.since(*since);
        let counts = !state.has_succeeded || lasts >= grace;
        counts.then(|| {
            format!(
                "the Lease could not be written for {} s: {error}",
                lasts.as_secs()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(30);

    #[test]
    fn a_hiccup_is_forgiven_once_a_write_has_succeeded() {
        let health = LeaseHealth::new(Gauge::default());
        let at = Monotonic::from_secs;
        let problem = |second| health.problem(GRACE, at(second));
        assert_eq!(
            problem(1).as_deref(),
            Some("the Lease has not been written yet")
        );
        health.record_failure("no".to_owned(), at(2));
        let words = "the Lease could not be written for 1 s: no";
        assert_eq!(problem(3).as_deref(), Some(words));
        health.record_success();
        assert_eq!((problem(4), health.gauge.get()), (None, 1));
        health.record_failure("first".to_owned(), at(10));
        health.record_failure("last".to_owned(), at(39));
        assert_eq!((problem(39), health.gauge.get()), (None, 0));
        let words = "the Lease could not be written for 30 s: last";
        assert_eq!(problem(40).as_deref(), Some(words));
        health.record_success();
        assert_eq!(problem(90), None);
    }
}
