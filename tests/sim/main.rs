//! Runs the whole, unmodified controller in a world of virtual time, and checks its behaviour with judges.
//!
//! `cargo test --release --test sim` plays the seeds that failed once, and fresh ones. Environment variables:
//! - `SIM_SEEDS`: number of fresh seeds.
//! - `SIM_BASE`: the first fresh seed.
//! - `SIM_SEED`: play only this seed and print each step.
//! - `SIM_KEPT`: the same for a seed of `kept_seeds.txt`, in the scenario as it was before scenarios were widened.
//! - `SIM_ELECTIONS`, `SIM_ELECTION`: number and single seed of scenarios in which one of two controllers leads.
//! - `SIM_SHARINGS`, `SIM_SHARING`: the same where three controllers share the namespaces.
//! - `SIM_THIRD_PARTIES`, `SIM_THIRD_PARTY`: the same where third parties write to Jobs.
//! - `SIM_PROFILES`: names of profiles, separated by commas.
//! - `SIM_FIRST`: stop at the first failure.
//! - `SIM_WHOLE`: do not shorten the failing scenario.
//!
//! See docs/simulator.md.

#![expect(
    clippy::print_stdout,
    reason = "seeds and findings are told whoever runs it"
)]

mod casting;
mod deeds;
mod dice;
mod judges;
mod nodes;
mod replica;
mod server;
mod shrink;
mod third_parties;
mod throughput;
mod wider;
mod world;

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use casting::{Profile, Scenario, TROUBLE_ENDS};
use deeds::Deed;
use judges::Judges;
use mimalloc::MiMalloc;
use world::{Finding, World};

/// The binary's allocator. A world allocates so many small strings that it runs a sixth faster with it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Time for everything to end after the last fault, in milliseconds. Backoffs grow to minutes.
const SETTLES_IN: u64 = 1_500_000;

/// Time for which CronJobs keep running after the last fault, in milliseconds.
const RUNS_GO_ON: u64 = 400_000;

/// Plays a scenario to its end and returns the number of steps.
fn play(scenario: Scenario) -> Result<u64, Finding> {
    let mut world = World::new(scenario);
    let told = play_in(&mut world);
    told.map(|()| world.steps)
}

fn play_in(world: &mut World) -> Result<(), Finding> {
    let played = catch_unwind(AssertUnwindSafe(|| {
        world.run_until(TROUBLE_ENDS)?;
        world.calm_down();
        world.run_until(TROUBLE_ENDS + RUNS_GO_ON)?;
        Judges::judge_runs(world)?;
        world.carry_out(&Deed::SuspendCronJob(true));
        world.run_until(TROUBLE_ENDS + SETTLES_IN + world.scenario.lasts)?;
        Judges::judge_the_end(world)
    }));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Finding {
            judge: "panic",
            text: text.unwrap_or_default(),
        })
    })
}

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the profiles of the scenarios: those of `SIM_PROFILES`, or all.
fn profiles() -> Vec<Profile> {
    let Ok(names) = std::env::var("SIM_PROFILES") else {
        return Profile::ALL.to_vec();
    };
    let named = |profile: &Profile| {
        let name = format!("{profile:?}");
        names.split(',').any(|one| one == name)
    };
    Profile::ALL.into_iter().filter(named).collect()
}

