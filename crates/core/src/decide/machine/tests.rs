//! Tests of the whole machine: chosen Pod names, and clocks that are set.

use std::{collections::BTreeSet, time::Duration};

use crate::model::{
    CompactIndex, CompletionMode, Condition, ConditionKind, JobKey, JobSpec, PodFlags, PodName,
    PodPhase, PodReplacement, Time, Uid, Uncounted,
    names::{self, Series},
};

use super::*;

const JOB: Uid = Uid::from_u128(1);

fn job(mode: CompletionMode, parallelism: u32, completions: u32) -> Job {
    Job {
        key: JobKey {
            namespace: "default".into(),
            name: "j".into(),
        },
        uid: JOB,
        resource_version: 1,
        generation: 1,
        created: None,
        deleting: false,
        spec: JobSpec {
            mode,
            parallelism,
            completions: Some(completions),
            backoff_limit: u32::MAX,
            ..JobSpec::default()
        },
        status: JobStatus::default(),
    }
}

fn name(id: CreationId) -> PodName {
    let prefix = match id.index {
        Some(index) => names::generate_name_indexed("j", index),
        None => names::generate_name("j"),
    };
    PodName::new("j", &names::pod_name(&prefix, id.suffix))
}

fn pod(uid: u128, id: CreationId, phase: PodPhase) -> PodRecord {
    PodRecord {
        uid: Uid::from_u128(uid),
        name: name(id),
        index: id.index.and_then(CompactIndex::new),
        phase,
        flags: PodFlags::default().with(PodFlags::FINALIZER, phase != PodPhase::Failed),
        ..PodRecord::default()
    }
}

/// Pseudo-random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        u32::try_from(self.0 >> 33).expect("31 bits") % end
    }
}

/// Handles these Pods, and returns the requested creations.
fn asked(machine: &mut JobMachine, pods: &mut PodTable, now: Now) -> Vec<CreationId> {
    let mut asked = Vec::new();
    while let Some((slot, pod)) = pods.take_dirty() {
        machine.handle_pod(slot, pod);
    }
    machine.decide(pods, now);
    machine.debug_check(pods);
    while let Some(effect) = machine.poll_effect() {
        if let Effect::CreatePod(new) = effect {
            asked.push(new.id());
        }
    }
    asked
}

/// All creations that a machine requests while each round is accepted and no Pod event arrives.
fn all_asked(machine: &mut JobMachine, pods: &mut PodTable) -> BTreeSet<CreationId> {
    all_asked_at(machine, pods, Now::at(Time::from_secs(100_000)))
}

/// The same at another time.
fn all_asked_at(machine: &mut JobMachine, pods: &mut PodTable, now: Now) -> BTreeSet<CreationId> {
    let mut all = BTreeSet::new();
    loop {
        let round = asked(machine, pods, now);
        if round.is_empty() {
            return all;
        }
        for id in round {
            assert!(all.insert(id), "{id:?} is asked for twice");
            pods.insert(pod(1_000 + all.len() as u128, id, PodPhase::Pending));
            machine.handle_outcome(Outcome::PodCreated(id), now.monotonic);
        }
    }
}

/// Pods of which some have failed, some run, and some have foreign names.
fn some_pods(dice: &mut Dice, mode: CompletionMode) -> Vec<PodRecord> {
    let mut taken = BTreeSet::new();
    let mut pods = Vec::new();
    for uid in 0..u128::from(dice.below(30)) {
        let index = (mode == CompletionMode::Indexed).then(|| dice.below(8));
        let count = match dice.below(10) {
            0 => dice.below(names::SUFFIXES),
            _ => dice.below(9),
        };
        let suffix = PodSuffix::nth(Series::new(JOB, index), count);
        let phase = match dice.below(4) {
            0 => PodPhase::Running,
            _ => PodPhase::Failed,
        };
        let id = CreationId { index, suffix };
        if taken.insert(id) {
            pods.push(pod(uid + 1, id, phase));
        }
    }
    pods
}

