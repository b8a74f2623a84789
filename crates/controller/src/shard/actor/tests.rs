//! Tests syncs over a real store.

use super::*;
use lakh_core::decide::Outcome;
use lakh_model::{
    CompactIndex, Controller, DecodedPod, PodFlags, PodLabels, PodName, PodPhase, PodRecord,
    TRACKING_FINALIZER, Time, Uid,
};
use lakh_wire::{Object, PodDecoder, decode_job};

use crate::{
    metrics::jobs::Seen,
    shard::store::{ActorKey, Store},
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
        end: None,
    }
}

fn give(store: &mut Store, key: ActorKey) -> Turn {
    give_at(store, key, 100)
}

fn give_at(store: &mut Store, key: ActorKey, seconds: i64) -> Turn {
    give_with(store, key, u64::MAX, Now::at(Time::from_secs(seconds)))
}

/// Runs a sync with the Pods cached as of this version.
fn give_with(store: &mut Store, key: ActorKey, pods_seen: u64, now: Now) -> Turn {
    let rules = Rules {
        limits: Limits::default(),
        gangs: None,
        runs_jobs: true,
        pods_seen,
    };
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

    // Writes of the discarded machine are still in flight. Nothing is repeated before their outcomes are known.
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

/// Runs a sync in which the actor panics.
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

#[test]
fn a_pod_of_a_job_that_has_ended_is_freed_though_its_news_are_older_than_the_jobs() {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    let status = r#","status":{"conditions":[{"type":"Complete","status":"True"}],
        "uncountedTerminatedPods":{}}}"#;
    let job = JOB.replace(r#""resourceVersion":"5""#, r#""resourceVersion":"9""#);
    let ended = format!("{}{status}", &job[..job.len() - 1]);
    store.apply_job(decode_job(&ended).expect("a good Job"), false);
    store.apply_pod(pod(1, PodPhase::Succeeded));
    let key = find(&store, &id());
    let now = Now::at(Time::from_secs(100));
    let early = give_with(&mut store, key, 6, now);
    assert!(early.wake_at.is_some() && freed(&early) == 0, "{early:?}");
    assert_eq!(freed(&give_with(&mut store, key, 9, now)), 1);
}

/// Returns the Pods of a Job's actor, in the order of their UIDs.
fn pods_of(store: &Store, job: &JobId) -> Vec<Uid> {
    let actor = store.find(job).and_then(|key| store.get(key));
    let pods = actor.map(|actor| actor.pods.iter().map(|(_, pod)| pod.uid).collect());
    let mut pods: Vec<Uid> = pods.unwrap_or_default();
    pods.sort();
    pods
}

/// Returns a Pod of a hostile tenant, with an arbitrary owner reference.
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
        // Pods without a Job cause no writes.
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
    let gone = store.delete_pod(Uid::from_u128(0x70), None);
    let gone = gone.and_then(|key| store.get(key));
    assert_eq!(gone.map(|actor| actor.id.uid), Some(id().uid));
}

