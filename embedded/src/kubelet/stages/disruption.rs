//! Disruptions: the ways in which others than its kubelet end a Pod.
//!
//! Responsible for: who ends it and what its status shows. Must not: know when.

use serde::Deserialize;

/// Why a Pod is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Disruption {
    /// The node runs out of memory.
    NodePressureEviction,
    /// The Pod uses more local storage than it may: its own fault, so no `DisruptionTarget`.
    EphemeralStorageLimit,
    /// The kubelet needs room for a critical Pod.
    KubeletPreemption,
    /// The node is shut down, and has time to say so.
    NodeShutdown,
    /// The scheduler needs room for a Pod of a higher priority.
    SchedulerPreemption,
    /// The node got a `NoExecute` taint that the Pod does not tolerate.
    TaintEviction,
    /// Somebody asks for it by the eviction API, as `kubectl drain` does.
    ApiEviction,
    /// The node is gone, and nobody on it says anything any more.
    NodeLoss,
}

/// Who ends the Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The kubelet stops it; it stays, Failed.
    Kubelet,
    /// It is marked, then deleted with its grace period.
    Deletion,
    /// The same, by one call of the eviction API.
    EvictionApi,
    /// It is marked as Failed where it stands, then deleted at once.
    PodGc,
}

impl Disruption {
    pub(crate) const fn by(self) -> By {
        match self {
            Self::NodePressureEviction
            | Self::EphemeralStorageLimit
            | Self::KubeletPreemption
            | Self::NodeShutdown => By::Kubelet,
            Self::SchedulerPreemption | Self::TaintEviction => By::Deletion,
            Self::ApiEviction => By::EvictionApi,
            Self::NodeLoss => By::PodGc,
        }
    }

    /// `status.reason` and `status.message` of a Pod with this first container.
    pub(crate) fn status(self, container: &str) -> Option<(&'static str, String)> {
        match self {
            Self::NodePressureEviction => Some((EVICTED, low_on_memory(container))),
            Self::EphemeralStorageLimit => Some((EVICTED, STORAGE.to_owned())),
            Self::KubeletPreemption => Some((
                "Preempting",
                "Preempted in order to admit critical pod".to_owned(),
            )),
            Self::NodeShutdown => Some(("Terminated", SHUTDOWN.to_owned())),
            Self::SchedulerPreemption
            | Self::TaintEviction
            | Self::ApiEviction
            | Self::NodeLoss => None,
        }
    }

    /// Reason and message of the condition `DisruptionTarget`, if there is one.
    pub(crate) fn condition(self, container: &str) -> Option<(&'static str, String)> {
        let (reason, message) = match self {
            Self::EphemeralStorageLimit => return None,
            Self::NodePressureEviction => return Some((BY_KUBELET, low_on_memory(container))),
            Self::KubeletPreemption => (
                BY_KUBELET,
                "Pod was preempted by Kubelet to accommodate a critical pod.",
            ),
            Self::NodeShutdown => (BY_KUBELET, SHUTDOWN),
            Self::SchedulerPreemption => (
                "PreemptionByScheduler",
                "default-scheduler: preempting to accommodate a higher priority pod",
            ),
            Self::TaintEviction => (
                "DeletionByTaintManager",
                "Taint manager: deleting due to NoExecute taint",
            ),
            Self::ApiEviction => ("EvictionByEvictionAPI", "Eviction API: evicting"),
            Self::NodeLoss => ("DeletionByPodGC", "PodGC: node no longer exists"),
        };
        Some((reason, message.to_owned()))
    }
}

/// The quantities are made up; who reads such a message looks for its first words.
fn low_on_memory(container: &str) -> String {
    format!(
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 64Mi. \
         Container {container} was using 512Mi, request is 0, has larger consumption of memory. "
    )
}

const EVICTED: &str = "Evicted";
const BY_KUBELET: &str = "TerminationByKubelet";
const STORAGE: &str =
    "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ";
const SHUTDOWN: &str = "Pod was terminated in response to imminent node shutdown.";
