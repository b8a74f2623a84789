//! Pings an API server that has been silent for a while.
//!
//! In a quiet cluster, open watches bring nothing for a minute, also if the server no longer answers. Leader election
//! makes calls every few seconds; without one, these pings detect an outage.
//!
//! Must not: end anything, or judge how long a silence may last; see [`Health`](super::health::Health).

use std::time::Duration;

use tokio::time::sleep;

use crate::{client::Client, clock::Clock, informer::FailureRun};

/// Silence after which the server is pinged.
const SILENCE: Duration = Duration::from_secs(8);

/// Interval at which the silence is measured.
const INTERVAL: Duration = Duration::from_secs(2);

/// Timeout of a ping.
const LONGEST: Duration = Duration::from_secs(10);

/// Pings for as long as it is polled.
pub(super) async fn run(client: Client, clock: Clock) {
    let mut unanswered: Option<FailureRun> = None;
    loop {
        sleep(INTERVAL).await;
        if client.silence() < SILENCE {
            report_end(unanswered.take(), &clock);
            continue;
        }
        match client.ping(LONGEST).await {
            Ok(()) => report_end(unanswered.take(), &clock),
            Err(error) => {
                let now = clock.now().monotonic;
                let run = unanswered.get_or_insert(FailureRun::new(now));
                if run.add(true, now) {
                    let (failures, silence) = (run.failures, client.silence().as_secs());
                    tracing::warn!(failures, silence, %error, "the API server does not respond");
                }
            }
        }
    }
}

fn report_end(unanswered: Option<FailureRun>, clock: &Clock) {
    let now = clock.now().monotonic;
    if let Some(seconds) = unanswered.and_then(|run| run.reported_seconds(now)) {
        tracing::info!(seconds, "the API server responds again");
    }
}
