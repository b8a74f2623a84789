//! Tests the kubelet's writes: order, retries, dropped Pods, random choices, numbers.

use std::{collections::BTreeSet, time::Duration};

use super::stage::{DONE, Stage, check, play};
use crate::{
    kubelet::{Action, Kubelet, KubeletOptions},
    model::Time,
};

fn running_for(millis: u64) -> KubeletOptions {
    let default_duration = Duration::from_millis(millis);
    KubeletOptions {
        default_duration,
        ..KubeletOptions::with_nodes(1)
    }
}

#[test]
fn a_refused_write_is_tried_again_later_with_the_latest_truth() {
    check(
        running_for(250),
        "refuse a 2
         pod a
         until 1s",
        "0s a bind hollow-0 (refused)
         100ms a bind hollow-0 (refused)
         300ms a bind hollow-0
         300ms a Running [c running] ready
         550ms a Succeeded [c 0:Completed]",
    );
    check(
        running_for(250),
        "pod a node=hollow-0
         refuse a 3
         until 5s",
        "0s a Running [c running] ready
         250ms a Succeeded [c 0:Completed] (refused)
         350ms a Succeeded [c 0:Completed] (refused)
         550ms a Succeeded [c 0:Completed] (refused)
         950ms a Succeeded [c 0:Completed]",
    );
}

#[test]
fn a_pod_that_is_gone_is_forgotten() {
    let mut stage = Stage::new(running_for(1000));
    for line in [
        "pod a",
        "missing a",
        "until 5s",
        "pod b",
        "gone b",
        "until 20s",
    ] {
        stage.command(line);
        stage.drain();
    }
    assert_eq!(stage.kubelet.pods_remembered(), 0);
    assert_eq!(stage.kubelet.poll_timeout(), None);
}

#[test]
fn only_one_write_is_in_flight_and_later_changes_follow_at_once() {
    check(
        running_for(500),
        "pod a node=hollow-0 restart=OnFailure fail-attempts=1
         hold
         until 510ms
         until 3s
         release
         until 4s",
        "0s a Running [c running] ready
         500ms a Running [c running x1 last 1] ready
         3s a Succeeded [c 0:Completed x1 last 1]",
    );
}

#[test]
fn a_stale_view_does_not_start_a_pod_again() {
    // The watch shows the binding only after the end was written.
    let mut stage = Stage::new(running_for(0));
    let stale = br#"{"metadata":{"name":"a","namespace":"ns","uid":"uid-a"},
        "spec":{"nodeName":"hollow-0","restartPolicy":"Never","containers":[{"name":"c"}]},
        "status":{"phase":"Pending"}}"#;
    stage.kubelet.handle_pod(stale, stage.now).expect("a Pod");
    let write = stage.kubelet.poll_write().expect("the end");
    stage.kubelet.handle_answer(&write, DONE, stage.now);
    stage.kubelet.handle_pod(stale, stage.now).expect("a Pod");
    assert_eq!(stage.kubelet.poll_write(), None);
    assert_eq!(stage.kubelet.pods_remembered(), 1);
}

#[test]
fn a_pod_that_cannot_be_read_changes_nothing() {
    let mut kubelet = Kubelet::new(running_for(0));
    let error = kubelet.handle_pod(b"{}", Time::from_secs(0));
    assert!(
        error
            .expect_err("no metadata")
            .to_string()
            .starts_with("cannot read the Pod: ")
    );
    assert_eq!(kubelet.pods_remembered(), 0);
}

#[test]
fn the_fail_rate_repeats_by_seed() {
    let outcome = |seed| {
        let options = KubeletOptions {
            fail_rate: 0.3,
            seed,
            ..running_for(0)
        };
        let script: String = (0..200)
            .map(|n| format!("pod p{n} node=hollow-0\n"))
            .collect();
        play(options, &script)
    };
    let failed = outcome(1)
        .lines()
        .filter(|line| line.contains("Failed"))
        .count();
    assert!((40..80).contains(&failed), "{failed} of 200");
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
}

#[test]
fn many_pods_at_once_get_addresses_of_their_own_and_are_forgotten() {
    let mut kubelet = Kubelet::new(running_for(1000));
    let count = 10_000;
    let pod = |n: u32, phase: &str| {
        format!(
            r#"{{"metadata":{{"name":"p-{n}","namespace":"ns","uid":"u-{n}"}},
            "spec":{{"nodeName":"hollow-0","restartPolicy":"Never","containers":[{{"name":"c"}}]}},
            "status":{{"phase":"{phase}"}}}}"#
        )
    };
    for n in 0..count {
        let json = pod(n, "Pending");
        let now = Time::from_millis(i64::from(n % 10));
        kubelet.handle_pod(json.as_bytes(), now).expect("a Pod");
    }
    let mut ips = BTreeSet::new();
    let now = Time::from_millis(500);
    for round in ["Running", "Succeeded"] {
        for _ in 0..count {
            let write = kubelet.poll_write().expect(round);
            let Action::Status(patch) = &write.action else {
                panic!("a status")
            };
            let text = std::str::from_utf8(patch).expect("patches are text");
            assert!(text.contains(round), "{text}");
            let (_, ip) = text.split_once(r#""podIP":""#).expect("an address");
            ips.insert(ip.split('"').next().map(str::to_owned));
            kubelet.handle_answer(&write, DONE, now);
        }
        assert_eq!(kubelet.poll_write(), None);
        kubelet.handle_timeout(Time::from_secs(2));
    }
    assert_eq!(ips.len(), count as usize);
    for n in 0..count {
        let json = pod(n, "Succeeded");
        kubelet.handle_pod(json.as_bytes(), now).expect("a Pod");
    }
    assert_eq!(kubelet.pods_remembered(), 0);
    assert_eq!(kubelet.poll_timeout(), None);
}
