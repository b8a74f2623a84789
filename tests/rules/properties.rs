//! Runs random histories of Jobs, Pod claims, CronJobs and TTLs, and checks invariants and the end state.
//!
//! A seed determines a history. A failure prints its seed; `LAKH_SEED=<seed>` runs that history alone and prints all of
//! it. `LAKH_HISTORIES=<n>` runs n fresh histories.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "seeds are told, and the histories of failures"
)]

use std::{
    collections::BTreeMap,
    env,
    hash::{BuildHasher, RandomState},
    panic::{self, AssertUnwindSafe},
    time::Duration,
};

use lakh::model::{
    CompletionMode, ConditionKind, Exponential, IndexSet, Job, JobSpec, Limits, PerIndexLimit,
    PodFlags, PodPhase, PodRecord, PodReplacement, RestartPolicy,
};

use crate::common::{
    claims_world::ClaimsWorld,
    cron_world::CronWorld,
    policies::set_spec,
    ttl_world::TtlWorld,
    words::plain_job,
    world::{Dice, Odds, World},
};

/// Seeds that always run, without `vary`: the first few, and those that found a bug.
const FIXED: &[u64] = &[
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    5_015_675_139_551_072_625,
    2_987_491_157_752_504_423,
    1_778_532_661_143_009_628,
];

#[test]
fn histories_hold_to_the_rules_and_come_to_an_end() {
    if let Some(seed) = number("LAKH_SEED") {
        history(seed, true);
        return;
    }
    let fresh = RandomState::new().hash_one("a fresh seed");
    let count = number("LAKH_HISTORIES").unwrap_or(300);
    println!("fresh seeds: {count} from {fresh} on");
    let fresh = (0..count).map(|at| fresh.wrapping_add(at));
    let mut ends: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in FIXED.iter().copied().chain(fresh) {
        match panic::catch_unwind(AssertUnwindSafe(|| history(seed, false))) {
            Ok(end) => *ends.entry(end).or_default() += 1,
            Err(_) => panic!("replay with LAKH_SEED={seed}"),
        }
    }
    println!("{ends:?}");
    for end in ["Complete", "Failed", "waits", "gone"] {
        assert!(
            count < 300 || ends.contains_key(end),
            "no history ended so: {end}"
        );
    }
}

#[test]
fn claims_reach_the_expected_result() {
    each_seed(|seed, _| {
        let mut dice = Dice(seed);
        let steps = 50 + dice.below(500);
        let mut world = ClaimsWorld::new(dice);
        (0..steps).for_each(|_| world.step());
        world.rest();
    });
}

#[test]
fn cron_jobs_run_when_they_are_to() {
    let mut started = 0;
    let count = each_seed(|seed, tell| {
        let mut dice = Dice(seed);
        let steps = 100 + dice.below(1500);
        let mut world = CronWorld::new(dice);
        let run = panic::catch_unwind(AssertUnwindSafe(|| {
            (0..steps).for_each(|_| world.step());
            world.rest();
        }));
        started += world.started as u64;
        told(run, tell, &world.ground.log);
    });
    assert!(count < 300 || started > count, "few runs: {started}");
}

#[test]
fn finished_jobs_go_in_their_time_and_no_others() {
    let mut deleted = 0;
    let count = each_seed(|seed, tell| {
        let mut dice = Dice(seed);
        let steps = 50 + dice.below(500);
        let mut world = TtlWorld::new(dice);
        let run = panic::catch_unwind(AssertUnwindSafe(|| {
            (0..steps).for_each(|_| world.step());
            world.rest();
        }));
        deleted += world.deleted as u64;
        told(run, tell, &world.ground.log);
    });
    assert!(count < 300 || deleted > count, "few deletions: {deleted}");
}

