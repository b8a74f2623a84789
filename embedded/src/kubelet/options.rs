//! What the person who starts the hollow kubelet may choose.
//!
//! Responsible for: the settings that hold for all Pods. Must not: know of single Pods; their own
//! wishes are annotations, read in `settings`.

use std::{sync::Arc, time::Duration};

use super::{NodeCapacity, Stage};
use crate::model::Exponential;

/// How the hollow nodes behave.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeletOptions {
    /// Names of the hollow nodes; Pods are bound to them in turn. None: nothing is bound.
    pub node_names: Vec<String>,
    /// What each node has room for. None: everything, and nobody looks at what Pods ask for.
    pub capacity: Option<NodeCapacity>,
    /// How long the containers of a Pod run, unless the Pod says otherwise.
    pub default_duration: Duration,
    /// What the first container exits with, unless the Pod or the fail rate says otherwise.
    pub default_exit_code: u8,
    /// Share of tries, from 0 to 1, that exit with 1; Pods with a fate of their own are left out.
    pub fail_rate: f64,
    /// Lives of Pods as data; what they leave open is as the other options say.
    pub stages: Arc<[Stage]>,
    /// Decides which tries the fail rate picks; equal seeds and inputs give equal writes.
    pub seed: u64,
    /// Time between binding and the start of the containers.
    pub startup_latency: Duration,
    /// Time that a container takes to obey SIGTERM.
    pub stop_delay: Duration,
    /// The second restart of a container waits this long, each later one twice as long.
    pub restart_backoff: Duration,
}

impl KubeletOptions {
    /// The defaults, with `count` nodes named `hollow-0`, `hollow-1` and so on.
    pub fn with_nodes(count: usize) -> Self {
        Self {
            node_names: (0..count).map(|n| format!("hollow-{n}")).collect(),
            ..Self::default()
        }
    }

    /// The delays between tries. The first is never zero: a container that fails at once must not restart for ever
    /// within one instant.
    pub(super) fn backoff(&self) -> Exponential {
        let base = self.restart_backoff.max(Duration::from_millis(1));
        let max = base * BACKOFF_MAX_FACTOR;
        Exponential { base, max }
    }
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self {
            node_names: vec!["hollow-0".to_owned()],
            capacity: None,
            default_duration: Duration::ZERO,
            default_exit_code: 0,
            fail_rate: 0.0,
            stages: Arc::default(),
            seed: 0,
            startup_latency: Duration::ZERO,
            stop_delay: Duration::ZERO,
            restart_backoff: RESTART_BACKOFF,
        }
    }
}

/// The kubelet's own first restart delay.
const RESTART_BACKOFF: Duration = Duration::from_secs(10);

/// The kubelet goes from 10 s to 300 s; the ratio is kept when the base is changed.
const BACKOFF_MAX_FACTOR: u32 = 30;
