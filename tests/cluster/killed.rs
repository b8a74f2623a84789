//! Kills the controller at random moments of the main job and starts it again. The result must be the same.
//!
//! `LAKH_SEED` repeats the moments of a failed run.

#![allow(clippy::print_stdout, reason = "a failure must be repeatable")]

use std::{
    hash::{BuildHasher as _, RandomState},
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use lakh::embedded::{EmbeddedCluster, apiserver::Kind};
use serde_json::json;

use crate::support::{self, PATIENCE, check_pods_of_complete_job, create, indexed_job, is, pods};

const ROUNDS: u64 = 20;
const INDEXES: u32 = 10_000;

/// Changes of a Pod during the run: it is created, bound, ends, and loses its finalizer.
const CHANGES_OF_A_POD: u64 = 4;

/// Some controllers are killed while they start, and have written little or nothing by then.
const LONGEST_START: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_moment_and_started_again() {
    let seed = std::env::var("LAKH_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one("moments"));
    println!("LAKH_SEED={seed}");
    let mut moments = Vec::new();
    for round in 0..ROUNDS {
        moments.push(killed_run(seed.wrapping_add(round)).await);
    }
    println!("Pods made and freed when killed, by round: {moments:?}");
    let kills = moments.iter().flatten();
    let midway = kills.filter(|(made, freed)| *made > 0 && *freed < INDEXES as usize);
    assert!(
        midway.clone().count() >= ROUNDS as usize,
        "few kills hit the run: {moments:?}"
    );
    let among_finalizers = midway.filter(|(_, freed)| *freed > 0);
    assert!(
        among_finalizers.count() >= ROUNDS as usize / 2,
        "few kills came after the first finalizers went: {moments:?}"
    );
}

/// Runs the Job with one to three kills. Returns, for each kill, the number of Pods, and of Pods without finalizer. The
/// number of writes decides the moments, so that they do not depend on the machine's speed.
async fn killed_run(seed: u64) -> Vec<(usize, usize)> {
    let cluster = support::cluster(Duration::ZERO).await;
    let (_folder, kubeconfig) = support::kubeconfig(&cluster);
    let client = support::client(&cluster).await;
    create(&client, &indexed_job("main", INDEXES, 1000)).await;

    let mut dice = seed;
    let mut moments: Vec<u64> = (0..1 + next(&mut dice) % 3)
        .map(|_| next(&mut dice) % (CHANGES_OF_A_POD * u64::from(INDEXES)))
        .collect();
    moments.sort_unstable();
    let mut changes = cluster.server().api().changes(Kind::Pod);
    let mut killed_at = Vec::new();
    for changed in moments {
        let mut controller = start(&kubeconfig);
        if next(&mut dice).is_multiple_of(4) {
            let life = next(&mut dice) % LONGEST_START.as_millis() as u64;
            tokio::time::sleep(Duration::from_millis(life)).await;
        } else {
            let reached = changes.wait_for(|end| *end >= changed);
            let reached = tokio::time::timeout(PATIENCE, reached).await;
            reached
                .expect("the Job goes on")
                .expect("the server serves");
            // On a fast machine most Pods have ended before a status permits the first removal of a finalizer.
            if next(&mut dice).is_multiple_of(2) {
                until_freed(&cluster).await;
            }
        }
        controller.kill().expect("SIGKILL");
        controller.wait().expect("it ends");
        killed_at.push(made_and_freed(&cluster));
    }
    let mut last = start(&kubeconfig);
    let job = support::job_when(&client, "main", |job| is(job, "Complete")).await;
    last.kill().expect("SIGKILL");
    last.wait().expect("it ends");

    let status = &job["status"];
    assert_eq!(status["completedIndexes"], "0-9999");
    assert_eq!(status["succeeded"], INDEXES);
    assert_eq!(status["failed"], serde_json::Value::Null);
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    let pods = pods(&client).await;
    assert_eq!(pods.len(), INDEXES as usize, "a Pod too many or too few");
    check_pods_of_complete_job(&pods, INDEXES as usize);
    cluster.shutdown().await;
    killed_at
}

fn start(kubeconfig: &Path) -> Child {
    let kubeconfig = kubeconfig.display().to_string();
    support::lakh(&[
        "controller",
        "--mode=replace",
        // A killed controller does not release its Lease.
        "--leader-elect=false",
        "--kubeconfig",
        &kubeconfig,
        "--listen",
        "127.0.0.1:0",
    ])
    .stderr(Stdio::inherit())
    .spawn()
    .expect("the binary runs")
}

/// Waits for a Pod without finalizer.
async fn until_freed(cluster: &EmbeddedCluster) {
    let freed = async {
        while made_and_freed(cluster).1 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let freed = tokio::time::timeout(PATIENCE, freed).await;
    freed.expect("the Job goes on");
}

fn made_and_freed(cluster: &EmbeddedCluster) -> (usize, usize) {
    let (pods, _) = cluster.server().api().objects(Kind::Pod);
    let freed = pods.iter().filter(|pod| pod.finalizers.is_empty());
    (pods.len(), freed.count())
}

/// A small generator: SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
