//! Brings the number of active Pods to the wanted number.
//!
//! Source: docs/rules/jobs.md, 2.5 and 4. Surplus Pods lose their finalizer before they are deleted, so they never
//! count as failed. Pods of a failing Job are deleted first, because they may count.

use crate::model::{Now, PodReplacement, PodTable, Slot, Timeout};

use super::{
    counting::Counting,
    creations::Creations,
    effect::{CreationReason, NewPod},
    job::Basis,
    rank,
};

/// Deletes Pods as the spec requires. Returns the Pods to create, if creation is allowed.
#[doc(alias = "manageJob")]
pub(super) fn manage_pods(
    basis: &Basis<'_>,
    counting: &mut Counting,
    creations: &mut Creations,
    pods: &PodTable,
    (may_create, now): (bool, Now),
) -> Vec<NewPod> {
    if basis.spec.suspend {
        if counting.tally().active > counting.tally().to_delete {
            counting.delete_active(basis);
        }
        return Vec::new();
    }
    delete_surplus(basis, counting, pods);
    if counting.tally().to_delete > 0 {
        return Vec::new();
    }
    if !may_create {
        // A non-zero count schedules the next decision at the end of a backoff.
        creations.set_missing(missing(basis, counting, creations));
        return Vec::new();
    }
    create_missing(basis, counting, creations, now)
}

/// Returns true if a Pod is to be created now.
pub(super) fn wants_pod(
    basis: &Basis<'_>,
    counting: &Counting,
    creations: &Creations,
    now: Now,
) -> bool {
    !basis.spec.suspend
        && missing(basis, counting, creations) > 0
        && blocked_until(basis, counting, creations, now).is_none()
}

/// Returns the number of surplus Pods. Creations in flight are left out: their Pods are the first to be deleted once
/// they exist.
fn surplus(basis: &Basis<'_>, counting: &Counting) -> u32 {
    let staying = counting.tally().active - counting.tally().to_delete;
    staying.saturating_sub(wanted_active(basis, counting, staying))
}

/// Returns the number of Pods still to be requested.
fn missing(basis: &Basis<'_>, counting: &Counting, creations: &Creations) -> u32 {
    let active = counting.tally().active + creations.len();
    let going = match basis.spec.pod_replacement {
        PodReplacement::Failed => counting.tally().terminating,
        PodReplacement::TerminatingOrFailed => 0,
    };
    wanted_active(basis, counting, active).saturating_sub(active + going)
}

#[doc(alias = "activePodsForRemoval")]
fn delete_surplus(basis: &Basis<'_>, counting: &mut Counting, pods: &PodTable) {
    let surplus = surplus(basis, counting) as usize;
    if surplus == 0 && !counting.has_misplaced(basis) {
        return;
    }
    let candidates = counting.staying();
    let (mut going, rest) = match basis.spec.completions {
        Some(completions) if basis.spec.is_indexed() => {
            rank::split_misplaced(candidates, pods, completions)
        }
        _ => (Vec::new(), candidates),
    };
    let more = surplus.saturating_sub(going.len());
    // Another Pod has completed their index, after it had seemed lost. Upstream ranks them with the others, and may
    // stop a Pod of an index that is still wanted.
    let is_needless = |slot: &Slot| counting.is_needless(basis, *slot);
    let (needless, rest) = rest.into_iter().partition(is_needless);
    going.append(&mut rank::first_to_go(needless, pods, more));
    let more = surplus.saturating_sub(going.len());
    going.append(&mut rank::first_to_go(rest, pods, more));
    for slot in going {
        counting.delete_uncounted(basis, slot);
    }
}

/// Returns the wanted number of active Pods (docs/rules/jobs.md, 4.1).
fn wanted_active(basis: &Basis<'_>, counting: &Counting, active: u32) -> u32 {
    let succeeded = counting.succeeded(basis);
    match basis.spec.completions {
        None if succeeded > 0 => active,
        None => basis.spec.parallelism,
        Some(wanted) => wanted.saturating_sub(succeeded).min(basis.spec.parallelism),
    }
}

fn create_missing(
    basis: &Basis<'_>,
    counting: &mut Counting,
    creations: &mut Creations,
    now: Now,
) -> Vec<NewPod> {
    counting.end_index_waits(now.wall);
    let missing = missing(basis, counting, creations);
    creations.set_missing(missing);
    let reason = creation_reason(basis, counting);
    let mut new = creations.repeat(reason, now.monotonic);
    if missing == 0 || blocked_until(basis, counting, creations, now).is_some() {
        return new;
    }
    let count = creations.room().min(missing);
    let chosen: Vec<Option<u32>> = if basis.spec.is_indexed() {
        let chosen = counting.choose_indexes(missing, count);
        chosen.into_iter().map(Some).collect()
    } else {
        vec![None; count as usize]
    };
    for index in chosen {
        let by_index = index.filter(|_| basis.spec.per_index.is_some());
        let failures = by_index.map(|index| counting.index_failures(index));
        let id = counting.take_place(index);
        creations.send(id, failures);
        new.push(id.pod(failures, reason));
    }
    new
}

fn creation_reason(basis: &Basis<'_>, counting: &Counting) -> CreationReason {
    let failed = counting.failed(basis) > 0;
    match basis.spec.pod_replacement {
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
    basis: &Basis<'_>,
    counting: &Counting,
    creations: &Creations,
    now: Now,
) -> Option<Timeout> {
    let failed = match basis.spec.per_index {
        Some(_) => None,
        None => counting.failure_backoff(basis.limits.pod_failure_backoff, now.wall),
    };
    let refused = creations.opens_at(now.monotonic);
    let waits = [failed.map(Timeout::from), refused.map(Timeout::from)];
    let waits = waits.into_iter().flatten();
    waits.max_by_key(|wait| wait.left(now))
}
