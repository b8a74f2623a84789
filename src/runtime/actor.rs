//! One Job's actor: its machine, and the turn in which the machine hears and is heard.
//!
//! Between turns an actor is only memory: no task, no timer of its own. Its mailbox is the marks
//! in its cell, which coalesce, and the outcomes of its writes, which are never more than it has
//! in flight.
//!
//! Must not: decide. If a machine panics, that actor alone starts anew from the store.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    decide::{Effect, JobMachine, Outcome, Report},
    model::{
        ConditionKind, FailureAction, Job, JobId, JobKey, JobSpec, JobStatus, Limits, PodGroup,
        PodTable, Slot, Time,
    },
    ownership::Standing,
    wire::PodTemplate,
};

use super::{
    gang::Gangs,
    job_metrics::{Action, Sync},
    ownership::Ownership,
    progress::{Progress, why_created},
    store::{Cell, CellState},
    writer::{Op, Write},
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
        // To decide now would be to decide on Pods that are gone, or to make some that are there.
        return;
    }
    let key = cell.id.key.clone();
    if let Some(gangs) = gangs.filter(|_| machine.is_gang()) {
        machine.handle_gang(gangs.facts(&key));
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
        carry_out(cell, &key, &state.pods, job, group, effect, turn);
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
    key: &JobKey,
    pods: &PodTable,
    job: Option<(&Job, &Arc<Result<PodTemplate, String>>)>,
    group: Option<&Arc<PodGroup>>,
    effect: Effect,
    turn: &mut Turn,
) {
    let pod = |slot: Slot| {
        let pod = pods.get(slot)?;
        Some((pod.uid, pod.name.full(&key.name)))
    };
    let op = match effect {
        Effect::CreatePod(pod) => {
            let Some((job, template)) = job else { return };
            Op::Create {
                template: Arc::clone(template),
                pod,
                group: group.map(Arc::clone),
                why: why_created(job),
            }
        }
        Effect::DeletePod(slot) => {
            let Some((uid, name)) = pod(slot) else { return };
            Op::Delete { slot, uid, name }
        }
        Effect::RemoveFinalizer(slot) => {
            let Some((uid, name)) = pod(slot) else { return };
            Op::RemoveFinalizer { slot, uid, name }
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
        key: key.clone(),
        op,
        refusals: 0,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        decide::Outcome,
        model::{CompactIndex, PodFlags, PodName, PodPhase, PodRecord, Uid},
        runtime::{job_metrics::Seen, store::Store},
        wire::{
            Controller, DecodedPod, Object, PodDecoder, PodLabels, TRACKING_FINALIZER, decode_job,
        },
    };

    const JOB: &str = r#"{"metadata":{"name":"j","namespace":"default","resourceVersion":"5",
        "uid":"00000000-0000-0000-0000-000000000001","generation":1},
        "spec":{"parallelism":3,"completions":3,
                "template":{"metadata":{"labels":{"a":"b"}},"spec":{}}}}"#;

    fn id() -> JobId {
        decode_job(JOB).expect("a good Job").job.id()
    }

    fn pod(number: u128, phase: PodPhase) -> DecodedPod<'static> {
        let name = format!("j-{number}");
        DecodedPod {
            namespace: "default".into(),
            name: name.as_str().into(),
            controller: Controller::Job(id()),
            labels: PodLabels::default(),
            record: PodRecord {
                uid: Uid::from_u128(100 + number),
                name: PodName::new("j", &name),
                resource_version: 6,
                flags: PodFlags::default().with(PodFlags::FINALIZER, true),
                phase,
                ..PodRecord::default()
            },
        }
    }

    fn give(cell: &Arc<Cell>) -> Turn {
        let limits = Limits::default();
        let ownership = Ownership::new(limits.retry_backoff);
        turn(cell, &ownership, limits, 1, None, Time::from_secs(100))
    }

    #[test]
    fn a_panic_costs_the_actor_and_nothing_else() {
        let store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
        store.apply_job(decode_job(JOB).expect("a good Job"), false);
        store.apply_pod(pod(1, PodPhase::Running));
        store.apply_pod(pod(2, PodPhase::Succeeded));
        let cell = store.cell(&id()).expect("it was made");
        let first = give(&cell);
        assert!(first.first);
        assert_eq!(first.writes.len(), 1, "one Pod is missing");

        let panicked = panic(&cell);
        assert!(panicked.panicked && panicked.writes.is_empty());
        assert!(cell.lock().machine.is_none());

        // The writes of the machine that is no more are still under way: nothing is asked for
        // a second time before it is known how they ended.
        assert!(give(&cell).writes.is_empty());
        store.apply_pod(pod(3, PodPhase::Pending));
        {
            let mut state = cell.lock();
            state.in_flight = 0;
            state.outcomes.push(Outcome::StatusNotWritten);
        }
        let again = give(&cell);
        let creates = again
            .writes
            .iter()
            .filter(|write| matches!(write.op, Op::Create { .. }));
        assert_eq!(creates.count(), 0, "all three Pods are there");
        assert!(cell.lock().machine.is_some(), "built anew from the store");
    }

    /// Gives a turn in which the actor panics.
    fn panic(cell: &Arc<Cell>) -> Turn {
        cell.lock().panic_next_turn = true;
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let turn = give(cell);
        std::panic::set_hook(hook);
        turn
    }

    fn freed(turn: &Turn) -> usize {
        let frees = |write: &&Write| matches!(write.op, Op::RemoveFinalizer { .. });
        turn.writes.iter().filter(frees).count()
    }

    #[test]
    fn a_panic_after_the_end_leaves_no_pod_held() {
        let store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
        let status = r#","status":{"conditions":[{"type":"Complete","status":"True"}]}}"#;
        let finished = format!("{}{status}", &JOB[..JOB.len() - 1]);
        store.apply_job(decode_job(&finished).expect("a good Job"), false);
        store.apply_pod(pod(1, PodPhase::Succeeded));
        let cell = store.cell(&id()).expect("it was made");
        assert!(panic(&cell).panicked);
        assert_eq!(freed(&give(&cell)), 1);
    }

    /// The Pods of a Job's cell, in the order of their UIDs.
    fn pods_of(store: &Store, job: &JobId) -> Vec<Uid> {
        let cell = store.cell(job);
        let pods = cell.map(|cell| cell.lock().pods.iter().map(|(_, pod)| pod.uid).collect());
        let mut pods: Vec<Uid> = pods.unwrap_or_default();
        pods.sort();
        pods
    }

    /// A Pod as a hostile tenant makes it: its owner reference says what he likes.
    fn forged(number: u32, namespace: &str, owner: &str, status: &str) -> DecodedPod<'static> {
        let json = format!(
            r#"{{"metadata":{{"name":"j-{number}","namespace":"{namespace}","resourceVersion":"6",
            "uid":"00000000-0000-0000-0000-0000000000{number}",
            "finalizers":["batch.kubernetes.io/job-tracking"],
            "ownerReferences":[{{"apiVersion":"batch/v1","kind":"Job","name":"{owner}","controller":true,
            "uid":"00000000-0000-0000-0000-000000000001"}}]}},"spec":{{}},"status":{status}}}"#
        );
        let finalizer = TRACKING_FINALIZER;
        let pod = PodDecoder { finalizer }.decode(Object::Json(&json));
        pod.expect("a good Pod").into_owned()
    }

    #[test]
    fn a_pod_of_another_namespace_or_name_is_not_the_jobs() {
        let succeeded = r#"{"phase":"Succeeded"}"#;
        for job_first in [true, false] {
            let store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
            let job = || drop(store.apply_job(decode_job(JOB).expect("a good Job"), false));
            if job_first {
                job();
            }
            store.apply_pod(forged(70, "team-b", "j", succeeded));
            store.apply_pod(forged(71, "default", "other", succeeded));
            store.apply_pod(forged(72, "team-b", "other", succeeded));
            job();
            store.apply_pod(pod(1, PodPhase::Running));
            assert_eq!(pods_of(&store, &id()), [Uid::from_u128(101)]);
            let turn = give(&store.cell(&id()).expect("it was made"));
            let writes = turn.writes.iter().map(|write| &write.op);
            let creates = writes.filter(|op| matches!(op, Op::Create { .. })).count();
            assert_eq!((creates, turn.writes.len()), (1, 1), "slowly at first");
            assert!(turn.writes.iter().all(|write| write.key == id().key));
            // Nobody's Pods have nobody's turns.
            let strangers = store.jobs().into_iter().filter(|job| **job != id());
            let cells: Vec<_> = strangers.filter_map(|job| store.cell(&job)).collect();
            assert_eq!(cells.len(), 3);
            assert!(cells.iter().all(|cell| give(cell).writes.is_empty()));
        }
    }

    #[test]
    fn a_pod_that_goes_over_the_wall_leaves_its_job() {
        let store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
        store.apply_job(decode_job(JOB).expect("a good Job"), false);
        let running = r#"{"phase":"Running"}"#;
        store.apply_pod(forged(70, "default", "j", running));
        assert_eq!(pods_of(&store, &id()), [Uid::from_u128(0x70)]);
        let mut renamed = forged(70, "default", "other", running);
        renamed.record.resource_version = 7;
        store.apply_pod(renamed);
        assert_eq!(pods_of(&store, &id()), []);
        assert_eq!(
            store.delete_pod(Uid::from_u128(0x70)).map(|job| job.uid),
            Some(id().uid)
        );
    }

    #[test]
    fn a_write_goes_to_the_pod_that_is_meant() {
        let store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
        store.apply_job(decode_job(JOB).expect("a good Job"), false);
        // Nobody's, but ours to free: what it calls its Job was never seen, and it is being deleted.
        let mut foreign = forged(70, "default", "j-70-no", r#"{"phase":"Running"}"#);
        foreign.record.flags.set(PodFlags::DELETING, true);
        let Controller::Job(other) = foreign.controller.clone() else {
            panic!("a Job's");
        };
        store.apply_pod(foreign);
        let turn = give(&store.cell(&other).expect("it was made"));
        let [
            Write {
                op: Op::RemoveFinalizer { name, uid, .. },
                key,
                ..
            },
        ] = &turn.writes[..]
        else {
            panic!("{:?}", turn.writes);
        };
        assert_eq!((name.as_str(), *uid), ("j-70", Uid::from_u128(0x70)));
        assert_eq!(key.namespace, "default");
    }

    /// A Job of so many Pods, and its cell.
    fn big_job(count: u32, spec: &str) -> (Store, Arc<Cell>) {
        let store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
        let size = format!(r#""parallelism":{count},"completions":{count},{spec}"#);
        let job = JOB.replace(r#""parallelism":3,"completions":3"#, &size);
        store.apply_job(decode_job(&job).expect("a good Job"), false);
        let cell = store.cell(&id()).expect("it was made");
        (store, cell)
    }

    fn answer(cell: &Cell, outcomes: Vec<Outcome>) {
        let mut state = cell.lock();
        state.in_flight -= u32::try_from(outcomes.len()).expect("few");
        state.outcomes.extend(outcomes);
    }

    #[test]
    fn an_index_has_no_second_pod_because_much_else_came_at_once() {
        let more = u32::try_from(PODS_PER_TURN).expect("it is small") + 10;
        let (store, cell) = big_job(more + 2, r#""completionMode":"Indexed""#);
        let indexed = |number: u32, version: u64| {
            let mut pod = pod(u128::from(number), PodPhase::Running);
            pod.record.index = CompactIndex::new(number);
            pod.record.resource_version = version;
            pod.record.flags.set(PodFlags::READY, version > 6);
            pod
        };
        for number in 0..=more {
            store.apply_pod(indexed(number, 6));
        }
        let first = give(&cell);
        let Op::Create { pod: new, .. } = &first.writes[0].op else {
            panic!("{:?}", first.writes[0].op);
        };
        assert_eq!(first.writes.len(), 1);
        let mut record = indexed(more + 1, 7).record;
        let name = format!("j-{}-{}", more + 1, new.suffix.as_str());
        record.name = PodName::new("j", &name);
        store.pod_created(&cell, record);
        answer(&cell, vec![Outcome::PodCreated(new.suffix)]);
        for number in 0..more {
            store.apply_pod(indexed(number, 8));
        }
        let second = give(&cell);
        assert!(second.again && second.writes.is_empty());
        let third = give(&cell);
        let creates = |write: &&Write| matches!(write.op, Op::Create { .. });
        assert_eq!(third.writes.iter().filter(creates).count(), 0);
        assert!(!third.again);
    }

    #[test]
    fn a_pod_that_vanished_among_many_is_not_deleted() {
        let many = u32::try_from(PODS_PER_TURN).expect("it is small") + 2000;
        let (store, cell) = big_job(many, r#""suspend":true"#);
        for number in 0..many {
            store.apply_pod(pod(u128::from(number), PodPhase::Pending));
        }
        // The finalizers come off; deletions stay under way, so that more wait behind them.
        let mut deletions = Vec::new();
        loop {
            let turn = give(&cell);
            let mut outcomes = Vec::new();
            for write in turn.writes {
                match write.op {
                    Op::RemoveFinalizer { slot, uid, .. } => {
                        store.pod_written(&cell, slot, uid, Some(7), |pod| {
                            pod.flags.set(PodFlags::FINALIZER, false);
                        });
                        outcomes.push(Outcome::FinalizerRemoved(slot));
                    }
                    Op::Status { .. } => outcomes.push(Outcome::StatusWritten),
                    Op::Delete { slot, .. } => deletions.push(Outcome::PodDeleted(slot)),
                    other => panic!("{other:?}"),
                }
            }
            if outcomes.is_empty() && !turn.again {
                break;
            }
            answer(&cell, outcomes);
        }
        assert_eq!(deletions.len(), Limits::default().max_pod_writes as usize);
        store.retain_pods(None, &hashbrown::HashSet::new(), 1000);
        answer(&cell, deletions);
        let mut turns = 0;
        loop {
            let turn = give(&cell);
            let pods = |write: &&Write| !matches!(write.op, Op::Status { .. });
            assert_eq!(turn.writes.iter().filter(pods).count(), 0);
            turns += 1;
            if !turn.again {
                break;
            }
        }
        assert!(turns > 1, "it took more than one turn to hear of all");
    }

    #[test]
    fn a_job_that_is_seen_late_was_not_gone() {
        let store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
        let mut deleting = pod(1, PodPhase::Running);
        deleting.record.flags.set(PodFlags::DELETING, true);
        store.apply_pod(deleting);
        let cell = store.cell(&id()).expect("it was made");
        assert_eq!(freed(&give(&cell)), 1, "its Job looks as if it were gone");
        {
            let mut state = cell.lock();
            state.in_flight = 0;
            state.outcomes.clear();
        }
        store.apply_job(decode_job(JOB).expect("a good Job"), false);
        let turn = give(&cell);
        let creates = |write: &&Write| matches!(write.op, Op::Create { .. });
        assert!(
            turn.writes.iter().filter(creates).count() > 0,
            "it is at work"
        );
    }
}
