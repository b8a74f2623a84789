//! The collector as a machine.
//!
//! Responsible for: when a pass is due, which Pods it ends and deletes, in which order and why.
//! Must not: keep sets of Pods (`known`) or render what is asked (`call`).

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    time::Duration,
};

use compact_str::CompactString;

use super::{Call, NodeFacts, PodFacts, known::Known};
use crate::model::{Monotonic, Uid};

/// From the end of a pass to the next one.
const PERIOD: Duration = Duration::from_secs(20);

/// How long a node must have been missing before its Pods are given up: it may only have been renewed,
/// or not be known yet.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Why a Pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is over, and there are more of its kind than may stay.
    #[doc(alias = "gcTerminated")]
    Terminated,
    /// It is being deleted, and its node will never get round to it.
    #[doc(alias = "gcTerminating")]
    OutOfService,
    /// Its node does not exist.
    #[doc(alias = "gcOrphaned")]
    Orphaned,
    /// It is being deleted, and no node has it.
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

/// The collector of Pods.
///
/// It takes changes (`handle_pod` and the like) and time ([`Self::handle_timeout`]), which begins
/// a pass when one is due. A pass is one call after the other: [`Self::poll_call`] gives the next one
/// once [`Self::handle_answer`] has said what came of the last. What a pass does follows from what was
/// known when it began; what fails is tried again by a later pass, because it is still there to be seen.
#[derive(Debug, Default)]
#[doc(alias = "PodGCController")]
pub struct PodGc {
    /// How many Pods that are over may stay; 0 or less: all.
    threshold: i32,
    known: Known,
    /// Nodes that were found missing, and when to look again.
    quarantine: BTreeMap<CompactString, Monotonic>,
    /// When the next pass begins; none while one is under way.
    due: Option<Monotonic>,
    /// What is left to do in this pass.
    calls: VecDeque<Call>,
    /// What was asked and is not answered.
    asked: Option<Call>,
}

impl PodGc {
    /// A collector that knows nothing yet; its first pass is due at once. Of Pods that are over, as many
    /// as `threshold` may stay; all, if that is 0 or less.
    pub fn new(threshold: i32, now: Monotonic) -> Self {
        Self {
            threshold,
            known: Known::new(threshold > 0),
            due: Some(now),
            ..Self::default()
        }
    }

    /// There is such a Pod, or it has changed to this.
    pub fn handle_pod(&mut self, pod: PodFacts) {
        self.known.put_pod(pod);
    }

    /// The Pod is gone.
    pub fn handle_pod_gone(&mut self, uid: Uid) {
        self.known.remove_pod(uid);
    }

    /// There is such a node, or it has changed to this.
    pub fn handle_node(&mut self, node: NodeFacts) {
        self.known.put_node(node);
    }

    /// The node is gone.
    pub fn handle_node_gone(&mut self, name: &str) {
        self.known.remove_node(name);
    }

    /// All Pods will be listed anew.
    pub fn forget_pods(&mut self) {
        self.known.forget_pods();
    }

    /// All nodes will be listed anew. How long one was missing stays known.
    pub fn forget_nodes(&mut self) {
        self.known.forget_nodes();
    }

    /// When to call [`Self::handle_timeout`]; never while a pass is under way.
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

    /// Gives the next call of the pass; none before the last one is answered, or when the pass is over.
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

    /// The call was answered with this HTTP status code.
    pub fn handle_answer(&mut self, status_code: u16) {
        let done = (200..300).contains(&status_code);
        match self.asked.take() {
            // A Pod that could not be failed is not deleted: its owner would not learn how it ended.
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
        // Also those that are asked for now: if that fails, it is tried again after another quarantine.
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
