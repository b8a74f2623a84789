//! Classifies why a Pod does not run: the kind of its wait, and the message of the component that reports it.
//!
//! Must not: know how many such Pods there are, or remedies.

use lakh_model::PodPhase;
use lakh_wire::PodDetails;

/// Condition that a Pod waits for, in the order of a Pod's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PendingKind {
    /// Removal of scheduling gates.
    Gates,
    /// A node with enough room.
    Node,
    /// A scheduler to handle it.
    Scheduler,
    /// A ConfigMap or Secret.
    Config,
    /// An image.
    Image,
    /// A container that cannot be started.
    Start,
    /// The restart of a container that crashes.
    Crash,
    /// Creation of its containers.
    Making,
    /// A kubelet to accept it.
    Kubelet,
}

/// Pods that wait for the same condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingGroup {
    pub(crate) kind: PendingKind,
    /// The message of the Pods.
    pub(crate) words: String,
    pub(crate) count: u32,
    /// The oldest of them.
    pub(crate) example: PodDetails,
}

/// Kinds of containers' waiting reasons. Source: `pkg/kubelet/images/types.go`, `pkg/kubelet/container/sync_result.go`
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

/// Returns the kind of a Pod's wait and its message; none if the Pod runs or has ended.
pub(super) fn pending(pod: &PodDetails) -> Option<(PendingKind, String)> {
    if pod.phase.is_terminal() {
        return None;
    }
    let waits = pod.containers.iter().filter_map(|container| {
        let (reason, message) = container.waiting.as_ref()?;
        let (_, kind) = REASONS.iter().find(|(known, _)| known == reason)?;
        Some((*kind, reason.as_str(), message.as_str()))
    });
    // A wait that needs intervention comes before one that may pass by itself.
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
        // The rest of the message is about preemption.
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