#[test]
fn machines_that_see_the_same_choose_the_same_names_and_none_that_is_known() {
    let mut created = 0;
    for seed in 0..400 {
        let mut dice = Dice(seed);
        let mode = match seed % 2 {
            0 => CompletionMode::Indexed,
            _ => CompletionMode::NonIndexed,
        };
        let job = job(mode, 6, 8);
        let pods = some_pods(&mut dice, mode);
        let known: Vec<PodName> = pods.iter().map(|pod| pod.name.clone()).collect();
        let mut one = PodTable::default();
        for pod in pods.iter().cloned() {
            one.insert(pod);
        }
        // The other machine has seen Pods that are gone again, and handles events in another order.
        let mut other = PodTable::default();
        let mut veteran = JobMachine::new(&job, Limits::default());
        let gone = some_pods(&mut dice, mode).into_iter();
        let gone: Vec<Slot> = gone.map(|pod| other.insert(pod)).collect();
        while let Some((slot, pod)) = other.take_dirty() {
            veteran.handle_pod(slot, pod);
        }
        gone.into_iter().for_each(|slot| other.remove(slot));
        for pod in pods.into_iter().rev() {
            other.insert(pod);
        }
        let names = all_asked(&mut JobMachine::new(&job, Limits::default()), &mut one);
        assert_eq!(names, all_asked(&mut veteran, &mut other), "seed {seed}");
        for id in &names {
            assert!(!known.contains(&name(*id)), "seed {seed}: {id:?} is known");
        }
        created += names.len();
    }
    assert!(created > 400, "only {created} creations");
}

#[test]
fn after_a_restart_uncertain_creations_are_repeated_under_the_same_names() {
    for mode in [CompletionMode::Indexed, CompletionMode::NonIndexed] {
        for seed in 0..200 {
            let mut dice = Dice(seed);
            let job = job(mode, 6, 8);
            let mut table = PodTable::default();
            for pod in some_pods(&mut dice, mode) {
                table.insert(pod);
            }
            let mut machine = JobMachine::new(&job, Limits::default());
            let mut now = Now::at(Time::from_secs(100_000));
            let mut in_doubt = BTreeSet::new();
            let mut told = 0;
            for _ in 0..20 {
                for id in asked(&mut machine, &mut table, now) {
                    in_doubt.remove(&id);
                    let outcome = match dice.below(3) {
                        0 => {
                            told += 1;
                            table.insert(pod(1_000 + told, id, PodPhase::Pending));
                            Outcome::PodCreated(id)
                        }
                        _ => {
                            in_doubt.insert(id);
                            Outcome::PodNotCreated(id, CreateError::Unknown)
                        }
                    };
                    machine.handle_outcome(outcome, now.monotonic);
                }
                now = now + Duration::from_secs(100);
                if dice.below(4) == 0 {
                    break;
                }
            }
            table.mark_all();
            let names = all_asked(&mut JobMachine::new(&job, Limits::default()), &mut table);
            let lost: Vec<_> = in_doubt.difference(&names).collect();
            assert!(
                lost.is_empty(),
                "{mode:?}, seed {seed}: {lost:?} of {names:?}"
            );
        }
    }
}

#[test]
fn a_name_taken_by_a_foreign_pod_is_skipped() {
    for mode in [CompletionMode::Indexed, CompletionMode::NonIndexed] {
        let mut machine = JobMachine::new(&job(mode, 1, 1), Limits::default());
        let mut pods = PodTable::default();
        let mut now = Now::at(Time::from_secs(100_000));
        let mut seen = BTreeSet::new();
        for _ in 0..5 {
            let ids = asked(&mut machine, &mut pods, now);
            let [id] = ids[..] else { panic!("{ids:?}") };
            assert!(seen.insert(id), "{id:?} is asked for again");
            machine.handle_outcome(
                Outcome::PodNotCreated(id, CreateError::NameTaken),
                now.monotonic,
            );
            now = now + Duration::from_secs(100);
        }
    }
}