/// Returns the commit under test, which a repetition of the history needs.
fn commit() -> String {
    let git = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .output();
    let told = git.ok().filter(|output| output.status.success());
    told.map_or("unknown".to_owned(), |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}

/// Plays a seed and prints each step.
fn tell(seed: u64, scenario: Scenario) {
    println!("seed {seed}, profiles {:?}", scenario.profiles);
    let found = play(scenario.clone()).err();
    let scenario = match &found {
        Some(finding) if setting::<u32>("SIM_WHOLE").is_none() => {
            shrink::shrink(&scenario, finding).0
        }
        _ => scenario,
    };
    let mut world = World::new(scenario);
    world.log = Some(String::new());
    let found = play_in(&mut world);
    println!("{}", world.log.take().unwrap_or_default());
    for (at, deed) in &world.scenario.deeds {
        println!("{:>9.3} {deed:?}", *at as f64 / 1000.0);
    }
    println!("{} steps: {found:?}", world.steps);
    assert!(found.is_ok(), "seed {seed}");
}

/// Plays many seeds on all cores and prints a summary.
fn play_seeds(name: &str, seeds: Vec<u64>, cast: impl Fn(u64) -> Scenario + Sync) {
    let began = Instant::now();
    let (next, steps, short) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let failed: Mutex<BTreeMap<u64, Finding>> = Mutex::default();
    let is_first_enough = setting::<u32>("SIM_FIRST").is_some();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed) as usize;
                    let Some(seed) = seeds.get(at) else {
                        return;
                    };
                    match play(cast(*seed)) {
                        Ok(count) => {
                            steps.fetch_add(count, Ordering::Relaxed);
                            short.fetch_add(u64::from(count < 200), Ordering::Relaxed);
                        }
                        Err(finding) => {
                            let mut failed = failed.lock().expect("no thread panics");
                            failed.insert(*seed, finding);
                            if is_first_enough {
                                next.store(seeds.len() as u64, Ordering::Relaxed);
                            }
                        }
                    }
                }
            });
        }
    });
    let took = began.elapsed().as_secs_f64();
    let steps = steps.into_inner();
    let failed = failed.into_inner().expect("no thread panics");
    println!(
        "{} seeds, {steps} steps in {took:.1} s: {:.0} steps a second, {} seeds of fewer than 200 steps",
        seeds.len(),
        steps as f64 / took,
        short.into_inner(),
    );
    for (seed, finding) in &failed {
        let of = cast(*seed).profiles;
        println!("{name}={seed} {of:?}: {}: {}", finding.judge, finding.text);
    }
    if let Some((seed, finding)) = failed.first_key_value().filter(|_| !is_first_enough) {
        println!("commit {}", commit());
        let (short, found) = shrink::shrink(&cast(*seed), finding);
        println!("seed {seed} in short: {}: {}", found.judge, found.text);
        for (at, deed) in &short.deeds {
            println!("{:>9.3} {deed:?}", *at as f64 / 1000.0);
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} seeds failed",
        failed.len(),
        seeds.len()
    );
}

/// Parses a file of seeds. Each line holds a seed and the finding.
fn kept(lines: &str) -> Vec<u64> {
    let lines = lines.lines();
    let lines = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
    let seeds = lines.map(|line| {
        let seed = line.split_whitespace().next().unwrap_or_default();
        seed.parse().expect("a line begins with a seed")
    });
    seeds.collect()
}

#[test]
fn seeds_that_failed_once() {
    let profiles = profiles();
    let seeds = kept(include_str!("kept_seeds.txt"));
    let cast = |seed| Scenario::cast(seed, &profiles);
    if let Some(seed) = setting("SIM_KEPT") {
        tell(seed, cast(seed));
        return;
    }
    play_seeds("SIM_KEPT", seeds, cast);
}

#[test]
fn wide_seeds_that_failed_once() {
    let profiles = profiles();
    let seeds = kept(include_str!("kept_wide.txt"));
    play_seeds("SIM_SEED", seeds, |seed| {
        Scenario::cast_wide(seed, &profiles)
    });
}

#[test]
fn elections_that_failed_once() {
    let seeds = kept(include_str!("kept_elections.txt"));
    play_seeds("SIM_ELECTION", seeds, Scenario::cast_election);
}

/// Plays the seed of variable `one` if it is set, and otherwise as many fresh seeds as variable `many` sets.
fn play_fresh([one, many]: [&str; 2], usual: u64, cast: impl Fn(u64) -> Scenario + Sync) {
    if let Some(seed) = setting(one) {
        tell(seed, cast(seed));
        return;
    }
    let fresh = RandomState::new().hash_one("a fresh seed") >> 16;
    let base = setting("SIM_BASE").unwrap_or(fresh);
    let count = setting(many).unwrap_or(usual);
    println!("SIM_BASE={base} {many}={count}");
    play_seeds(one, (base..base + count).collect(), cast);
}

#[test]
fn fresh_seeds() {
    let profiles = profiles();
    play_fresh(["SIM_SEED", "SIM_SEEDS"], 60, |seed| {
        Scenario::cast_wide(seed, &profiles)
    });
}

#[test]
fn elections() {
    play_fresh(
        ["SIM_ELECTION", "SIM_ELECTIONS"],
        30,
        Scenario::cast_election,
    );
}

#[test]
fn sharings() {
    play_fresh(["SIM_SHARING", "SIM_SHARINGS"], 30, Scenario::cast_sharing);
}

#[test]
fn third_parties() {
    play_fresh(
        ["SIM_THIRD_PARTY", "SIM_THIRD_PARTIES"],
        60,
        Scenario::cast_third_parties,
    );
}
