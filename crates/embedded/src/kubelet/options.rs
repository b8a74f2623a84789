//! Defines the options of the hollow kubelet.
//!
//! Responsible for: options that apply to all Pods. Must not: know single Pods; their annotations are read in
//! `settings`.

use std::{sync::Arc, time::Duration};

use super::{NodeCapacity, Stage};
use crate::model::Exponential;

/// Options of the hollow nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeletOptions {
    /// Names of the hollow nodes; Pods are bound to them in turn. If empty, nothing is bound.
    pub node_names: Vec<String>,
    /// Capacity of each node. None: unlimited, and Pods' requests are ignored.
    pub capacity: Option<NodeCapacity>,
    /// Run time of a Pod's containers, unless the Pod says otherwise.
    pub default_duration: Duration,
    /// Exit code of the first container, unless the Pod or the fail rate says otherwise.
    pub default_exit_code: u8,
    /// Share of tries, from 0 to 1, that exit with 1; Pods with an exit code of their own are exempt.
    pub fail_rate: f64,
    /// Simulated lives as data; the other options fill in the rest.
    pub stages: Arc<[Stage]>,
    /// Seed that selects the failing tries; equal seeds and inputs give equal writes.
    pub seed: u64,
    /// Time between binding and the start of the containers.
    pub startup_latency: Duration,
    /// Time that a container takes to exit after SIGTERM.
    pub stop_delay: Duration,
    /// Delay of a container's second restart; it doubles with each later one.
    pub restart_backoff: Duration,
}

impl KubeletOptions {
    /// Returns the defaults, with `count` nodes named `hollow-0`, `hollow-1` and so on.
    pub fn with_nodes(count: usize) -> Self {
        Self {
            node_names: (0..count).map(|n| format!("hollow-{n}")).collect(),
            ..Self::default()
        }
    }

    /// Returns the backoff between tries. The base is never zero: a container that fails at once must not restart
    /// forever within one instant.
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

/// A kubelet's backoff goes from 10 s to 300 s; the ratio stays when the base changes.
const BACKOFF_MAX_FACTOR: u32 = 30;