#[test]
fn the_time_of_day_neither_holds_up_nor_hurries_a_status() {
    let mut machine = JobMachine::new(&job(CompletionMode::Indexed, 5, 20), Limits::default());
    let pods = PodTable::default();
    let start = Now::at(Time::from_secs(100_000));
    machine.decide(&pods, start);
    while machine.poll_effect().is_some() {}
    let soon = start + Duration::from_millis(400);
    for wall in [soon.wall, Time::from_secs(92_800), Time::from_secs(107_200)] {
        let now = Now { wall, ..soon };
        machine.decide(&pods, now);
        let (due, why) = machine.poll_timeout().expect("Pods are being made");
        assert_eq!(why, "status write");
        assert_eq!(due.left(now), Some(Duration::from_millis(600)), "{wall:?}");
    }
    assert_eq!(machine.poll_effect(), None);
    let set_back = Now {
        wall: Time::from_secs(92_800),
        ..start + Duration::from_secs(1)
    };
    machine.decide(&pods, set_back);
    let status = machine.poll_effect();
    assert!(matches!(status, Some(Effect::WriteStatus(_))), "{status:?}");
}

/// A controller that may not create a Pod yet does not wait in vain for the other one to do it.
#[test]
fn a_contest_lasts_while_nothing_may_be_done() {
    let now = Now::at(Time::from_secs(100_000));
    let later = |secs| now + Duration::from_secs(secs);
    let mut job = job(CompletionMode::Indexed, 1, 1);
    job.spec.pod_replacement = PodReplacement::Failed;
    let limits = Limits {
        alone_after: Some(Duration::from_secs(60)),
        ..Limits::default()
    };
    let mut machine = JobMachine::new(&job, limits);
    let mut pods = PodTable::default();
    let id = CreationId {
        index: Some(0),
        suffix: PodSuffix::nth(Series::new(JOB, Some(0)), 0),
    };
    let mut going = pod(1, id, PodPhase::Running);
    going.flags = going.flags.with(PodFlags::DELETING, true);
    pods.insert(going);
    assert_eq!(asked(&mut machine, &mut pods, now), []);
    assert!(machine.handle_foreign_status(now.monotonic).is_none());
    assert!(machine.handle_foreign_status(now.monotonic).is_some());
    for secs in [1, 3_600] {
        assert_eq!(asked(&mut machine, &mut pods, later(secs)), []);
        assert!(machine.wants_no_pods());
    }
    // The Pod is gone, and no controller creates another.
    let slot = pods.iter().next().expect("one Pod").0;
    pods.remove(slot);
    assert_eq!(asked(&mut machine, &mut pods, later(3_601)), []);
    let due = machine.poll_timeout().expect("it waits").0;
    assert!(
        due.left(later(3_601))
            .is_some_and(|left| left <= Duration::from_secs(60))
    );
    assert!(asked(&mut machine, &mut pods, later(3_660)).is_empty());
    let backoff = later(3_661 + 600);
    assert_eq!(asked(&mut machine, &mut pods, backoff).len(), 1);
}

/// Hands all Pods to a machine, and returns its effects.
fn effects(machine: &mut JobMachine, pods: &mut PodTable, now: Now) -> Vec<Effect> {
    while let Some((slot, pod)) = pods.take_dirty() {
        machine.handle_pod(slot, pod);
    }
    machine.decide(pods, now);
    std::iter::from_fn(|| machine.poll_effect()).collect()
}

/// Returns the refusal of an effect, if it is of the kind to refuse.
type Refusal = fn(&Effect) -> Option<Outcome>;

