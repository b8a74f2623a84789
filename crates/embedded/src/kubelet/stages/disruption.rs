//! Defines disruptions: the ways in which a Pod is ended before its containers exit.
//!
//! Responsible for: the component that ends the Pod, and the texts in its status. Must not: know when.

use serde::Deserialize;

/// Why a Pod is disrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Disruption {
    /// The node runs out of memory.
    NodePressureEviction,
    /// The Pod exceeds its local storage limit. It is at fault itself, so there is no `DisruptionTarget`.
    EphemeralStorageLimit,
    /// The kubelet needs resources for a critical Pod.
    KubeletPreemption,
    /// The node shuts down gracefully.
    NodeShutdown,
    /// The scheduler needs resources for a Pod of a higher priority.
    SchedulerPreemption,
    /// The node got a `NoExecute` taint that the Pod does not tolerate.
    TaintEviction,
    /// A client calls the eviction API, as `kubectl drain` does.
    ApiEviction,
    /// The node is gone, and its kubelet reports nothing any more.
    NodeLoss,
}

/// The component that ends the Pod, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The kubelet stops it; the object stays, Failed.
    Kubelet,
    /// It is marked as disrupted, then deleted with its grace period.
    Deletion,
    /// The same, by one call of the eviction API.
    EvictionApi,
    /// It is marked as Failed without a stop, then deleted at once.
    PodGc,
}

impl Disruption {
    /// Returns the component that ends the Pod, then reason and message of its status and of its condition
    /// `DisruptionTarget`, if it has them.
    fn facts(self) -> (By, Option<ReasonAndMessage>, Option<ReasonAndMessage>) {
        let by_kubelet = |reason, message, condition: Option<&'static str>| {
            let condition = condition.map(|message| ("TerminationByKubelet", message));
            (By::Kubelet, Some((reason, message)), condition)
        };
        let by_others = |who, reason, message| (who, None, Some((reason, message)));
        match self {
            Self::NodePressureEviction => by_kubelet(EVICTED, LOW_ON_MEMORY, Some(LOW_ON_MEMORY)),
            Self::EphemeralStorageLimit => by_kubelet(EVICTED, STORAGE, None),
            Self::KubeletPreemption => by_kubelet("Preempting", PREEMPTING, Some(PREEMPTED)),
            Self::NodeShutdown => by_kubelet("Terminated", SHUTDOWN, Some(SHUTDOWN)),
            Self::SchedulerPreemption => {
                by_others(By::Deletion, "PreemptionByScheduler", OUTRANKED)
            }
            Self::TaintEviction => by_others(By::Deletion, "DeletionByTaintManager", TAINTED),
            Self::ApiEviction => by_others(By::EvictionApi, "EvictionByEvictionAPI", EVICTING),
            Self::NodeLoss => by_others(By::PodGc, "DeletionByPodGC", NODE_GONE),
        }
    }

    pub(crate) fn by(self) -> By {
        self.facts().0
    }

    /// Returns `status.reason` and `status.message` of a Pod with this first container.
    pub(crate) fn status(self, container: &str) -> Option<(&'static str, String)> {
        self.facts().1.map(|said| about(said, container))
    }

    /// Returns reason and message of the condition `DisruptionTarget`, if there is one.
    pub(crate) fn condition(self, container: &str) -> Option<(&'static str, String)> {
        self.facts().2.map(|said| about(said, container))
    }
}

type ReasonAndMessage = (&'static str, &'static str);

fn about((reason, message): ReasonAndMessage, container: &str) -> (&'static str, String) {
    (reason, message.replace("CONTAINER", container))
}

/// The quantities are made up; programs that parse such a message look for its first words.
const LOW_ON_MEMORY: &str = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 64Mi. \
                             Container CONTAINER was using 512Mi, request is 0, has larger consumption of memory. ";
const PREEMPTED: &str = "Pod was preempted by Kubelet to accommodate a critical pod.";
const OUTRANKED: &str = "default-scheduler: preempting to accommodate a higher priority pod";
const TAINTED: &str = "Taint manager: deleting due to NoExecute taint";
const EVICTED: &str = "Evicted";
const PREEMPTING: &str = "Preempted in order to admit critical pod";
const EVICTING: &str = "Eviction API: evicting";
const NODE_GONE: &str = "PodGC: node no longer exists";
const STORAGE: &str =
    "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ";
const SHUTDOWN: &str = "Pod was terminated in response to imminent node shutdown.";
