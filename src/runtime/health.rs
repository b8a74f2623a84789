//! How the controller is: what is wrong with it, if anything, by the names of the checks.
//!
//! It lives while no loop is stuck (see [`Tasks`](super::tasks::Tasks)); it is ready once its caches are
//! filled, and as long as the API server takes its credentials.
//!
//! Must not: end anything.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::cluster::{Client, Trouble};

use super::tasks::Pulses;

/// For so long the API server may refuse the credentials before the controller is no longer ready: a token
/// file is read again after a minute, too.
const UNAUTHORIZED_FOR: Duration = Duration::from_secs(60);

/// See the module's text.
#[derive(Debug)]
pub(super) struct Health {
    client: Client,
    pulses: Arc<Pulses>,
    /// Which caches are not filled; nobody knows before there are informers.
    missing: watch::Receiver<Option<Vec<&'static str>>>,
}

/// A check that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) check: &'static str,
    pub(super) why: String,
}

impl Health {
    pub(super) fn new(client: Client, missing: watch::Receiver<Option<Vec<&'static str>>>) -> Self {
        Self {
            client,
            pulses: Arc::default(),
            missing,
        }
    }

    /// The pulses by which it is known who is stuck.
    pub(super) fn pulses(&self) -> &Arc<Pulses> {
        &self.pulses
    }

    /// What speaks against its being alive.
    pub(super) fn not_alive(&self) -> Vec<Failed> {
        let stuck = self.pulses.stuck();
        let failed = stuck.iter().map(|name| Failed {
            check: "loops",
            why: format!("{name} is stuck"),
        });
        failed.collect()
    }

    /// What speaks against its being ready.
    pub(super) fn not_ready(&self) -> Vec<Failed> {
        let trouble = self.client.trouble();
        let mut failed = self.not_alive();
        failed.extend(self.caches_missing().map(|missing| {
            let trouble = trouble.as_ref().map(Trouble::to_string).unwrap_or_default();
            let colon = if trouble.is_empty() { "" } else { ": " };
            Failed {
                check: "caches",
                why: format!("{missing}{colon}{trouble}"),
            }
        }));
        let refused = trouble.filter(|trouble| {
            trouble.code == http::StatusCode::UNAUTHORIZED.as_u16()
                && trouble.lasts() >= UNAUTHORIZED_FOR
        });
        failed.extend(refused.map(|trouble| Failed {
            check: "credentials",
            why: trouble.to_string(),
        }));
        failed
    }

    fn caches_missing(&self) -> Option<String> {
        match self.missing.borrow().as_deref() {
            None => Some("not filled yet".to_owned()),
            Some([]) => None,
            Some(names) => Some(format!("not filled yet of {}", names.join(", "))),
        }
    }
}
