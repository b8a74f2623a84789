//! Judges each step and each end by the real history of the Pods and by the statuses on the server.
//!
//! Must not: use anything of the machine, or of its knowledge, except for the writes that it requests.

use lakh::model::{
    ConditionKind, IndexSet, Job, JobSpec, JobStatus, PodRecord, PodReplacement, Uid, Uncounted,
};

use crate::common::{
    rules::violations,
    verdict_law::{carries_verdict, unannounced},
};

use super::{
    server::{Pod, Server},
    shell::Write,
    world::{World, known_pods},
};

/// An error describes a violation.
type Judgement = Result<(), String>;

fn demand(holds: bool, text: impl FnOnce() -> String) -> Judgement {
    match holds {
        true => Ok(()),
        false => Err(text()),
    }
}

/// Checks a write that the machine requests.
pub(super) fn asked(world: &World, spec: &JobSpec, write: &Write) -> Judgement {
    match write {
        Write::Create(new) => creation(world, new.index),
        Write::Delete(_, uid) => deletion(world, *uid),
        Write::Release(_, uid) => release(world, spec, *uid),
        Write::Status(..) => Ok(()),
    }
}

/// Checks a requested creation. The Job must not be known to have its verdict or to be deleted. The index must not be
/// known to be done.
fn creation(world: &World, index: Option<u32>) -> Judgement {
    let cell = &world.cell;
    let Some(version) = cell.job.as_ref().filter(|_| cell.is_up_to_date()) else {
        return Ok(());
    };
    let status = &version.job.status;
    demand(!carries_verdict(status), || {
        "a Pod is asked for after the verdict".to_owned()
    })?;
    demand(!version.job.deleting, || {
        "a Pod is asked for of a Job that goes".to_owned()
    })?;
    let Some(index) = index else { return Ok(()) };
    // A Pod that was released before it ended does not count, nor one that failed because it was deleted.
    let counts = |pod: &PodRecord| {
        let truth = world.server.truth(pod.uid);
        let deleted = truth.is_some_and(|truth| truth.deleted);
        has_finalizer(pod) && !deleted && !world.is_being_released(pod.uid)
    };
    let pods = known_pods(&cell.pods).filter(|pod| counts(pod));
    let done = pods
        .into_iter()
        .any(|pod| index_of(pod) == Some(index) && succeeded(pod));
    demand(!done && !is_named_index(status, index), || {
        format!("a Pod of index {index} is asked for, which is done")
    })
}

/// Checks a requested deletion: the server knows the reason, or the Pod was surplus and is released.
fn deletion(world: &World, uid: Uid) -> Judgement {
    let goes = world.server.job.as_ref().is_none_or(|job| job.job.deleting);
    let verdict = world.server.status().is_some_and(carries_verdict);
    let freed = known(world, uid).is_some_and(|pod| !has_finalizer(pod));
    demand(goes || verdict || freed, || {
        format!("Pod {uid} is stopped before the server knows why")
    })
}

/// Checks a requested removal of a finalizer. The server's status has named the Pod, or the Pod need not be counted.
/// The latter holds if the Job is gone or finished. Of Pods that are not known to have ended, it also holds for
/// surplus ones, and for all if the Job is being deleted or has met its success criteria.
fn release(world: &World, spec: &JobSpec, uid: Uid) -> Judgement {
    let Some(job) = &world.server.job else {
        return Ok(());
    };
    let on_server = world.server.pod(uid);
    if !on_server.is_some_and(Pod::has_finalizer) {
        // It was removed before, and the controller has not received or accepted that event.
        return Ok(());
    }
    let status = &job.job.status;
    let Some(view) = known(world, uid) else {
        return Err(format!(
            "the finalizer of {uid}, of which nothing is known, goes"
        ));
    };
    let truth = world.server.truth(uid).unwrap_or_default();
    let by_index = index_of(view)
        .filter(|_| succeeded(view))
        .is_some_and(|index| is_named_index(status, index));
    if status.is_finished() || truth.listed.is_some() || by_index {
        return Ok(());
    }
    demand(!view.phase.is_terminal(), || {
        format!("Pod {uid} has ended and loses its finalizer before it is named")
    })?;
    let met = status.true_condition(ConditionKind::SuccessCriteriaMet);
    let uncounted = met.is_some() || job.job.deleting || is_surplus(world, spec, view);
    demand(uncounted, || {
        format!("Pod {uid} loses its finalizer though it is wanted")
    })
}

