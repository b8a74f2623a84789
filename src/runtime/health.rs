//! Runs the controller's health checks; a failed check carries its reason.
//!
//! The controller is alive while no loop is stuck (see [`Tasks`](super::tasks::Tasks)). It is ready once its caches are
//! filled, while the API server answers, accepts its credentials, and serves each kind. With an election it must also
//! be able to write the Lease: a replica that could not lead if it had to is not ready.
//!
//! Must not: end anything.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{
    client::{Client, Trouble},
    clock::Clock,
    metrics::Metrics,
};

use super::tasks::Pulses;

/// The controller is no longer ready once the API server has refused its credentials for this long: a token file is
/// read again after a minute, too.
const UNAUTHORIZED_FOR: Duration = Duration::from_secs(60);

/// The controller is no longer ready if, for this long, no call was answered, or all attempts failed at one of these:
/// to list or watch a kind, or to write the Lease. A restarted API server is back sooner.
const LOST_FOR: Duration = Duration::from_secs(30);

/// Sources of the checks behind `/livez` and `/readyz`, and of `/metrics`.
#[derive(Debug)]
pub(super) struct Health {
    client: Client,
    pulses: Arc<Pulses>,
    /// Kinds without a filled cache; none until the informers report.
    missing: watch::Receiver<Option<Vec<&'static str>>>,
    metrics: Arc<Metrics>,
    clock: Clock,
}

/// A check, and the reason if it has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) failed: Option<String>,
}

impl Health {
    pub(super) fn new(
        client: Client,
        missing: watch::Receiver<Option<Vec<&'static str>>>,
        metrics: Arc<Metrics>,
        clock: Clock,
    ) -> Self {
        Self {
            client,
            pulses: Arc::default(),
            missing,
            metrics,
            clock,
        }
    }

    /// Returns the pulses that show stuck loops.
    pub(super) fn pulses(&self) -> &Arc<Pulses> {
        &self.pulses
    }

    /// Runs the checks of `/livez`.
    pub(super) fn alive(&self) -> Vec<Check> {
        let stuck = self.pulses.stuck();
        let check = |failed| Check {
            name: "loops",
            failed,
        };
        match stuck.is_empty() {
            true => vec![check(None)],
            false => {
                let why = stuck.iter().map(|name| format!("{name} is stuck"));
                why.map(Some).map(check).collect()
            }
        }
    }

    /// Runs the checks of `/readyz`.
    pub(super) fn ready(&self) -> Vec<Check> {
        let trouble = self.client.trouble();
        let because = |what: String| match &trouble {
            Some(trouble) => format!("{what}: {trouble}"),
            None => what,
        };
        let refused = trouble.as_ref().filter(|trouble| {
            trouble.code == http::StatusCode::UNAUTHORIZED.as_u16()
                && trouble.lasts() >= UNAUTHORIZED_FOR
        });
        let lost = self.metrics.lost(LOST_FOR, self.clock.now().monotonic);
        let lost = (!lost.is_empty()).then(|| format!("no data about {}", lost.join(", ")));
        let silence = self.client.silence();
        let silent = trouble
            .as_ref()
            .filter(|trouble| trouble.code == 0 && silence >= LOST_FOR);
        let silent = silent.map(|trouble| {
            let seconds = silence.as_secs();
            format!("no response to any request for {seconds} s: {trouble}")
        });
        let lease = self
            .metrics
            .lease_problem(LOST_FOR, self.clock.now().monotonic);
        let mut checks = self.alive();
        checks.extend([
            Check {
                name: "caches",
                failed: self.caches_missing().map(because),
            },
            Check {
                name: "credentials",
                failed: refused.map(Trouble::to_string),
            },
            Check {
                name: "watches",
                failed: lost.map(because),
            },
            Check {
                name: "server",
                failed: silent,
            },
            Check {
                name: "lease",
                failed: lease,
            },
        ]);
        checks
    }

    /// Returns all metrics, as text.
    pub(super) fn metrics(&self) -> String {
        self.metrics.text(self.clock.now().monotonic)
    }

    fn caches_missing(&self) -> Option<String> {
        match self.missing.borrow().as_deref() {
            None => Some("the lists are not complete".to_owned()),
            Some([]) => None,
            Some(names) => Some(format!("no complete list of {}", names.join(", "))),
        }
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::client::configure_streams;

    /// An API server that restarts refuses connections for some seconds.
    #[tokio::test]
    async fn a_call_without_an_answer_does_not_make_it_unready_at_once() {
        let client = configure_streams(|| Err(ErrorKind::ConnectionRefused.into()));
        let (_filled, missing) = watch::channel(Some(Vec::new()));
        let health = Health::new(client.clone(), missing, Arc::default(), Clock::default());
        client.get("/version").await.expect_err("it is refused");
        assert!(client.trouble().is_some());
        let mut checks = health.ready();
        checks.retain(|check| check.failed.is_some());
        assert!(checks.is_empty(), "{checks:?}");
    }
}
