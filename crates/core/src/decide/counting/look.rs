//! Evaluates a Pod's record by the Job's rules.
//!
//! Must not: change anything.

use crate::model::{CompactIndex, FailureAction, PodFlags, PodPhase, PodRecord, PodReplacement};

use super::{
    super::job::JobContext,
    pod::{Facts, Ruling, Tracked},
    pod_failure_policy,
    stage::{End, Stage},
};

/// Returns a Pod's completion index, for Indexed Jobs.
pub(super) fn index_of(context: &JobContext<'_>, tracked: &Tracked) -> Option<u32> {
    let number = tracked.number.filter(|_| context.spec.is_indexed());
    number.map(CompactIndex::get)
}

/// Returns true if a Pod keeps new Pods from its index.
pub(super) fn holds_index(context: &JobContext<'_>, tracked: &Tracked) -> bool {
    // A stopped Pod may have ended before its finalizer was removed: then it counts.
    let may_count = tracked.stage == Stage::Stopped && tracked.has(Facts::FINALIZER);
    tracked.has(Facts::ACTIVE)
        || may_count
        || (context.spec.pod_replacement == PodReplacement::Failed
            && tracked.has(Facts::TERMINATING))
}

/// Returns the result of an ended Pod, by the Job's rule for Pods that are being deleted.
pub(super) fn ended_how(context: &JobContext<'_>, pod: &PodRecord) -> Option<End> {
    match pod.phase {
        PodPhase::Succeeded => Some(End::Success),
        PodPhase::Failed => Some(End::Failure),
        PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {
            let at_once = context.spec.pod_replacement == PodReplacement::TerminatingOrFailed;
            (at_once && pod.has(PodFlags::DELETING)).then_some(End::Failure)
        }
    }
}

/// Returns true if a Pod's failure exceeds the backoff limit of its index. Pods that this machine stops because the Job
/// ends do not fail their index.
pub(super) fn fails_index(context: &JobContext<'_>, tracked: &Tracked, pod: &PodRecord) -> bool {
    let stopped = !pod.phase.is_terminal() && tracked.has(Facts::TO_DELETE);
    let before = pod.failure.as_ref().map(|facts| facts.counts.counted);
    let limit = context.spec.per_index.map(|limit| limit.backoff_limit);
    match tracked.ruling {
        Ruling::By(FailureAction::FailIndex) => true,
        Ruling::IGNORED => false,
        Ruling::Open | Ruling::NoRule | Ruling::By(_) => {
            !stopped && Some(before.unwrap_or(0)) >= limit
        }
    }
}

/// Returns the podFailurePolicy's decision on a Pod, and the message if the Job fails for it.
pub(super) fn policy_on(context: &JobContext<'_>, pod: &PodRecord) -> (Ruling, Option<String>) {
    pod_failure_policy::rule_on(context.spec.pod_failure.as_ref(), &context.job.key, pod)
}
