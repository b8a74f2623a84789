//! Samples the state of a run periodically as a time series.
//!
//! Must not: wait; a value that is not available at the moment is left out of its sample.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{
    metrics,
    process::{Process, Usage},
    report::{ProcessSample, Sample, rounded},
    seen::Seen,
};

/// lakh's metric for writes that are queued or in flight.
const PENDING: &str = "lakh_writes_pending";

/// Timeout for lakh's metrics.
const PATIENCE: Duration = Duration::from_millis(100);

/// The sampled values and the sampling period.
pub(crate) struct Sampler {
    pub(crate) seen: Arc<Seen>,
    pub(crate) processes: Vec<Process>,
    /// Address of lakh's metrics.
    pub(crate) metrics: Option<std::net::SocketAddr>,
    pub(crate) period: Duration,
}

impl Sampler {
    /// Samples until it is stopped; then takes one last sample.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) -> Vec<Sample> {
        let mut ticks = interval(self.period.max(Duration::from_millis(10)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut samples = Vec::new();
        let mut reported = 0;
        loop {
            // A dropped sender also means stop.
            let over = tokio::select! {
                _ = ticks.tick() => false,
                _ = stop.wait_for(|stop| *stop) => true,
            };
            samples.push(self.sample(&mut reported).await);
            if over {
                return samples;
            }
        }
    }

    async fn sample(&self, reported: &mut usize) -> Sample {
        let writes_pending = self.writes_pending().await;
        let seconds = self.seen.started().elapsed().as_secs_f64();
        let (counts, latencies) = {
            let state = self.seen.lock();
            let latencies = state.finished_to_counted.since(*reported);
            *reported = state.finished_to_counted.len();
            (state.counts, latencies)
        };
        let some = (latencies.count > 0).then_some(());
        let usages = self.processes.iter().map(|process| {
            let Usage {
                cpu_seconds,
                rss_mib,
                ..
            } = process.usage().unwrap_or_default();
            let sample = ProcessSample {
                cpu_seconds: rounded(cpu_seconds),
                rss_mib: rounded(rss_mib),
            };
            (process.name.clone(), sample)
        });
        Sample {
            seconds: rounded(seconds),
            created: counts.created,
            active: counts.active,
            succeeded: counts.succeeded,
            failed: counts.failed,
            counted: counts.counted,
            writes_pending,
            counted_p50_ms: some.map(|()| latencies.p50),
            counted_p99_ms: some.map(|()| latencies.p99),
            processes: usages.collect::<BTreeMap<_, _>>(),
        }
    }

    async fn writes_pending(&self) -> Option<u64> {
        let answer = timeout(PATIENCE, metrics::get(self.metrics?, "/metrics")).await;
        let (_, text) = answer.ok()?.ok()?;
        let sample = metrics::samples(&text, PENDING).next()?;
        Some(sample.value.max(0.0) as u64)
    }
}
