//! Tests nodes with a capacity: waiting Pods and their reports, rejected Pods, and the sums of resources.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::stage::{Stage, check};
use crate::model::Time;
use crate::{
    kubelet::{KubeletOptions, format_go_duration, node_objects},
    rng::Rng,
};

fn with_room(nodes: usize, capacity: &str) -> KubeletOptions {
    KubeletOptions {
        capacity: Some(capacity.parse().expect("a capacity")),
        default_duration: Duration::from_secs(10),
        ..KubeletOptions::with_nodes(nodes)
    }
}

#[test]
fn the_oldest_pod_is_bound_first_and_a_misfit_blocks_no_other() {
    check(
        with_room(2, "cpu=1"),
        "pod a cpu=600m
         pod b cpu=1
         pod c cpu=500m
         pod d cpu=500m
         pod e cpu=400m
         until 1s
         gone d
         until 30s",
        "0s a bind hollow-0
         0s a Running [c running] ready
         0s b bind hollow-1
         0s b Running [c running] ready
         0s c event FailedScheduling: 0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.
         0s c marked Unschedulable
         0s d event FailedScheduling: 0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.
         0s d marked Unschedulable
         0s e bind hollow-0
         0s e Running [c running] ready
         10s a Succeeded [c 0:Completed]
         10s b Succeeded [c 0:Completed]
         10s e Succeeded [c 0:Completed]
         10s c bind hollow-1
         10s c Running [c running] ready
         20s c Succeeded [c 0:Completed]",
    );
}

#[test]
fn a_pod_that_fits_nowhere_stays_pending_with_a_reason() {
    check(
        with_room(3, "cpu=1,pods=1"),
        "pod huge cpu=2
         pod a
         pod b
         pod c
         pod d cpu=1500m
         pod e
         lose hollow-0
         lose hollow-1
         lose hollow-2
         pod f cpu=3",
        "0s huge event FailedScheduling: 0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.
         0s huge marked Unschedulable
         0s a bind hollow-0
         0s a Running [c running] ready
         0s b bind hollow-1
         0s b Running [c running] ready
         0s c bind hollow-2
         0s c Running [c running] ready
         0s d event FailedScheduling: 0/3 nodes are available: 3 Insufficient cpu, 3 Too many pods. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.
         0s d marked Unschedulable
         0s e event FailedScheduling: 0/3 nodes are available: 3 Too many pods. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.
         0s e marked Unschedulable
         0s f event FailedScheduling: no nodes available to schedule pods
         0s f marked Unschedulable",
    );
}

#[test]
fn a_full_node_rejects_pods_bound_by_others() {
    check(
        with_room(1, "cpu=1,pods=2"),
        "pod a cpu=600m node=hollow-0
         pod b cpu=500m node=hollow-0
         pod c node=hollow-0
         pod d node=hollow-0",
        "0s a Running [c running] ready
         0s b event OutOfcpu: Node didn't have enough resource: cpu, requested: 500, used: 600, capacity: 1000
         0s b Failed OutOfcpu
         0s c Running [c running] ready
         0s d event OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2
         0s d Failed OutOfpods",
    );
}

#[test]
fn gates_and_deletions_take_a_pod_out_of_the_line() {
    check(
        with_room(1, "pods=1"),
        "pod a
         pod gated gate=wait
         pod b
         pod c
         delete b 0
         until 1s
         ungate gated
         until 12s
         lose hollow-0
         until 15s
         find hollow-0",
        "0s a bind hollow-0
         0s a Running [c running] ready
         0s b event FailedScheduling: 0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
         0s b marked Unschedulable
         0s c event FailedScheduling: 0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
         0s c marked Unschedulable
         1s gated event FailedScheduling: 0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.
         1s gated marked Unschedulable
         10s a Succeeded [c 0:Completed]
         10s c bind hollow-0
         10s c Running [c running] ready",
    );
}

#[test]
fn a_refused_pod_says_why_in_its_status() {
    let mut stage = Stage::new(with_room(1, "cpu=1"));
    for command in [
        "pod a cpu=800m node=hollow-0",
        "pod b cpu=300m node=hollow-0",
    ] {
        stage.command(command);
        stage.drain();
    }
    let status = &stage.patches["b"]["status"];
    assert_eq!(
        status["message"],
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 300, used: 800, capacity: 1000"
    );
    assert!(status.get("containerStatuses").is_none(), "{status}");
    stage.command("pod c cpu=2");
    stage.drain();
    let condition = &stage.patches["c"]["status"]["conditions"][0];
    assert_eq!(condition["status"], "False");
    assert_eq!(condition["reason"], "Unschedulable");
    let message = condition["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("0/1 nodes are available: 1 Insufficient cpu."),
        "{message}"
    );
}

#[test]
fn nodes_report_their_capacity() {
    let nodes = node_objects(&with_room(1, "cpu=8,pods=110"), Time::from_secs(0));
    assert_eq!(nodes[0]["status"]["allocatable"]["cpu"], "8");
    assert_eq!(nodes[0]["status"]["allocatable"]["pods"], "110");
    assert_eq!(nodes[0]["status"]["capacity"]["memory"], "1Ti");
}

