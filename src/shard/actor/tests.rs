//! Tests of turns over a real store.

use super::*;
use crate::{
    decide::Outcome,
    metrics::jobs::Seen,
    model::{
        CompactIndex, Controller, DecodedPod, PodFlags, PodLabels, PodName, PodPhase, PodRecord,
        TRACKING_FINALIZER, Time, Uid,
    },
    shard::store::{ActorKey, Store},
    wire::{Object, PodDecoder, decode_job},
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

fn give(store: &mut Store, key: ActorKey) -> Turn {
    let rules = Rules {
        limits: Limits::default(),
        gangs: None,
        pods_seen: u64::MAX,
    };
    let now = Now::at(Time::from_secs(100));
    actor(store, key).turn(rules, now)
}

fn actor(store: &mut Store, key: ActorKey) -> &mut Actor {
    store.get_mut(key).expect("it is there")
}

fn find(store: &Store, job: &JobId) -> ActorKey {
    store.find(job).expect("it was made")
}

#[test]
fn a_panic_costs_the_actor_and_nothing_else() {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    store.apply_job(decode_job(JOB).expect("a good Job"), false);
    store.apply_pod(pod(1, PodPhase::Running));
    store.apply_pod(pod(2, PodPhase::Succeeded));
    let key = find(&store, &id());
    let first = give(&mut store, key);
    assert!(first.first);
    assert_eq!(first.writes.len(), 1, "one Pod is missing");

    let panicked = panic(&mut store, key);
    assert!(panicked.panicked && panicked.writes.is_empty());
    assert!(actor(&mut store, key).machine.is_none());

    // The writes of the machine that is no more are still under way: nothing is asked for
    // a second time before it is known how they ended.
    assert!(give(&mut store, key).writes.is_empty());
    store.apply_pod(pod(3, PodPhase::Pending));
    let state = actor(&mut store, key);
    state.in_flight = 0;
    state.outcomes.push(Outcome::StatusNotWritten);
    let again = give(&mut store, key);
    let creates = again
        .writes
        .iter()
        .filter(|op| matches!(op, Op::Create { .. }));
    assert_eq!(creates.count(), 0, "all three Pods are there");
    assert!(
        actor(&mut store, key).machine.is_some(),
        "built anew from the store"
    );
}

/// Gives a turn in which the actor panics.
fn panic(store: &mut Store, key: ActorKey) -> Turn {
    actor(store, key).panic_next_turn = true;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let turn = give(store, key);
    std::panic::set_hook(hook);
    turn
}

fn freed(turn: &Turn) -> usize {
    let frees = |op: &&Op| matches!(op, Op::RemoveFinalizer { .. });
    turn.writes.iter().filter(frees).count()
}

#[test]
fn a_panic_after_the_end_leaves_no_pod_held() {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    let status = r#","status":{"conditions":[{"type":"Complete","status":"True"}]}}"#;
    let finished = format!("{}{status}", &JOB[..JOB.len() - 1]);
    store.apply_job(decode_job(&finished).expect("a good Job"), false);
    store.apply_pod(pod(1, PodPhase::Succeeded));
    let key = find(&store, &id());
    assert!(panic(&mut store, key).panicked);
    assert_eq!(freed(&give(&mut store, key)), 1);
}

/// The Pods of a Job's cell, in the order of their UIDs.
fn pods_of(store: &Store, job: &JobId) -> Vec<Uid> {
    let actor = store.find(job).and_then(|key| store.get(key));
    let pods = actor.map(|actor| actor.pods.iter().map(|(_, pod)| pod.uid).collect());
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
        let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
        let job = |store: &mut Store| {
            store.apply_job(decode_job(JOB).expect("a good Job"), false);
        };
        if job_first {
            job(&mut store);
        }
        store.apply_pod(forged(70, "team-b", "j", succeeded));
        store.apply_pod(forged(71, "default", "other", succeeded));
        store.apply_pod(forged(72, "team-b", "other", succeeded));
        job(&mut store);
        store.apply_pod(pod(1, PodPhase::Running));
        assert_eq!(pods_of(&store, &id()), [Uid::from_u128(101)]);
        let key = find(&store, &id());
        let turn = give(&mut store, key);
        let creates = |op: &&Op| matches!(op, Op::Create { .. });
        let creates = turn.writes.iter().filter(creates).count();
        assert_eq!((creates, turn.writes.len()), (1, 1), "slowly at first");
        // Nobody's Pods have nobody's turns.
        let mut strangers = store.actors();
        strangers.retain(|stranger| *stranger != key);
        assert_eq!(strangers.len(), 3);
        for stranger in strangers {
            assert!(give(&mut store, stranger).writes.is_empty());
        }
    }
}

#[test]
fn a_pod_that_goes_over_the_wall_leaves_its_job() {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    store.apply_job(decode_job(JOB).expect("a good Job"), false);
    let running = r#"{"phase":"Running"}"#;
    store.apply_pod(forged(70, "default", "j", running));
    assert_eq!(pods_of(&store, &id()), [Uid::from_u128(0x70)]);
    let mut renamed = forged(70, "default", "other", running);
    renamed.record.resource_version = 7;
    store.apply_pod(renamed);
    assert_eq!(pods_of(&store, &id()), []);
    let gone = store.delete_pod(Uid::from_u128(0x70));
    let gone = gone.and_then(|key| store.get(key));
    assert_eq!(gone.map(|actor| actor.id.uid), Some(id().uid));
}