/// The successor waits after a refusal as long as its predecessor would have.
#[test]
fn a_successor_inherits_the_waits_after_refusals() {
    let now = Now::at(Time::from_secs(100_000));
    let refusals: [(&str, Refusal); 4] = [
        ("creation", |effect| match effect {
            Effect::CreatePod(new) => Some(Outcome::PodNotCreated(new.id(), CreateError::Refused)),
            _ => None,
        }),
        ("removal", |effect| match effect {
            Effect::RemoveFinalizerIfUnchanged(slot) => Some(Outcome::FinalizerNotRemoved(*slot)),
            _ => None,
        }),
        ("deletion", |effect| match effect {
            Effect::DeletePod(slot) => Some(Outcome::PodNotDeleted(*slot)),
            _ => None,
        }),
        ("status", |effect| match effect {
            Effect::WriteStatus(_) => Some(Outcome::StatusNotWritten),
            _ => None,
        }),
    ];
    for (what, refusal) in refusals {
        let wanted = u32::from(what == "creation" || what == "status");
        let mut job = job(CompletionMode::NonIndexed, wanted, 2);
        let mut pods = PodTable::default();
        let id = CreationId {
            index: None,
            suffix: PodSuffix::nth(Series::new(JOB, None), 0),
        };
        if what != "creation" {
            let mut running = pod(1, id, PodPhase::Running);
            running.flags.set(PodFlags::FINALIZER, what == "removal");
            pods.insert(running);
        }
        let mut machine = JobMachine::new(&job, Limits::default());
        let asked = effects(&mut machine, &mut pods, now);
        let refused: Vec<Outcome> = asked.iter().filter_map(refusal).collect();
        assert_eq!(refused.len(), 1, "{what}: {asked:?}");
        for outcome in refused {
            machine.handle_outcome(outcome, now.monotonic);
        }
        // Another client writes the status.
        job.resource_version += 1;
        job.status.failed = 1;
        machine.handle_job(&job);
        assert!(machine.is_outdated(), "{what}");
        let mut next = machine.successor(&job);
        pods.mark_all();
        let is_again = |asked: Vec<Effect>| asked.iter().any(|effect| refusal(effect).is_some());
        let soon = now + Duration::from_millis(100);
        assert!(
            !is_again(effects(&mut next, &mut pods, soon)),
            "{what}: at once"
        );
        let later = now + Duration::from_secs(30);
        assert!(
            is_again(effects(&mut next, &mut pods, later)),
            "{what}: never"
        );
    }
}

#[test]
fn a_successor_does_not_report_an_unknown_mode_again() {
    let now = Now::at(Time::from_secs(100_000));
    let mut job = job(CompletionMode::Unrecognized, 1, 1);
    let mut pods = PodTable::default();
    let mut machine = JobMachine::new(&job, Limits::default());
    assert_eq!(effects(&mut machine, &mut pods, now).len(), 1);
    job.resource_version += 1;
    job.status.failed = 1;
    machine.handle_job(&job);
    let mut next = machine.successor(&job);
    assert_eq!(effects(&mut next, &mut pods, now), []);
}

/// Entries of `uncountedTerminatedPods` that are no UIDs count as the Pods they stood for, once.
#[test]
fn entries_that_are_no_uids_count_once() {
    let mut job = job(CompletionMode::NonIndexed, 1, 9);
    job.status.uncounted = Some(Uncounted {
        strange_succeeded: 2,
        strange_failed: 1,
        ..Uncounted::default()
    });
    let mut pods = PodTable::default();
    let mut machine = JobMachine::new(&job, Limits::default());
    for later in 0..2 {
        let now = Now::at(Time::from_secs(100_000 + 60 * later));
        for effect in effects(&mut machine, &mut pods, now) {
            if let Effect::WriteStatus(status) = effect {
                assert_eq!((status.succeeded, status.failed), (2, 1));
                assert!(status.uncounted.is_some_and(|list| list.is_empty()));
                machine.handle_outcome(Outcome::StatusWritten, now.monotonic);
            }
        }
        let (context, counting, ..) = machine.parts();
        assert_eq!(counting.succeeded(&context), 2);
        assert_eq!(counting.failed(&context), 1);
    }
}