/// Returns true if the controller sees more Pods than wanted, and this may be a surplus one.
fn is_surplus(world: &World, spec: &JobSpec, view: &PodRecord) -> bool {
    let rivals: Vec<&PodRecord> = known_pods(&world.cell.pods)
        .filter(|pod| pod.is_active() && has_finalizer(pod))
        .filter(|pod| pod.uid == view.uid || !world.is_being_released(pod.uid))
        .collect();
    let really = |pod: &&Pod| pod.truth.ended == Some(true);
    let done = world.server.pods.iter().filter(really);
    if spec.is_indexed() {
        let index = index_of(view);
        let mut rivals = rivals.iter();
        let twin = rivals.any(|pod| pod.uid != view.uid && index_of(pod) == index);
        return twin || done.into_iter().any(|pod| index_of(&pod.record) == index);
    }
    let left = spec.completions.map_or(usize::MAX, |wanted| {
        (wanted as usize).saturating_sub(done.count())
    });
    rivals.len() > left.min(spec.parallelism as usize)
}

/// Checks a created Pod: never more than may run at once, never two of an index. Pods that a crashed controller had
/// requested do not count.
pub(super) fn created(world: &World, spec: &JobSpec, uid: Uid) -> Judgement {
    let pods = world.server.pods.iter().filter(|pod| !pod.truth.stray);
    let holds_place = |pod: &&Pod| pod.holds_place(spec.pod_replacement);
    let held: Vec<&Pod> = pods.filter(holds_place).collect();
    let Some(new) = held.iter().find(|pod| pod.uid == uid) else {
        return Ok(());
    };
    demand(held.len() <= spec.parallelism as usize, || {
        format!("{} Pods at once", held.len())
    })?;
    let index = index_of(&new.record);
    let twins = held.iter().filter(|pod| index_of(&pod.record) == index);
    demand(index.is_none() || twins.count() == 1, || {
        format!("two Pods of index {index:?}")
    })
}

/// Checks a status that the server has accepted in place of `old`.
pub(super) fn status(server: &mut Server, spec: &JobSpec, old: &JobStatus) -> Judgement {
    let Some(version) = server.job.clone() else {
        return Ok(());
    };
    let Job { status, .. } = &*version.job;
    demand(!old.is_finished(), || {
        "a status is written after the Job's end".to_owned()
    })?;
    let refused = violations(spec, old, status);
    demand(refused.is_empty(), || {
        format!("a status that no server takes: {}", refused.join("; "))
    })?;
    for kind in [
        ConditionKind::SuccessCriteriaMet,
        ConditionKind::FailureTarget,
    ] {
        let same = old.true_condition(kind).is_none_or(|before| {
            let now = status.true_condition(kind);
            now.is_some_and(|now| now.reason == before.reason && now.message == before.message)
        });
        demand(same, || format!("the verdict {} is lost", kind.as_str()))?;
    }
    let nothing = Uncounted::default();
    let before = old.uncounted.as_ref().unwrap_or(&nothing);
    let after = status.uncounted.as_ref().unwrap_or(&nothing);
    let failing = status
        .true_condition(ConditionKind::FailureTarget)
        .is_some();
    let mut counted = [0, 0];
    for (before, after, success) in [
        (&before.failed, &after.failed, false),
        (&before.succeeded, &after.succeeded, true),
    ] {
        for uid in after.iter().filter(|uid| !before.contains(uid)) {
            named(server, spec, *uid, success, failing)?;
        }
        for uid in before.iter().filter(|uid| !after.contains(uid)) {
            let pod = pod(server, *uid)?;
            demand(!pod.has_finalizer(), || {
                format!("Pod {uid} is counted with its finalizer on")
            })?;
            demand(!pod.truth.counted, || format!("Pod {uid} is counted twice"))?;
            pod.truth.counted = true;
            counted[usize::from(success)] += 1;
        }
    }
    demand(status.failed == old.failed + counted[0], || {
        format!(
            "failed goes from {} to {} for {}",
            old.failed, status.failed, counted[0]
        )
    })?;
    succeeded_rightly(server, spec, old, status, counted[1])?;
    let fails_job = |uid| {
        let mut pods = server.pods.iter();
        spec.pod_failure.is_some() && pods.any(|pod| pod.uid == uid && pod.truth.fatal)
    };
    match unannounced(&version.job, fails_job) {
        Some(verdict) => Err(format!(
            "{verdict} may be lost: no verdict in the status that led to it"
        )),
        None => Ok(()),
    }
}

