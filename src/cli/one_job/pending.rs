//! Why a Pod that was made does not run: what it waits for, in a kind and the words of whoever says so.
//!
//! Must not: know how many there are, or what to do about it.

use crate::{model::PodPhase, wire::PodDetails};

/// What a Pod waits for. First what comes first in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::cli) enum PendingKind {
    /// Gates that somebody has to take off.
    Gates,
    /// A node that has room.
    Node,
    /// A scheduler that looks at it.
    Scheduler,
    /// A ConfigMap or Secret.
    Config,
    /// An image.
    Image,
    /// A container that cannot be started.
    Start,
    /// The next start of a container that ends too soon.
    Crash,
    /// Containers that are being made.
    Making,
    /// A kubelet that takes it up.
    Kubelet,
}

/// Pods that wait for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct PendingGroup {
    pub(in crate::cli) kind: PendingKind,
    /// What the Pods say of it.
    pub(in crate::cli) words: String,
    pub(in crate::cli) count: u32,
    /// The oldest of them.
    pub(in crate::cli) example: PodDetails,
}

/// What a container's reason to wait means. Source: `pkg/kubelet/images/types.go`, `pkg/kubelet/container/sync_result.go`
/// and `pkg/kubelet/kuberuntime/kuberuntime_container.go` of Kubernetes.
const REASONS: [(&str, PendingKind); 12] = [
    ("ImagePullBackOff", PendingKind::Image),
    ("ErrImagePull", PendingKind::Image),
    ("InvalidImageName", PendingKind::Image),
    ("ErrImageNeverPull", PendingKind::Image),
    ("ImageInspectError", PendingKind::Image),
    ("RegistryUnavailable", PendingKind::Image),
    ("CreateContainerConfigError", PendingKind::Config),
    ("CreateContainerError", PendingKind::Start),
    ("RunContainerError", PendingKind::Start),
    ("CrashLoopBackOff", PendingKind::Crash),
    ("ContainerCreating", PendingKind::Making),
    ("PodInitializing", PendingKind::Making),
];

/// What a Pod waits for, and what it says of that; nothing if it runs.
pub(super) fn pending(pod: &PodDetails) -> Option<(PendingKind, String)> {
    if pod.phase.is_terminal() {
        return None;
    }
    let waits = pod.containers.iter().filter_map(|container| {
        let (reason, message) = container.waiting.as_ref()?;
        let (_, kind) = REASONS.iter().find(|(known, _)| known == reason)?;
        Some((*kind, reason.as_str(), message.as_str()))
    });
    // What does not pass by itself matters more than what may.
    let wait = waits.min_by_key(|(kind, ..)| *kind);
    if let Some((kind, reason, message)) = wait {
        let words = match kind {
            PendingKind::Making => reason,
            _ if message.is_empty() => reason,
            PendingKind::Crash => "CrashLoopBackOff",
            _ => message,
        };
        return Some((kind, first_line(words).to_owned()));
    }
    if pod.phase != PodPhase::Pending {
        return None;
    }
    if !pod.gates.is_empty() {
        return Some((PendingKind::Gates, pod.gates.join(", ")));
    }
    if !pod.node.is_empty() {
        return Some((PendingKind::Kubelet, pod.node.to_string()));
    }
    let scheduled = pod.condition("PodScheduled");
    match scheduled.filter(|it| !it.message.is_empty()) {
        // What comes behind is about preemption.
        Some(refused) => {
            let words = refused.message.split(". ").next().unwrap_or_default();
            Some((
                PendingKind::Node,
                first_line(words).trim_end_matches('.').to_owned(),
            ))
        }
        None => Some((PendingKind::Scheduler, String::new())),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