/// A contest stops no deletion that both controllers would make.
#[test]
fn pods_of_a_suspended_job_and_those_that_are_too_many_go_in_a_contest_too() {
    let now = Now::at(Time::from_secs(100_000));
    let limits = Limits {
        alone_after: Some(Duration::from_secs(60)),
        ..Limits::default()
    };
    for (suspend, parallelism, expected) in [(true, 3, 3), (false, 1, 2), (false, 5, 0)] {
        let mut job = job(CompletionMode::NonIndexed, 3, 9);
        let mut machine = JobMachine::new(&job, limits);
        let mut pods = PodTable::default();
        for count in 0..3 {
            let suffix = PodSuffix::nth(Series::new(JOB, None), count);
            let id = CreationId {
                index: None,
                suffix,
            };
            pods.insert(pod(1 + u128::from(count), id, PodPhase::Running));
        }
        assert_eq!(asked(&mut machine, &mut pods, now), []);
        machine.handle_outcome(Outcome::StatusWritten, now.monotonic);
        assert!(machine.handle_foreign_status(now.monotonic).is_none());
        assert!(machine.handle_foreign_status(now.monotonic).is_some());
        job.spec.suspend = suspend;
        job.spec.parallelism = parallelism;
        job.status = machine.job.status.clone();
        machine.handle_job(&job);
        machine.decide(&pods, now);
        let effects = std::iter::from_fn(|| machine.poll_effect());
        let effects: Vec<_> = effects.collect();
        let goes = |effect: &&Effect| matches!(effect, Effect::RemoveFinalizerIfUnchanged(_));
        assert_eq!(effects.iter().filter(goes).count(), expected, "{effects:?}");
        let comes = |effect: &Effect| matches!(effect, Effect::CreatePod(_));
        assert!(!effects.iter().any(comes), "{effects:?}");
        let tells = |effect: &Effect| matches!(effect, Effect::Report(_));
        assert_eq!(effects.iter().any(tells), suspend, "{effects:?}");
    }
}

/// A run is stored before its Pods are created: otherwise two controllers could name them differently.
#[test]
fn the_pods_of_each_run_have_other_names_and_come_after_the_run_is_stored() {
    for mode in [CompletionMode::Indexed, CompletionMode::NonIndexed] {
        let mut job = job(mode, 3, 3);
        job.spec.suspend = true;
        let mut machine = JobMachine::new(&job, Limits::default());
        // Many runs in a second, and a clock that is set back.
        let mut now = Now::at(Time::from_secs(100_000));
        let mut names = BTreeSet::new();
        for run in 0..6 {
            let mut pods = PodTable::default();
            if machine.is_writing_status() {
                machine.handle_outcome(Outcome::StatusWritten, now.monotonic);
            }
            for suspend in [true, false] {
                job.spec.suspend = suspend;
                job.status = machine.job.status.clone();
                machine.handle_job(&job);
                assert_eq!(
                    asked(&mut machine, &mut pods, now),
                    [],
                    "{mode:?}, run {run}"
                );
                assert!(machine.is_writing_status(), "{mode:?}, run {run}");
                machine.handle_outcome(Outcome::StatusWritten, now.monotonic);
            }
            let started = machine.job.status.start_time;
            assert_eq!(started, Some(now.wall), "{mode:?}, run {run}");
            let mut other = JobMachine::new(&job_of(&machine, &job), Limits::default());
            let mine = all_asked_at(&mut machine, &mut pods, now);
            let mut none = PodTable::default();
            assert_eq!(mine, all_asked_at(&mut other, &mut none, now));
            assert_eq!(mine.len(), 3);
            for id in mine {
                assert!(
                    names.insert(name(id).tail().to_owned()),
                    "{mode:?}, run {run}: {id:?}"
                );
            }
            let slots: Vec<Slot> = pods.iter().map(|(slot, _)| slot).collect();
            slots.into_iter().for_each(|slot| pods.remove(slot));
            while let Some((slot, pod)) = pods.take_dirty() {
                machine.handle_pod(slot, pod);
            }
            now = match run % 2 {
                0 => now,
                _ => Now {
                    wall: Time::from_secs(99_000),
                    ..now
                },
            };
        }
    }
}

/// The stored Job after a machine's writes.
fn job_of(machine: &JobMachine, job: &Job) -> Job {
    Job {
        status: machine.job.status.clone(),
        ..job.clone()
    }
}

