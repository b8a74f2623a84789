//! One Job's actor: its machine, and the turn in which the machine hears and is heard.
//!
//! Between turns an actor is only memory: no task, no timer of its own. Its mailbox is the marks
//! in its cell, which coalesce, and the outcomes of its writes, which are never more than it has
//! in flight.
//!
//! Must not: decide. If a machine panics, that actor alone starts anew from the store.

#[cfg(test)]
mod tests;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    decide::{Effect, JobMachine, Outcome, Report},
    model::{
        ConditionKind, FailureAction, Job, JobId, JobSpec, JobStatus, Limits, PodGroup, PodTable,
        Slot, Time,
    },
    ownership::Standing,
    wire::PodTemplate,
};

use super::{
    gang::Gangs,
    job_metrics::{Action, Sync},
    ownership::Ownership,
    progress::Progress,
    store::{Cell, CellState},
    writer::{Op, Write, WrittenPod},
};

/// How many changed Pods an actor takes in per turn, so that a giant Job's turn stays short: some
/// milliseconds. Until it has taken in all of them it decides nothing.
const PODS_PER_TURN: usize = 4096;

/// What came of a turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Writes to be made.
    pub(super) writes: Vec<Write>,
    /// Something to tell people.
    pub(super) reports: Vec<Report>,
    /// What the podFailurePolicy said of failed Pods that are dealt with now.
    pub(super) handled_failures: Vec<FailureAction>,
    /// When the next turn is due though nothing happens.
    pub(super) wake_at: Option<Time>,
    /// There was more to hear than one turn may.
    pub(super) again: bool,
    /// What it was, if the actor had something to do.
    pub(super) sync: Option<Sync>,
    /// The actor had no machine before.
    pub(super) first: bool,
    /// The machine panicked.
    pub(super) panicked: bool,
}

/// Gives a Job's actor its turn, unless its Job must wait. `seed` is used if a machine must be made;
/// `gangs` are those that are known, if they are asked for.
pub(super) fn turn(
    cell: &Arc<Cell>,
    ownership: &Ownership,
    limits: Limits,
    seed: u64,
    gangs: Option<&Gangs>,
    now: Time,
) -> Turn {
    let mut guard = cell.lock();
    if ownership.holds(&cell.id) {
        return Turn::default();
    }
    let state = &mut *guard;
    let mut turn = Turn::default();
    let finished = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(test)]
        assert!(
            !std::mem::take(&mut state.panic_next_turn),
            "a panic on purpose"
        );
        run(cell, state, limits, seed, gangs, now, &mut turn);
    }));
    if finished.is_err() {
        // What it asked for in this turn is lost with it, and so is what it had heard: the next one
        // hears it and asks again.
        state.machine = None;
        state.pods.mark_all();
        turn = Turn {
            panicked: true,
            sync: state.job.as_ref().map(|job| Sync {
                mode: job.spec.mode,
                failed: true,
                action: Action::Reconciling,
            }),
            ..Turn::default()
        };
    }
    let sent = turn.writes.len();
    state.in_flight += u32::try_from(sent).expect("a turn's writes are limited");
    turn
}

fn run(
    cell: &Arc<Cell>,
    state: &mut CellState,
    limits: Limits,
    seed: u64,
    gangs: Option<&Gangs>,
    now: Time,
    turn: &mut Turn,
) {
    if state.standing() == Standing::External {
        return;
    }
    let mut is_new = false;
    if state.machine.is_none() {
        // In this order: the second takes the marks.
        if state.in_flight > 0 || !needs_machine(state) {
            return;
        }
        // They are of a machine that is no more.
        state.outcomes.clear();
        state.machine = Some(JobMachine::new(
            &job_or_orphanage(&cell.id, state),
            limits,
            seed,
        ));
        is_new = true;
        turn.first = true;
    }
    let Some(machine) = &mut state.machine else {
        return;
    };
    let failed = state.outcomes.iter().any(is_failure);
    for outcome in state.outcomes.drain(..) {
        machine.handle_outcome(outcome, now);
    }
    if let Some(job) = &state.job
        && state.job_is_fresh
        && !machine.is_writing_status()
    {
        machine.handle_job(job);
        state.job_is_fresh = false;
        if machine.is_outdated() && !state.gone {
            if state.in_flight > 0 {
                state.job_is_fresh = true;
                return;
            }
            *machine = machine.successor(job);
            is_new = true;
        }
    }
    if state.gone {
        machine.handle_job_gone();
    }
    if is_new {
        state.pods.mark_all();
    }
    for heard in 0.. {
        if heard == PODS_PER_TURN && !is_new {
            turn.again = true;
            break;
        }
        let Some((slot, pod)) = state.pods.take_dirty() else {
            break;
        };
        machine.handle_pod(slot, pod);
    }
    if turn.again {
        // The machine would decide nothing.
        return;
    }
    let key = &cell.id.key;
    if let Some(gangs) = gangs.filter(|_| machine.is_gang()) {
        machine.handle_gang(gangs.facts(key));
    }
    machine.decide(&state.pods, now);
    if let Some(why) = machine.new_fallback() {
        tracing::info!(job = %key, %why, "Pods are scheduled one by one");
    }
    let job = state.job.as_ref().zip(state.template.as_ref());
    while let Some(effect) = machine.poll_effect() {
        if let Some(outcome) = moot(&effect, &state.pods) {
            machine.handle_outcome(outcome, now);
            continue;
        }
        let group = machine.pod_group();
        carry_out(cell, &state.pods, job, group, effect, turn);
    }
    turn.wake_at = machine.poll_timeout().map(|(at, _)| at);
    turn.sync = state.job.as_ref().map(|job| Sync {
        mode: job.spec.mode,
        failed,
        action: action(job, &turn.writes),
    });
    let over = state.gone
        || state
            .job
            .as_ref()
            .is_some_and(|job| job.status.is_finished());
    let idle = turn.writes.is_empty() && !turn.again && turn.wake_at.is_none();
    if over && state.in_flight == 0 && idle {
        // Nothing is left to do, nor to be tried again: the actor goes, its Job's facts stay as long
        // as the Job does.
        state.machine = None;
        turn.wake_at = None;
    }
}

