//! Runs random scripts and checks invariants; at the end of each, nothing is left to do.
//!
//! The stage asserts the invariants on each write: no second write in flight, no ended Pod that runs again, no delete
//! before the end.

use std::{sync::Arc, time::Duration};

use serde_json::json;

use super::stage::Stage;
use crate::{
    kubelet::{KubeletOptions, format_go_duration},
    rng::Rng,
};

#[test]
fn whatever_happens_every_pod_comes_to_its_end_and_is_forgotten() {
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let mut stage = Stage::new(options(&mut rng, seed));
        let mut millis = 0;
        for step in 0..STEPS {
            millis += rng.next() % 800;
            play(&mut stage, &format!("until {}", time(millis)));
            let command = random_command(&mut rng, &stage, step);
            play(&mut stage, &command);
        }
        wind_up(&mut stage, millis);
        assert_eq!(stage.kubelet.pods_remembered(), 0, "seed {seed}");
        assert_eq!(stage.kubelet.poll_timeout(), None, "seed {seed}");
    }
}

fn options(rng: &mut Rng, seed: u64) -> KubeletOptions {
    let mut some_time = || Duration::from_millis(rng.next() % 3 * 700);
    KubeletOptions {
        default_duration: some_time(),
        startup_latency: some_time(),
        stop_delay: some_time(),
        fail_rate: 0.4,
        seed,
        stages: random_stages(rng),
        restart_backoff: Duration::from_millis(300),
        ..KubeletOptions::with_nodes(2)
    }
}

/// Returns a few stages that cover all fields; none for every other seed.
fn random_stages(rng: &mut Rng) -> Arc<[crate::kubelet::Stage]> {
    let causes = [
        "NodePressureEviction",
        "EphemeralStorageLimit",
        "SchedulerPreemption",
        "ApiEviction",
        "NodeLoss",
    ];
    let count = (rng.next() % 2) * (rng.next() % 4);
    let stage = |nth: u64| {
        let mut time = |most: u64| format!("{}ms", rng.next() % most);
        let mut spec = json!({
            "probability": 0.5,
            "ready": {"delay": time(900)},
            "end": {"delay": time(2000), "jitter": time(900), "exitCode": nth % 2},
            "stop": {"delay": time(2000), "exitCode": nth % 3},
            "sidecars": [{"name": "s", "delay": time(3000), "exitCode": nth % 3}],
            "pods": {"restarts": "0-2"},
        });
        let cause = causes.get(rng.next() as usize % (causes.len() + 3));
        if let Some(cause) = cause {
            let delay = format!("{}ms", rng.next() % 2000);
            spec["disruption"] = json!({"delay": delay, "cause": cause});
        }
        super::stages::stage(&format!("s{nth}"), spec)
    };
    (0..count).map(stage).collect()
}

fn random_command(rng: &mut Rng, stage: &Stage, step: u64) -> String {
    let names = stage.living();
    let name = names.get(rng.next() as usize % names.len().max(1)).cloned();
    match (rng.next() % 10, name) {
        (0..=3, _) | (_, None) => {
            let settings = [
                "",
                "restart=OnFailure",
                "deadline=1",
                "gate=g",
                "inits=i",
                "inits=s!,i,t!",
            ];
            let more = [
                "",
                "node=hollow-1",
                "fail-attempts=1 job=j",
                "init-exit-code=1",
            ];
            let pick =
                |rng: &mut Rng, from: &[&str]| from[rng.next() as usize % from.len()].to_owned();
            format!("pod p{step} {} {}", pick(rng, &settings), pick(rng, &more))
        }
        (4, Some(name)) => format!("refuse {name} 2"),
        (5, Some(_)) if stage.is_holding() => "release".to_owned(),
        (5, Some(_)) => "hold".to_owned(),
        (6, Some(name)) => format!("ungate {name}"),
        (7, Some(name)) => format!("gone {name}"),
        (_, Some(name)) => format!("delete {name} {}", rng.next() % 3),
    }
}

/// Ends all faults and deletes all Pods, then advances the time until nothing more can happen.
fn wind_up(stage: &mut Stage, millis: u64) {
    if stage.is_holding() {
        play(stage, "release");
    }
    for name in stage.living() {
        play(stage, &format!("ungate {name}"));
        play(stage, &format!("delete {name} 30"));
    }
    play(stage, &format!("until {}", time(millis + 600_000)));
    // A Pod deleted before it was bound has no kubelet; only the API server can remove it.
    for name in stage.unbound() {
        play(stage, &format!("gone {name}"));
    }
}

fn play(stage: &mut Stage, command: &str) {
    stage.command(command);
    stage.drain();
}

fn time(millis: u64) -> String {
    format_go_duration(Duration::from_millis(millis))
}

/// Enough to meet every pair of events many times, in about a second.
const SEEDS: u64 = 100;
const STEPS: u64 = 40;