/// Checks a Pod that a status names by its UID for the first time.
fn named(server: &mut Server, spec: &JobSpec, uid: Uid, success: bool, failing: bool) -> Judgement {
    let pod = pod(server, uid)?;
    let truth = &mut pod.truth;
    demand(truth.listed.is_none(), || {
        format!("Pod {uid} is listed twice")
    })?;
    let replaced_at_once = spec.pod_replacement == PodReplacement::TerminatingOrFailed;
    let is_true = match (success, truth.ended) {
        (success, Some(really)) if success == really => true,
        // It is replaced once it is being deleted, and so counts as failed, however it ends.
        (false, _) => (truth.deleted && replaced_at_once) || failing,
        (true, _) => false,
    };
    truth.listed = Some(success);
    demand(is_true, || {
        format!("Pod {uid} is listed, success {success}, but was {truth:?}")
    })
}

/// Checks the successes of a status. Of an Indexed Job, each completed index has a Pod that succeeded.
fn succeeded_rightly(
    server: &Server,
    spec: &JobSpec,
    old: &JobStatus,
    status: &JobStatus,
    counted: u32,
) -> Judgement {
    if !spec.is_indexed() {
        return demand(status.succeeded == old.succeeded + counted, || {
            format!(
                "succeeded goes from {} to {} for {counted}",
                old.succeeded, status.succeeded
            )
        });
    }
    let before = IndexSet::parse(&old.completed_indexes, u32::MAX);
    let done = IndexSet::parse(&status.completed_indexes, u32::MAX);
    demand(before.iter().all(|index| done.contains(index)), || {
        "an index is no longer completed".to_owned()
    })?;
    demand(status.succeeded == done.len(), || {
        format!(
            "succeeded {} of [{}]",
            status.succeeded, status.completed_indexes
        )
    })?;
    let mut found = done.iter();
    let missing = found.find(|index| {
        let mut pods = server.pods.iter();
        !pods.any(|pod| pod.truth.ended == Some(true) && index_of(&pod.record) == Some(*index))
    });
    match missing {
        Some(index) => Err(format!("index {index} never succeeded")),
        None => Ok(()),
    }
}

/// Checks a situation in which nothing is left to happen.
pub(super) fn end(world: &World, spec: &JobSpec) -> Judgement {
    let server = &world.server;
    for pod in &server.pods {
        demand(!pod.has_finalizer(), || {
            format!("in the end Pod {} has its finalizer", pod.uid)
        })?;
    }
    let Some(version) = &server.job else {
        return Ok(());
    };
    let status = &version.job.status;
    demand(status.is_finished(), || {
        "in the end the Job is not finished".to_owned()
    })?;
    let listed = |success| {
        let pods = server.pods.iter();
        pods.filter(|pod| pod.truth.listed == Some(success)).count()
    };
    demand(status.failed as usize == listed(false), || {
        format!(
            "in the end failed is {}, of {} named",
            status.failed,
            listed(false)
        )
    })?;
    demand(
        spec.is_indexed() || status.succeeded as usize == listed(true),
        || {
            format!(
                "in the end succeeded is {}, of {} named",
                status.succeeded,
                listed(true)
            )
        },
    )?;
    let complete = status.true_condition(ConditionKind::Complete).is_some();
    let enough = spec
        .completions
        .is_none_or(|wanted| status.succeeded >= wanted);
    demand(!complete || enough, || {
        "in the end the Job is Complete too early".to_owned()
    })?;
    // This includes Pods that were released uncounted.
    let fatal = spec.pod_failure.is_some() && server.pods.iter().any(|pod| pod.truth.fatal);
    // A verdict stays once a status with it was sent. A deleted Pod was a failure then, even if the server never
    // received that and the Pod succeeded in the end.
    let failures = server.pods.iter().filter(|pod| {
        let truth = pod.truth;
        truth.ended == Some(false) || truth.deleted
    });
    let cause = fatal || failures.count() > spec.backoff_limit as usize;
    demand(complete || cause, || {
        "in the end the Job is Failed without cause".to_owned()
    })
}

fn pod(server: &mut Server, uid: Uid) -> Result<&mut Pod, String> {
    let mut pods = server.pods.iter_mut();
    pods.find(|pod| pod.uid == uid)
        .ok_or_else(|| format!("a status names Pod {uid}, which never was"))
}

fn known(world: &World, uid: Uid) -> Option<&PodRecord> {
    known_pods(&world.cell.pods).find(|pod| pod.uid == uid)
}

fn index_of(pod: &PodRecord) -> Option<u32> {
    pod.index.map(|index| index.get())
}

fn succeeded(pod: &PodRecord) -> bool {
    pod.phase == lakh::model::PodPhase::Succeeded
}

fn has_finalizer(pod: &PodRecord) -> bool {
    pod.has(lakh::model::PodFlags::FINALIZER)
}

fn is_named_index(status: &JobStatus, index: u32) -> bool {
    IndexSet::parse(&status.completed_indexes, u32::MAX).contains(index)
}
