//! Brings the number of active Pods to the wanted number.
//!
//! Source: docs/rules/jobs.md, 2.5 and 4. Surplus Pods lose their finalizer before they are deleted, so they never
//! count as failed. Pods of a failing Job are deleted first, because they may count.

use crate::model::{Now, PodReplacement, PodTable, Slot, Timeout};

use super::{
    counting::Counting,
    creations::Creations,
    effect::{CreationReason, NewPod},
    job::JobContext,
    rank,
};

/// Deletes Pods as the spec requires. Returns the Pods to create, if creation is allowed.
#[doc(alias = "manageJob")]
pub(super) fn manage_pods(
    context: &JobContext<'_>,
    counting: &mut Counting,
    creations: &mut Creations,
    pods: &PodTable,
    (may_create, now): (bool, Now),
) -> Vec<NewPod> {
    if context.spec.suspend {
        if counting.tally().active > counting.tally().to_delete {
            counting.delete_active(context);
        }
        return Vec::new();
    }
    delete_surplus(context, counting, pods);
    if counting.tally().to_delete > 0 {
        return Vec::new();
    }
    if !may_create {
        // A non-zero count schedules the next decision at the end of a backoff.
        creations.set_missing(missing(context, counting, creations));
        return Vec::new();
    }
    create_missing(context, counting, creations, now)
}

/// Returns true if a Pod is to be created now.
pub(super) fn wants_pod(
    context: &JobContext<'_>,
    counting: &Counting,
    creations: &Creations,
    now: Now,
) -> bool {
    !context.spec.suspend
        && missing(context, counting, creations) > 0
        && blocked_until(context, counting, creations, now).is_none()
}

/// Returns the number of surplus Pods. Creations in flight are left out: their Pods are the first to be deleted once
/// they exist.
fn surplus(context: &JobContext<'_>, counting: &Counting) -> u32 {
    let staying = counting.tally().active - counting.tally().to_delete;
    staying.saturating_sub(wanted_active(context, counting, staying))
}

/// Returns the number of Pods still to be requested.
fn missing(context: &JobContext<'_>, counting: &Counting, creations: &Creations) -> u32 {
    let active = counting.tally().active + creations.len();
    let going = match context.spec.pod_replacement {
        PodReplacement::Failed => counting.tally().terminating,
        PodReplacement::TerminatingOrFailed => 0,
    };
    // They may prove to be successes. Pods with an index hold it meanwhile, and others need not wait.
    let undecided = match context.spec.is_indexed() {
        true => 0,
        false => counting.tally().undecided,
    };
    wanted_active(context, counting, active).saturating_sub(active + going + undecided)
}

#[doc(alias = "activePodsForRemoval")]
fn delete_surplus(context: &JobContext<'_>, counting: &mut Counting, pods: &PodTable) {
    let surplus = surplus(context, counting) as usize;
    if surplus == 0 && !counting.has_misplaced(context) {
        return;
    }
    let candidates = counting.staying();
    let (mut going, rest) = match context.spec.completions {
        Some(completions) if context.spec.is_indexed() => {
            rank::split_misplaced(candidates, pods, completions)
        }
        _ => (Vec::new(), candidates),
    };
    let more = surplus.saturating_sub(going.len());
    // Another Pod has completed their index, after it had seemed lost. Upstream ranks them with the others, and may
    // stop a Pod of an index that is still wanted.
    let is_needless = |slot: &Slot| counting.is_needless(context, *slot);
    let (needless, rest) = rest.into_iter().partition(is_needless);
    going.append(&mut rank::first_to_go(needless, pods, more));
    let more = surplus.saturating_sub(going.len());
    going.append(&mut rank::first_to_go(rest, pods, more));
    for slot in going {
        counting.delete_uncounted(context, slot);
    }
}

/// Returns the wanted number of active Pods (docs/rules/jobs.md, 4.1).
fn wanted_active(context: &JobContext<'_>, counting: &Counting, active: u32) -> u32 {
    let succeeded = counting.succeeded(context);
    match context.spec.completions {
        None if succeeded > 0 => active,
        None => context.spec.parallelism,
        Some(wanted) => wanted
            .saturating_sub(succeeded)
            .min(context.spec.parallelism),
    }
}

fn create_missing(
    context: &JobContext<'_>,
    counting: &mut Counting,
    creations: &mut Creations,
    now: Now,
) -> Vec<NewPod> {
    counting.end_index_waits(now.wall);
    let missing = missing(context, counting, creations);
    creations.set_missing(missing);
    let reason = creation_reason(context, counting);
    let mut new = creations.repeat(reason, now.monotonic);
    if missing == 0 || blocked_until(context, counting, creations, now).is_some() {
        return new;
    }
    let count = creations.room().min(missing);
    let chosen: Vec<Option<u32>> = if context.spec.is_indexed() {
        let chosen = counting.choose_indexes(missing, count);
        chosen.into_iter().map(Some).collect()
    } else {
        vec![None; count as usize]
    };
    for index in chosen {
        let by_index = index.filter(|_| context.spec.per_index.is_some());
        let failures = by_index.map(|index| counting.index_failures(index));
        let id = counting.take_place(index);
        creations.send(id, failures);
        new.push(id.pod(failures, reason));
    }
    new
}

fn creation_reason(context: &JobContext<'_>, counting: &Counting) -> CreationReason {
    let failed = counting.failed(context) > 0;
    match context.spec.pod_replacement {
        PodReplacement::Failed if failed => CreationReason::RecreateFailed,
        _ if failed || counting.tally().terminating > 0 => {
            CreationReason::RecreateTerminatingOrFailed
        }
        PodReplacement::Failed | PodReplacement::TerminatingOrFailed => CreationReason::New,
    }
}

/// Returns until when failed Pods or failed creations block new Pods. Returns the longer of the two waits. If a clock
/// is set meanwhile, the rest of the other wait follows.
pub(super) fn blocked_until(
    context: &JobContext<'_>,
    counting: &Counting,
    creations: &Creations,
    now: Now,
) -> Option<Timeout> {
    let failed = match context.spec.per_index {
        Some(_) => None,
        None => counting.failure_backoff(context.limits.pod_failure_backoff, now.wall),
    };
    let refused = creations.opens_at(now.monotonic);
    let waits = [failed.map(Timeout::from), refused.map(Timeout::from)];
    let waits = waits.into_iter().flatten();
    waits.max_by_key(|wait| wait.left(now))
}