#[test]
fn a_write_goes_to_the_pod_that_is_meant() {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    store.apply_job(decode_job(JOB).expect("a good Job"), false);
    // No Job owns it, but we must free it: its owner was never in the cache, and it is being deleted.
    let mut foreign = forged(70, "default", "j-70-no", r#"{"phase":"Running"}"#);
    foreign.record.flags.set(PodFlags::DELETING, true);
    let Controller::Job(other) = foreign.controller.clone() else {
        panic!("a Job's");
    };
    store.apply_pod(foreign);
    let key = find(&store, &other);
    assert!(give(&mut store, key).searches);
    searched(&mut store, key, true);
    let turn = give(&mut store, key);
    let [Op::RemoveFinalizer(pod, _)] = &turn.writes[..] else {
        panic!("{:?}", turn.writes);
    };
    assert_eq!((pod.name.as_str(), pod.uid), ("j-70", Uid::from_u128(0x70)));
    assert_eq!(actor(&mut store, key).id.key.namespace, "default");
}

/// Creates a Job with this many Pods, and its actor.
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
    // The finalizers are removed. Deletions stay in flight, so that more wait behind them.
    let mut deletions = Vec::new();
    loop {
        let turn = give(&mut store, key);
        let mut outcomes = Vec::new();
        for write in turn.writes {
            match write {
                Op::RemoveFinalizer(pod, _) => {
                    store.pod_written(key, (pod.slot, pod.uid), 7, |pod| {
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

/// Responds to the search for the Job.
fn searched(store: &mut Store, key: ActorKey, is_gone: bool) {
    let retry = Limits::default().retry_backoff;
    let now = Now::at(Time::from_secs(100)).monotonic;
    actor(store, key).searched(is_gone, retry, now);
}

fn deleting(number: u128) -> DecodedPod<'static> {
    let mut pod = pod(number, PodPhase::Running);
    pod.record.flags.set(PodFlags::DELETING, true);
    pod
}

#[test]
fn for_a_job_that_only_its_pods_tell_of_the_server_is_asked_once() {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    store.apply_pod(pod(1, PodPhase::Running));
    let key = find(&store, &id());
    assert!(!give(&mut store, key).searches, "it may be new");
    store.apply_pod(deleting(2));
    let turn = give(&mut store, key);
    assert!(turn.searches && turn.writes.is_empty());
    store.apply_pod(deleting(3));
    let turn = give(&mut store, key);
    assert!(!turn.searches && turn.writes.is_empty(), "it was asked");
    searched(&mut store, key, true);
    let turn = give(&mut store, key);
    assert!(!turn.searches);
    assert_eq!(freed(&turn), 3, "the Job is gone");
    // The response was from other data.
    store.apply_job(decode_job(JOB).expect("a good Job"), false);
    answer(
        &mut store,
        key,
        vec![Outcome::FinalizerNotRemoved(Slot(0)); 3],
    );
    let turn = give(&mut store, key);
    assert!(freed(&turn) == 0 && turn.first, "it is at work");
}

#[test]
fn a_job_that_the_watch_does_not_tell_of_keeps_its_pods_held() {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    store.apply_pod(deleting(1));
    let key = find(&store, &id());
    for after in [1, 2, 4] {
        assert!(give(&mut store, key).searches);
        searched(&mut store, key, false);
        let turn = give(&mut store, key);
        assert!(!turn.searches && turn.writes.is_empty());
        let at = Now::at(Time::from_secs(100 + after)).monotonic;
        assert_eq!(turn.wake_at, Some(at.into()));
        actor(&mut store, key).search.not_before = Monotonic::default();
    }
    store.delete_pod(Uid::from_u128(101), None);
    let turn = give(&mut store, key);
    assert!(!turn.searches && turn.wake_at.is_none(), "nothing waits");
}

#[test]
fn a_job_that_is_seen_while_the_server_is_asked_was_not_gone() {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    store.apply_pod(deleting(1));
    let key = find(&store, &id());
    assert!(give(&mut store, key).searches);
    store.apply_job(decode_job(JOB).expect("a good Job"), false);
    searched(&mut store, key, true);
    let turn = give(&mut store, key);
    let creates = |op: &&Op| matches!(op, Op::Create { .. });
    assert!(
        turn.writes.iter().filter(creates).count() > 0,
        "it is at work"
    );
}

#[test]
fn a_job_that_comes_and_goes_between_two_turns_leaves_no_pod_held() {
    for is_seen in [true, false] {
        let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
        store.apply_pod(pod(1, PodPhase::Running));
        let key = find(&store, &id());
        assert!(give(&mut store, key).writes.is_empty(), "it may be new");
        if is_seen {
            store.apply_job(decode_job(JOB).expect("a good Job"), false);
        }
        store.delete_job(&id());
        assert_eq!(freed(&give(&mut store, key)), 1, "seen: {is_seen}");
    }
}

#[test]
fn a_pod_that_leaves_and_comes_back_is_counted_once() {
    let mut store = Store::new(TRACKING_FINALIZER, &[], Seen::default());
    store.apply_job(decode_job(JOB).expect("a good Job"), false);
    for number in 1..=3 {
        store.apply_pod(pod(number, PodPhase::Running));
    }
    let key = find(&store, &id());
    let status_of = |turn: &Turn| {
        let status = turn.writes.iter().find_map(|op| match op {
            Op::Status { status, .. } => Some(status.clone()),
            _ => None,
        });
        *status.expect("a status is written")
    };
    let started = status_of(&give(&mut store, key));
    store.job_status_written(key, started, 6);
    answer(&mut store, key, vec![Outcome::StatusWritten]);
    store.apply_pod(pod(1, PodPhase::Succeeded));
    let named = status_of(&give_at(&mut store, key, 110));
    let listed = |status: &JobStatus| status.uncounted.clone().unwrap_or_default().succeeded;
    assert_eq!(listed(&named), [Uid::from_u128(101)]);
    // A user removes the owner while that status is in flight, and the Job adopts the Pod again.
    for (controller, version) in [(Controller::None, 7), (Controller::Job(id()), 8)] {
        let mut moved = pod(1, PodPhase::Succeeded);
        moved.controller = controller;
        moved.record.resource_version = version;
        store.apply_pod(moved);
    }
    assert!(give_at(&mut store, key, 120).writes.is_empty());
    store.job_status_written(key, named, 9);
    answer(&mut store, key, vec![Outcome::StatusWritten]);
    let turn = give_at(&mut store, key, 130);
    assert_eq!(freed(&turn), 1, "{:?}", turn.writes);
    assert_eq!(turn.writes.len(), 1, "it is listed already");
}