/// Fields that no machine state derives from outdate no machine, and stay as another client wrote them.
#[test]
fn a_machine_continues_when_non_count_fields_change() {
    let mut job = job(CompletionMode::NonIndexed, 1, 1);
    let mut pods = PodTable::default();
    let now = Now::at(Time::from_secs(100_000));
    let mut machine = JobMachine::new(&job, Limits::default());
    assert_eq!(asked(&mut machine, &mut pods, now).len(), 1);
    let condition = |kind: &str| Condition {
        kind: kind.into(),
        ..Condition::new_true(ConditionKind::Suspended, "R", "m", now.wall)
    };
    job.status.start_time = None;
    job.status.active = 7;
    job.status.conditions.push(condition("Third"));
    machine.handle_job(&job);
    assert!(!machine.is_outdated());
    machine.decide(&pods, now + Duration::from_secs(2));
    let effects = std::iter::from_fn(|| machine.poll_effect());
    let status = effects.filter_map(|effect| match effect {
        Effect::WriteStatus(status) => Some(*status),
        _ => None,
    });
    let statuses: Vec<JobStatus> = status.collect();
    let [status] = &statuses[..] else {
        panic!("{statuses:?}")
    };
    assert_eq!(status.conditions, job.status.conditions);
    assert!(
        status.start_time.is_some() && status.active == 0,
        "{status:?}"
    );
    for change in [
        JobStatus {
            failed: 1,
            ..job.status.clone()
        },
        JobStatus {
            completed_indexes: "0".into(),
            ..job.status.clone()
        },
        JobStatus {
            uncounted: Some(Uncounted::default()),
            ..job.status.clone()
        },
        JobStatus {
            conditions: vec![condition("Complete")],
            ..job.status.clone()
        },
    ] {
        let mut machine = machine.clone();
        machine.handle_outcome(Outcome::StatusNotWritten, now.monotonic);
        machine.handle_job(&Job {
            status: change.clone(),
            ..job.clone()
        });
        assert!(machine.is_outdated(), "{change:?}");
    }
}

/// A Pod that ended while it was let go may count: that is open until the removal of its finalizer is answered.
#[test]
fn a_pod_that_ended_while_its_finalizer_was_removed_is_replaced_once_it_is_known_not_to_count() {
    let now = Now::at(Time::from_secs(100_000));
    let is_creation = |effect: &Effect| matches!(effect, Effect::CreatePod(_));
    for (mode, is_removed) in [
        (CompletionMode::NonIndexed, true),
        (CompletionMode::NonIndexed, false),
        (CompletionMode::Indexed, true),
        (CompletionMode::Indexed, false),
    ] {
        let mut job = job(mode, 1, 1);
        let mut machine = JobMachine::new(&job, Limits::default());
        let mut pods = PodTable::default();
        let id = CreationId {
            index: (mode == CompletionMode::Indexed).then_some(0),
            suffix: PodSuffix::nth(Series::new(JOB, None), 0),
        };
        let slot = pods.insert(pod(1, id, PodPhase::Running));
        effects(&mut machine, &mut pods, now);
        machine.handle_outcome(Outcome::StatusWritten, now.monotonic);
        let scale = |machine: &mut JobMachine, job: &mut Job, parallelism| {
            job.spec.parallelism = parallelism;
            job.status = machine.job.status.clone();
            machine.handle_job(job);
        };
        scale(&mut machine, &mut job, 0);
        let asked = effects(&mut machine, &mut pods, now);
        assert!(
            asked.contains(&Effect::RemoveFinalizerIfUnchanged(slot)),
            "{asked:?}"
        );
        pods.update(slot, |pod| pod.phase = PodPhase::Succeeded);
        scale(&mut machine, &mut job, 1);
        let asked = effects(&mut machine, &mut pods, now);
        machine.debug_check(&pods);
        assert!(!asked.iter().any(is_creation), "{mode:?}: {asked:?}");
        let outcome = match is_removed {
            true => {
                pods.update(slot, |pod| pod.flags.set(PodFlags::FINALIZER, false));
                Outcome::FinalizerRemoved(slot)
            }
            false => Outcome::FinalizerNotRemoved(slot),
        };
        machine.handle_outcome(outcome, now.monotonic);
        let asked = effects(&mut machine, &mut pods, now);
        machine.debug_check(&pods);
        assert_eq!(
            asked.iter().any(is_creation),
            is_removed,
            "{mode:?}: {asked:?}"
        );
    }
}
