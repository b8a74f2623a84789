//! Asks an API server that has been silent for a while whether it still answers.
//!
//! Open watches of a quiet cluster bring nothing for a minute, also where the server has stopped to answer. Leader
//! election has calls of its own every few seconds; without one, this is how the silence of a server shows.
//!
//! Must not: end anything, or judge how long a silence may last; see [`Health`](super::health::Health).

use std::time::Duration;

use tokio::time::sleep;

use crate::{clock::Clock, cluster::Client, informer::FailureRun};

/// The server is asked after this time of silence.
const SILENCE: Duration = Duration::from_secs(8);

/// The interval at which the silence is measured.
const INTERVAL: Duration = Duration::from_secs(2);

/// The longest that an answer may take.
const LONGEST: Duration = Duration::from_secs(10);

/// Asks for as long as it runs.
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
                    tracing::warn!(failures, silence, %error, "the API server does not answer");
                }
            }
        }
    }
}

fn report_end(unanswered: Option<FailureRun>, clock: &Clock) {
    let now = clock.now().monotonic;
    if let Some(seconds) = unanswered.and_then(|run| run.reported_seconds(now)) {
        tracing::info!(seconds, "the API server answers again");
    }
}
