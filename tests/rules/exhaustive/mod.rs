//! Searches the counting protocol exhaustively: every order of its steps, for a few small Jobs.
//!
//! `protocol` models the protocol at its bound. Here the real machine runs, with fewer Pods and less trouble, and
//! `lockstep.rs` compares it with that model. Server, watch and shell are minimal (`server.rs`, `shell.rs`,
//! `world.rs`).
//!
//! A step is a single event. The watch delivers its next event of a kind, or the controller has a turn. A write is
//! carried out; its response arrives, is late or is lost. A Pod advances, a user deletes, or the controller crashes.
//! `judge.rs` has the invariants. A violation is printed with the shortest history that leads to it.

#![expect(clippy::print_stdout, reason = "the number of situations is told")]

mod judge;
mod lockstep;
mod protocol;
mod search;
mod server;
mod shared;
mod shell;
mod world;

use std::time::{Duration, Instant};

use lakh::model::{CompletionMode, Exponential, Job, JobSpec, Limits};

use crate::common::{policies::set_spec, words::plain_job};

use self::{
    search::search,
    server::FATAL,
    world::{Config, Troubles},
};

/// No trouble.
const NONE: Troubles = Troubles {
    crashes: 0,
    faults: 0,
    deletions: 0,
    job_deletions: 0,
};

/// A Job that fails with its second failed Pod, and the trouble that may happen to it. There are at most three Pods.
fn config(mode: CompletionMode, completions: u32, parallelism: u32, troubles: Troubles) -> Config {
    // Nothing ever waits, so time stands still.
    let never = Exponential {
        base: Duration::ZERO,
        max: Duration::ZERO,
    };
    Config {
        spec: JobSpec {
            mode,
            completions: Some(completions),
            parallelism,
            backoff_limit: 1,
            ..JobSpec::default()
        },
        limits: Limits {
            sync_batch_period: Duration::ZERO,
            pod_failure_backoff: never,
            retry_backoff: never,
            max_uncounted_pods: 500,
            max_pod_writes: 3,
            alone_after: None,
        },
        pods: 3,
        troubles,
        exits: &[0, 1],
        running: false,
    }
}

/// Searches all histories and prints their number.
fn check(title: &str, config: &Config) {
    let began = Instant::now();
    let job = Job {
        spec: config.spec.clone(),
        ..plain_job()
    };
    let found = search(config, &job);
    println!(
        "{title}: {} situations, {} steps between them, {} ends, {} with too many Pods, {} rounds deep; \
         {} different turns, {} of them with the model; {:.1?}",
        found.states,
        found.transitions,
        found.ends,
        found.cut,
        found.depth,
        found.turns,
        found.compared,
        began.elapsed()
    );
    if let Some(violation) = found.violation {
        panic!("{title}: {violation}");
    }
    assert!(found.ends > 0, "{title}: nothing ever ended");
    assert!(found.compared > 0, "{title}: the model never went along");
}

/// One Pod that succeeds. Trouble may cause another one.
fn one_pod(mode: CompletionMode, troubles: Troubles) -> Config {
    Config {
        pods: 2,
        exits: &[0],
        ..config(mode, 1, 1, troubles)
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization")]
fn two_indexes_one_after_the_other() {
    check("two indexes", &config(CompletionMode::Indexed, 2, 1, NONE));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization")]
fn two_indexes_at_once() {
    let config = Config {
        exits: &[0],
        ..config(CompletionMode::Indexed, 2, 2, NONE)
    };
    check("two indexes at once", &config);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization")]
fn a_policy_that_fails_the_job() {
    let mut config = Config {
        exits: &[0, FATAL],
        ..config(CompletionMode::Indexed, 2, 2, NONE)
    };
    set_spec(&mut config.spec, "failure", &format!("FailJob/In/{FATAL}"));
    check("FailJob, two indexes at once", &config);
}

#[test]
fn two_faults() {
    for mode in [CompletionMode::Indexed, CompletionMode::NonIndexed] {
        let troubles = Troubles { faults: 2, ..NONE };
        check(&format!("{mode:?}, two faults"), &one_pod(mode, troubles));
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization")]
fn two_indexes_at_once_and_a_fault() {
    let config = Config {
        exits: &[0],
        ..config(
            CompletionMode::Indexed,
            2,
            2,
            Troubles { faults: 1, ..NONE },
        )
    };
    check("two indexes at once, a fault", &config);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization")]
fn a_crash() {
    for mode in [CompletionMode::Indexed, CompletionMode::NonIndexed] {
        let troubles = Troubles { crashes: 1, ..NONE };
        check(&format!("{mode:?}, a crash"), &one_pod(mode, troubles));
    }
}

/// One Pod that succeeds, or that a user deletes: then the Job has failed, and no other Pod is created.
fn only_pod(mode: CompletionMode, troubles: Troubles) -> Config {
    let mut config = one_pod(mode, troubles);
    config.pods = 1;
    config.spec.backoff_limit = 0;
    config
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization")]
fn a_deletion() {
    for mode in [CompletionMode::Indexed, CompletionMode::NonIndexed] {
        for (deletions, job_deletions) in [(1, 0), (0, 1)] {
            let troubles = Troubles {
                deletions,
                job_deletions,
                ..NONE
            };
            let title =
                format!("{mode:?}, deletions of Pods: {deletions}, of the Job: {job_deletions}");
            check(&title, &only_pod(mode, troubles));
        }
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization")]
fn a_fault_with_other_trouble() {
    for (crashes, deletions, job_deletions) in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
        let troubles = Troubles {
            crashes,
            faults: 1,
            deletions,
            job_deletions,
        };
        let title = format!(
            "a fault, crashes: {crashes}, deletions of Pods: {deletions}, of the Job: {job_deletions}"
        );
        check(&title, &only_pod(CompletionMode::Indexed, troubles));
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes without optimization")]
fn all_trouble() {
    for mode in [CompletionMode::Indexed, CompletionMode::NonIndexed] {
        let troubles = Troubles {
            crashes: 2,
            faults: 2,
            deletions: 1,
            job_deletions: 0,
        };
        check(&format!("{mode:?}, all trouble"), &only_pod(mode, troubles));
    }
}