#[test]
fn a_write_goes_to_the_pod_that_is_meant() {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    store.apply_job(decode_job(JOB).expect("a good Job"), false);
    // Nobody's, but ours to free: what it calls its Job was never seen, and it is being deleted.
    let mut foreign = forged(70, "default", "j-70-no", r#"{"phase":"Running"}"#);
    foreign.record.flags.set(PodFlags::DELETING, true);
    let Controller::Job(other) = foreign.controller.clone() else {
        panic!("a Job's");
    };
    store.apply_pod(foreign);
    let key = find(&store, &other);
    let turn = give(&mut store, key);
    let [Op::RemoveFinalizer(pod, _)] = &turn.writes[..] else {
        panic!("{:?}", turn.writes);
    };
    assert_eq!((pod.name.as_str(), pod.uid), ("j-70", Uid::from_u128(0x70)));
    assert_eq!(actor(&mut store, key).id.key.namespace, "default");
}

/// A Job of so many Pods, and its actor.
fn big_job(count: u32, spec: &str) -> (Store, ActorKey) {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    let size = format!(r#""parallelism":{count},"completions":{count},{spec}"#);
    let job = JOB.replace(r#""parallelism":3,"completions":3"#, &size);
    store.apply_job(decode_job(&job).expect("a good Job"), false);
    let key = find(&store, &id());
    (store, key)
}

fn answer(store: &mut Store, key: ActorKey, outcomes: Vec<Outcome>) {
    let state = actor(store, key);
    state.in_flight -= u32::try_from(outcomes.len()).expect("few");
    state.outcomes.extend(outcomes);
}

#[test]
fn an_index_has_no_second_pod_because_much_else_came_at_once() {
    let more = 5000;
    let (mut store, key) = big_job(more + 2, r#""completionMode":"Indexed""#);
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
    let first = give(&mut store, key);
    let Op::Create { pod: new, .. } = &first.writes[0] else {
        panic!("{:?}", first.writes[0]);
    };
    assert_eq!(first.writes.len(), 1);
    let mut record = indexed(more + 1, 7).record;
    let name = format!("j-{}-{}", more + 1, new.suffix.as_str());
    record.name = PodName::new("j", &name);
    store.pod_created(key, record);
    answer(&mut store, key, vec![Outcome::PodCreated(new.id())]);
    for number in 0..more {
        store.apply_pod(indexed(number, 8));
    }
    let second = give(&mut store, key);
    let creates = |op: &&Op| matches!(op, Op::Create { .. });
    assert_eq!(second.writes.iter().filter(creates).count(), 0);
}

#[test]
fn a_pod_that_vanished_among_many_is_not_deleted() {
    let many = 5000;
    let (mut store, key) = big_job(many, r#""suspend":true"#);
    for number in 0..many {
        store.apply_pod(pod(u128::from(number), PodPhase::Pending));
    }
    // The finalizers come off; deletions stay under way, so that more wait behind them.
    let mut deletions = Vec::new();
    loop {
        let turn = give(&mut store, key);
        let mut outcomes = Vec::new();
        for write in turn.writes {
            match write {
                Op::RemoveFinalizer(pod, _) => {
                    store.pod_written(key, (pod.slot, pod.uid), Some(7), |pod| {
                        pod.flags.set(PodFlags::FINALIZER, false);
                    });
                    outcomes.push(Outcome::FinalizerRemoved(pod.slot));
                }
                Op::Status { .. } => outcomes.push(Outcome::StatusWritten),
                Op::Delete(pod) => deletions.push(Outcome::PodDeleted(pod.slot)),
                other => panic!("{other:?}"),
            }
        }
        if outcomes.is_empty() {
            break;
        }
        answer(&mut store, key, outcomes);
    }
    assert_eq!(deletions.len(), Limits::default().max_pod_writes as usize);
    store.retain_pods(None, &hashbrown::HashSet::new(), 1000);
    answer(&mut store, key, deletions);
    let turn = give(&mut store, key);
    let pods = |op: &&Op| !matches!(op, Op::Status { .. });
    assert_eq!(turn.writes.iter().filter(pods).count(), 0);
}

#[test]
fn a_job_that_is_seen_late_was_not_gone() {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    let mut deleting = pod(1, PodPhase::Running);
    deleting.record.flags.set(PodFlags::DELETING, true);
    store.apply_pod(deleting);
    let key = find(&store, &id());
    assert_eq!(
        freed(&give(&mut store, key)),
        1,
        "its Job looks as if it were gone"
    );
    let state = actor(&mut store, key);
    state.in_flight = 0;
    state.outcomes.clear();
    store.apply_job(decode_job(JOB).expect("a good Job"), false);
    let turn = give(&mut store, key);
    let creates = |op: &&Op| matches!(op, Op::Create { .. });
    assert!(
        turn.writes.iter().filter(creates).count() > 0,
        "it is at work"
    );
}
