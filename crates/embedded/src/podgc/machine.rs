//! Plans the collector's passes and hands out their calls.
//!
//! Responsible for: when a pass is due, which Pods it ends and deletes, in which order and why.
//! Must not: keep sets of Pods (`known`) or render requests (`call`).

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::Duration,
};

use compact_str::CompactString;

use super::{Call, NodeFacts, PodFacts, known::Known};
use crate::model::{Monotonic, Uid};

/// Time from the end of a pass to the next one.
const PERIOD: Duration = Duration::from_secs(20);

/// Minimum time that a node must be missing before its Pods are removed. The node may be in the middle of a
/// re-creation, or its event may be late.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Why a Pod is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It has terminated, and the number of terminated Pods exceeds the threshold.
    #[doc(alias = "gcTerminated")]
    Terminated,
    /// It is being deleted, and its node is out of service and not ready.
    #[doc(alias = "gcTerminating")]
    OutOfService,
    /// Its node does not exist.
    #[doc(alias = "gcOrphaned")]
    Orphaned,
    /// It is being deleted and was never bound to a node.
    #[doc(alias = "gcUnscheduledTerminating")]
    Unscheduled,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminated => "terminated",
            Self::OutOfService => "out-of-service",
            Self::Orphaned => "orphaned",
            Self::Unscheduled => "unscheduled",
        })
    }
}

/// The Pod garbage collector as a machine.
///
/// It takes events (`handle_pod` and the like) and time: [`Self::handle_timeout`] begins a pass when one is due. A pass
/// makes one call at a time. [`Self::poll_call`] returns the next call once [`Self::handle_answer`] has the response to
/// the last. A pass acts on the state known when it began. A later pass retries failed calls, because their Pods are
/// still candidates.
#[derive(Debug, Default)]
#[doc(alias = "PodGCController")]
pub struct PodGc {
    /// Number of terminated Pods that may exist; 0 or less disables the limit.
    threshold: i32,
    known: Known,
    /// Nodes found missing, each with the time of its next check.
    quarantine: BTreeMap<CompactString, Monotonic>,
    /// Start of the next pass; none during a pass.
    due: Option<Monotonic>,
    /// Remaining calls of this pass.
    calls: VecDeque<Call>,
    /// The call in flight.
    asked: Option<Call>,
}

impl PodGc {
    /// Creates a collector that knows no Pods or nodes; its first pass is due at once. At most `threshold` terminated
    /// Pods may exist; 0 or less disables the limit.
    pub fn new(threshold: i32, now: Monotonic) -> Self {
        Self {
            threshold,
            known: Known::new(threshold > 0),
            due: Some(now),
            ..Self::default()
        }
    }

    /// Adds or updates a Pod.
    pub fn handle_pod(&mut self, pod: PodFacts) {
        self.known.put_pod(pod);
    }

    /// Removes a deleted Pod.
    pub fn handle_pod_gone(&mut self, uid: Uid) {
        self.known.remove_pod(uid);
    }

    /// Adds or updates a node.
    pub fn handle_node(&mut self, node: NodeFacts) {
        self.known.put_node(node);
    }

    /// Removes a deleted node.
    pub fn handle_node_gone(&mut self, name: &str) {
        self.known.remove_node(name);
    }

    /// Drops all Pods; a relist follows.
    pub fn forget_pods(&mut self) {
        self.known.forget_pods();
    }

    /// Drops all nodes; a relist follows. The quarantine of missing nodes stays.
    pub fn forget_nodes(&mut self) {
        self.known.forget_nodes();
    }

    /// Returns when to call [`Self::handle_timeout`]; none during a pass.
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        self.due
    }

    /// Begins a pass if one is due.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.plan_terminated();
            self.plan_out_of_service();
            self.plan_orphaned(now);
            self.plan_unscheduled();
        }
    }

    /// Returns the next call of the pass; none while a call is in flight or when the pass is over.
    pub fn poll_call(&mut self, now: Monotonic) -> Option<&Call> {
        if self.due.is_some() || self.asked.is_some() {
            return None;
        }
        self.asked = self.calls.pop_front();
        if self.asked.is_none() {
            self.due = Some(now + PERIOD);
        }
        self.asked.as_ref()
    }

    /// Handles the response to the call in flight, given its HTTP status code.
    pub fn handle_answer(&mut self, status_code: u16) {
        let done = (200..300).contains(&status_code);
        match self.asked.take() {
            // If marking the Pod as Failed fails, it is not deleted: its owner would miss the result.
            Some(Call::Fail { pod, reason }) if done => {
                self.calls.push_front(Call::Delete { pod, reason });
            }
            Some(Call::GetNode { pods, .. }) if status_code == 404 => {
                for pod in pods.into_iter().rev() {
                    let call = Call::force_delete(pod, Reason::Orphaned);
                    self.calls.push_front(call);
                }
            }
            Some(Call::Fail { .. } | Call::Delete { .. } | Call::GetNode { .. }) | None => {}
        }
    }

    fn plan_terminated(&mut self) {
        let Some(threshold) = usize::try_from(self.threshold).ok().filter(|&n| n > 0) else {
            return;
        };
        let excess = self.known.terminated_count().saturating_sub(threshold);
        let first = self.known.terminated().take(excess).cloned();
        let calls = first.map(|pod| Call::force_delete(pod, Reason::Terminated));
        self.calls.extend(calls);
    }

    fn plan_out_of_service(&mut self) {
        let known = &self.known;
        let deleting = known.deleting();
        let stuck = deleting.filter(|pod| known.is_out_of_service(&pod.node));
        let calls = stuck.map(|pod| Call::force_delete(pod.clone(), Reason::OutOfService));
        self.calls.extend(calls);
    }

    fn plan_orphaned(&mut self, now: Monotonic) {
        let released = self.quarantine.extract_if(.., |_, due| *due <= now);
        let released: Vec<CompactString> = released.map(|(name, _)| name).collect();
        // Includes the nodes checked now: if the check fails, it is retried after another quarantine.
        for name in self.known.missing_nodes() {
            let due = now + QUARANTINE;
            self.quarantine.entry(name.clone()).or_insert(due);
        }
        for name in released {
            if !self.known.has_node(&name) {
                let pods = self.known.on_node(&name).cloned().collect();
                self.calls.push_back(Call::GetNode { name, pods });
            }
        }
    }

    fn plan_unscheduled(&mut self) {
        let nowhere = self.known.deleting().filter(|pod| pod.node.is_empty());
        let calls = nowhere.map(|pod| Call::force_delete(pod.clone(), Reason::Unscheduled));
        self.calls.extend(calls);
    }
}