/// Runs a history for the given seed, or for fresh ones. Returns the number of histories.
fn each_seed(mut history: impl FnMut(u64, bool)) -> u64 {
    let one = number("LAKH_SEED");
    let count = one.map_or_else(|| number("LAKH_HISTORIES").unwrap_or(300), |_| 1);
    let first = one.unwrap_or_else(|| RandomState::new().hash_one("a fresh seed"));
    println!("seeds: {count} from {first} on");
    for seed in (0..count).map(|at| first.wrapping_add(at)) {
        let run = panic::catch_unwind(AssertUnwindSafe(|| history(seed, one.is_some())));
        assert!(run.is_ok(), "replay with LAKH_SEED={seed}");
    }
    count
}

/// Prints the whole history on request, or the end of a failed one.
fn told(run: std::thread::Result<()>, tell: bool, log: &[String]) {
    if tell || run.is_err() {
        let from = if tell {
            0
        } else {
            log.len().saturating_sub(60)
        };
        eprintln!("{}", log[from..].join("\n"));
    }
    run.unwrap_or_else(|cause| panic::resume_unwind(cause));
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Runs one history, with faults first and then without. Returns its outcome.
fn history(seed: u64, tell: bool) -> &'static str {
    let mut dice = Dice(seed);
    let job = random_job(&mut dice);
    let limits = random_limits(&mut dice);
    let mut odds = random_odds(&mut dice);
    if !FIXED.contains(&seed) {
        odds = vary(odds, seed);
    }
    let steps = 50 + dice.below(600);
    let mut world = World::new(job, limits, odds, dice);
    let run = panic::catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..steps {
            world.step();
        }
        world.log.push("from here on all is well".to_owned());
        assert!(world.heal(), "no rest");
        let end = check_end(&world);
        world.log.push("a second look".to_owned());
        world.look_again();
        end
    }));
    if tell || run.is_err() {
        let shown = if tell {
            0
        } else {
            world.log.len().saturating_sub(60)
        };
        eprintln!("{}", world.log[shown..].join("\n"));
        eprintln!("{:#?}", world.server.job);
    }
    run.unwrap_or_else(|cause| panic::resume_unwind(cause))
}

/// Checks that a Job without work left has ended, is gone or being deleted, or waits for a user.
fn check_end(world: &World) -> &'static str {
    let job = &world.server.job;
    let status = &job.status;
    let held = world
        .server
        .pods
        .values()
        .filter(|pod| pod.record.has(PodFlags::FINALIZER));
    if world.is_job_gone() {
        assert_eq!(held.count(), 0, "Pods of a Job that is gone are held");
        return "gone";
    }
    world.judge.reason(job);
    if status.true_condition(ConditionKind::Complete).is_some() {
        world.judge.completed(job);
    }
    if status.is_finished() {
        assert_eq!(held.count(), 0, "Pods of a Job that has ended are held");
        let complete = status.true_condition(ConditionKind::Complete).is_some();
        return if complete { "Complete" } else { "Failed" };
    }
    assert!(
        status.uncounted.as_ref().is_none_or(|list| list.is_empty()),
        "Pods wait to be counted"
    );
    let kept = held.filter(|pod| !is_kept(job, &pod.record));
    assert_eq!(kept.count(), 0, "Pods are held");
    if job.deleting {
        return "deleting";
    }
    let waits = job.spec.suspend || job.spec.parallelism == 0;
    assert!(waits, "neither ended nor waiting for people");
    if job.spec.suspend {
        let suspended = status.true_condition(ConditionKind::Suspended).is_some();
        assert!(suspended, "suspended and does not say so");
    }
    assert_eq!(status.active, 0);
    "waits"
}

/// Returns true if a failed Pod keeps its finalizer until its index has a new Pod.
fn is_kept(job: &Job, pod: &PodRecord) -> bool {
    let over = |text: &str| {
        let completions = job.spec.completions.unwrap_or(0);
        let indexes = IndexSet::parse(text, completions);
        pod.index.is_none_or(|index| indexes.contains(index.get()))
    };
    let status = &job.status;
    job.spec.per_index.is_some()
        && !job.deleting
        && pod.phase == PodPhase::Failed
        && !over(&status.completed_indexes)
        && !over(status.failed_indexes.as_deref().unwrap_or(""))
}