#[test]
fn nodes_are_never_overcommitted_and_fitting_pods_are_bound() {
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let mut stage = Stage::new(KubeletOptions {
            startup_latency: Duration::from_millis(rng.next() % 500),
            fail_rate: 0.2,
            seed,
            restart_backoff: Duration::from_millis(300),
            ..with_room(NODES, "cpu=1,pods=4")
        });
        let mut millis = 0;
        let mut was_refused = false;
        for step in 0..STEPS {
            let command = random_command(&mut rng, &stage, step);
            was_refused |= command.starts_with("refuse");
            play(&mut stage, &command, seed);
            if !was_refused && !stage.is_holding() {
                assert_no_fitting_pod_is_pending(&stage, seed);
            }
            millis += rng.next() % 3000;
            play(&mut stage, &until(millis), seed);
        }
        if stage.is_holding() {
            play(&mut stage, "release", seed);
        }
        play(&mut stage, &until(millis + 100_000_000), seed);
        assert_no_fitting_pod_is_pending(&stage, seed);
    }
}

fn random_command(rng: &mut Rng, stage: &Stage, step: u64) -> String {
    let names = stage.living();
    let name = names.get(rng.next() as usize % names.len().max(1)).cloned();
    match (rng.next() % 16, name) {
        (0..=9, _) | (_, None) => {
            let cpus = ["0", "150m", "400m", "400m", "700m", "1", "1100m"];
            let more = [
                "",
                "",
                "",
                "",
                "gate=g",
                "node=hollow-1",
                "restart=OnFailure",
            ];
            let cpu = cpus[rng.next() as usize % cpus.len()];
            let more = more[rng.next() as usize % more.len()];
            let secs = rng.next() % 20;
            format!("pod p{step} cpu={cpu} duration={secs}s {more}")
        }
        (10, Some(name)) => format!("refuse {name} 2"),
        (11, Some(_)) if stage.is_holding() => "release".to_owned(),
        (11, Some(_)) => "hold".to_owned(),
        (12, Some(name)) => format!("ungate {name}"),
        (13, Some(name)) => format!("gone {name}"),
        (_, Some(name)) => format!("delete {name} {}", rng.next() % 3),
    }
}

fn play(stage: &mut Stage, command: &str, seed: u64) {
    stage.command(command);
    while let Some(write) = stage.kubelet.poll_write() {
        stage.answer(&write);
        for (node, (cpu, pods)) in taken(stage, |pod| pod["status"]["phase"] == "Running") {
            assert!(
                cpu <= 1000 && pods <= 4,
                "seed {seed}: {node} has {pods} Pods, {cpu}m"
            );
        }
    }
}

/// Returns CPU and Pods per node, summed over Pods that have not ended and pass the filter.
fn taken(stage: &Stage, counts: impl Fn(&Value) -> bool) -> BTreeMap<String, (u64, u64)> {
    let mut taken = BTreeMap::new();
    let living = stage.pods().filter(|pod| {
        let phase = &pod["status"]["phase"];
        phase != "Succeeded" && phase != "Failed" && counts(pod)
    });
    for pod in living {
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            let (cpu, pods) = taken.entry(node.to_owned()).or_insert((0, 0));
            *cpu += millis_of_cpu(pod);
            *pods += 1;
        }
    }
    taken
}

fn millis_of_cpu(pod: &Value) -> u64 {
    let text = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"].as_str();
    let text = text.unwrap_or("0");
    match text.strip_suffix('m') {
        Some(millis) => millis.parse().expect("a number"),
        None => text.parse::<u64>().expect("a number") * 1000,
    }
}

/// Asserts that a schedulable Pod without a node fits on no node.
fn assert_no_fitting_pod_is_pending(stage: &Stage, seed: u64) {
    let taken = taken(stage, |_| true);
    for pod in stage.pods() {
        let spec = &pod["spec"];
        let is_gated = spec["schedulingGates"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        let is_deleted = pod["metadata"].get("deletionTimestamp").is_some();
        if spec.get("nodeName").is_some() || is_gated || is_deleted {
            continue;
        }
        for node in 0..NODES {
            let (cpu, pods) = taken
                .get(&format!("hollow-{node}"))
                .copied()
                .unwrap_or((0, 0));
            let fits = pods < 4 && cpu + millis_of_cpu(pod) <= 1000;
            assert!(
                !fits,
                "seed {seed}: {} fits on hollow-{node}",
                pod["metadata"]["name"]
            );
        }
    }
}

fn until(millis: u64) -> String {
    format!(
        "until {}",
        format_go_duration(Duration::from_millis(millis))
    )
}

const NODES: usize = 3;
/// Enough for thousands of waiting Pods, in about a second.
const SEEDS: u64 = 100;
const STEPS: u64 = 60;