/// What a turn did, as metrics tell it.
fn action(job: &Job, writes: &[Write]) -> Action {
    let any = |kind: fn(&Op) -> bool| writes.iter().any(|write| kind(&write.op));
    let ends = job.deleting || job.status.is_finished() || any(is_end);
    if ends {
        Action::Reconciling
    } else if any(|op| matches!(op, Op::Create { .. })) {
        Action::PodsCreated
    } else if job.spec.suspend || any(|op| matches!(op, Op::Delete { .. })) {
        Action::PodsDeleted
    } else {
        Action::Tracking
    }
}

/// Whether a write announces a Job's end, or is it.
fn is_end(op: &Op) -> bool {
    let announced = |status: &JobStatus| {
        let ends = [
            ConditionKind::SuccessCriteriaMet,
            ConditionKind::FailureTarget,
        ];
        ends.iter()
            .any(|kind| status.true_condition(*kind).is_some())
    };
    matches!(op, Op::Status { status, .. } if announced(status))
}

fn is_failure(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::PodNotCreated(..)
        | Outcome::PodNotDeleted(_)
        | Outcome::FinalizerNotRemoved(_)
        | Outcome::StatusNotWritten
        | Outcome::GangObjectNotMade(_) => true,
        Outcome::PodCreated(_)
        | Outcome::PodDeleted(_)
        | Outcome::FinalizerRemoved(_)
        | Outcome::StatusWritten
        | Outcome::GangObjectMade => false,
    }
}

/// Whether there is anything to do for a Job that has no machine.
fn needs_machine(state: &mut CellState) -> bool {
    let standing = state.standing();
    if standing == Standing::AtWork {
        return true;
    }
    let mut needed = false;
    while let Some((_, pod)) = state.pods.take_dirty() {
        needed |= pod.is_some_and(|pod| standing.frees(pod));
    }
    state.gone |= needed && standing == Standing::Unseen;
    needed
}

/// The Job, or for Pods whose Job is no more one that says nothing.
fn job_or_orphanage(id: &JobId, state: &CellState) -> Job {
    state.job.clone().unwrap_or_else(|| Job {
        key: id.key.clone(),
        uid: id.uid,
        resource_version: 0,
        generation: 0,
        deleting: true,
        spec: JobSpec::default(),
        status: JobStatus::default(),
    })
}

/// How a write to a Pod ends that is no longer known: there is nothing left to write to.
fn moot(effect: &Effect, pods: &PodTable) -> Option<Outcome> {
    match *effect {
        Effect::DeletePod(slot) if pods.get(slot).is_none() => Some(Outcome::PodDeleted(slot)),
        Effect::RemoveFinalizer(slot) if pods.get(slot).is_none() => {
            Some(Outcome::FinalizerRemoved(slot))
        }
        _ => None,
    }
}

fn carry_out(
    cell: &Arc<Cell>,
    pods: &PodTable,
    job: Option<(&Job, &Arc<Result<PodTemplate, String>>)>,
    group: Option<&Arc<PodGroup>>,
    effect: Effect,
    turn: &mut Turn,
) {
    let pod = |slot: Slot| {
        let pod = pods.get(slot)?;
        Some(WrittenPod {
            slot,
            uid: pod.uid,
            name: pod.name.full(&cell.id.key.name),
        })
    };
    let op = match effect {
        Effect::CreatePod(pod) => {
            let Some((_, template)) = job else { return };
            Op::Create {
                template: Arc::clone(template),
                pod,
                group: group.map(Arc::clone),
            }
        }
        Effect::DeletePod(slot) => {
            let Some(pod) = pod(slot) else { return };
            Op::Delete(pod)
        }
        Effect::RemoveFinalizer(slot) => {
            let Some(pod) = pod(slot) else { return };
            Op::RemoveFinalizer(pod)
        }
        Effect::WriteStatus(status) => {
            let Some((job, _)) = job else { return };
            Op::Status {
                progress: Progress::between(job, &status),
                status,
                version: job.resource_version,
            }
        }
        Effect::MakeGangObject(object) => Op::Gang(object),
        Effect::Report(report) => {
            turn.reports.push(report);
            return;
        }
        Effect::PolicyApplied(action) => {
            turn.handled_failures.push(action);
            return;
        }
    };
    turn.writes.push(Write {
        cell: Arc::clone(cell),
        op,
        refusals: 0,
    });
}