fn random_job(dice: &mut Dice) -> Job {
    let mut small = |end| u32::try_from(dice.below(end)).expect("small");
    let mode = small(3);
    let parallelism = small(6);
    let completions = match mode {
        0 => None,
        _ => Some(small(12)),
    };
    let elastic = mode == 2 && small(2) == 0;
    let spec = JobSpec {
        parallelism: if elastic {
            completions.unwrap_or(0)
        } else {
            parallelism
        },
        completions,
        mode: match mode {
            2 => CompletionMode::Indexed,
            _ => CompletionMode::NonIndexed,
        },
        backoff_limit: small(8),
        active_deadline: (small(5) == 0).then(|| Duration::from_secs(u64::from(small(200)))),
        ttl_after_finished: None,
        suspend: small(8) == 0,
        restart_policy: match small(4) {
            0 => RestartPolicy::OnFailure,
            _ => RestartPolicy::Never,
        },
        pod_replacement: match small(3) {
            0 => PodReplacement::Failed,
            _ => PodReplacement::TerminatingOrFailed,
        },
        ..JobSpec::default()
    };
    let spec = with_policies(spec, dice);
    Job {
        spec,
        ..plain_job()
    }
}

fn with_policies(mut spec: JobSpec, dice: &mut Dice) -> JobSpec {
    let indexed = spec.completions.filter(|_| spec.is_indexed());
    let mut small = |end| u32::try_from(dice.below(end)).expect("small");
    if small(3) == 0 {
        let rules = "Ignore/DisruptionTarget;Ignore/In/2;Later/In/1;FailIndex/In/3;FailJob/In/4";
        let rules = if small(6) == 0 { "empty" } else { rules };
        set_spec(&mut spec, "failure", rules);
    }
    if indexed.is_some() && small(2) == 0 {
        spec.per_index = Some(PerIndexLimit {
            backoff_limit: small(4),
            max_failed_indexes: (small(2) == 0).then(|| small(6)),
        });
        spec.backoff_limit = if small(3) == 0 { small(8) } else { u32::MAX };
    }
    if indexed.is_some() && small(3) == 0 {
        let rules = ["0-2/2;4", "1,3", "/3", "9-11/1;/5"][small(4) as usize];
        set_spec(&mut spec, "success", rules);
    }
    spec
}

fn random_limits(dice: &mut Dice) -> Limits {
    let secs = Duration::from_secs;
    Limits {
        max_uncounted_pods: u32::try_from(1 + dice.below(8)).expect("small"),
        max_pod_writes: u32::try_from(1 + dice.below(8)).expect("small"),
        pod_failure_backoff: Exponential {
            base: secs(1 + dice.below(10)),
            max: secs(60),
        },
        ..Limits::default()
    }
}

fn random_odds(dice: &mut Dice) -> Odds {
    let mut some = |most: u64| match dice.below(2) {
        0 => 0,
        _ => dice.below(most),
    };
    Odds {
        refused: some(30),
        lost: some(30),
        pod_fails: some(60),
        restarts: some(10),
        crash: some(30),
        user: some(40),
        vanish: some(10),
        spec: some(60),
        gone: some(4),
        ..Odds::default()
    }
}

/// One history in four is calm, so that the judge can be strict: Pods fail and writes are refused, but no user
/// interferes. Half of the others adopt Pods that the machine did not create. In all of them the watch may repeat
/// events and the clock may be set back. In most of them a turn takes only a few changed Pods.
fn vary(mut odds: Odds, seed: u64) -> Odds {
    let mut dice = Dice(!seed);
    if dice.below(4) == 0 {
        odds = Odds {
            refused: odds.refused,
            pod_fails: dice.below(60),
            restarts: odds.restarts,
            ..Odds::default()
        };
    } else if dice.below(2) == 0 {
        odds.adopted = dice.below(10);
    }
    odds.repeated = dice.below(30);
    odds.bite = dice.below(4);
    odds.clock = dice.below(10);
    odds
}
