//! Records latencies one by one, and summarizes them as percentiles.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Measured latencies, in order of arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    /// In milliseconds, four bytes each: there may be a million.
    millis: Vec<f32>,
}

/// A summary of latencies, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Distribution {
    /// Number of latencies.
    pub(crate) count: usize,
    /// Half of the latencies are at most this.
    pub(crate) p50: f64,
    /// Nine of ten are at most this.
    pub(crate) p90: f64,
    /// All but one of a hundred are at most this.
    pub(crate) p99: f64,
    /// The largest latency.
    pub(crate) max: f64,
    /// The percentiles from 0 to 100, for a curve; empty without latencies.
    pub(crate) percentiles: Vec<f64>,
}

impl FromIterator<Duration> for Latencies {
    fn from_iter<I: IntoIterator<Item = Duration>>(latencies: I) -> Self {
        let mut all = Self::default();
        for latency in latencies {
            all.push(latency);
        }
        all
    }
}

impl Latencies {
    /// Adds a latency.
    pub(crate) fn push(&mut self, latency: Duration) {
        self.millis.push(latency.as_secs_f32() * 1000.0);
    }

    /// Returns the number of latencies.
    pub(crate) fn len(&self) -> usize {
        self.millis.len()
    }

    /// Summarizes the latencies from index `first` on.
    pub(crate) fn since(&self, first: usize) -> Distribution {
        let mut sorted = self.millis[first.min(self.millis.len())..].to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        let at = |percent: f64| percentile(&sorted, percent);
        let percentiles = if sorted.is_empty() {
            Vec::new()
        } else {
            (0..=100).map(|percent| at(f64::from(percent))).collect()
        };
        Distribution {
            count: sorted.len(),
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            max: at(100.0),
            percentiles,
        }
    }
}

/// Returns the least of the sorted values that this percentage does not exceed, rounded to a hundredth; 0 if there are
/// none.
fn percentile(sorted: &[f32], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    let value = sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0);
    (f64::from(value) * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(millis: impl IntoIterator<Item = u64>) -> Latencies {
        millis.into_iter().map(Duration::from_millis).collect()
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let all = latencies((1..=200).rev()).since(0);
        assert_eq!((all.count, all.p50, all.p90), (200, 100.0, 180.0));
        assert_eq!((all.p99, all.max), (198.0, 200.0));
        assert_eq!((all.percentiles[0], all.percentiles[100]), (1.0, 200.0));
        assert_eq!(all.percentiles.len(), 101);
    }

    #[test]
    fn one_latency_is_every_percentile_and_none_is_none() {
        let one = latencies([7]).since(0);
        assert_eq!((one.p50, one.p99, one.max), (7.0, 7.0, 7.0));
        assert_eq!(latencies([]).since(0), Distribution::default());
        assert_eq!(latencies([7]).since(5), Distribution::default());
    }

    #[test]
    fn a_later_part_is_reported_separately() {
        let latencies = latencies([1000, 1000, 5, 6]);
        assert_eq!(latencies.since(2).max, 6.0);
    }
}
