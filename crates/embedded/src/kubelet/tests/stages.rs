//! Tests stages: their choice for a Pod, and the writes that follow.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use super::stage::{Stage as Theatre, check, play};
use crate::kubelet::{KubeletOptions, Stage};

/// Returns a stage of this spec.
pub(super) fn stage(name: &str, spec: Value) -> Stage {
    let object = json!({
        "apiVersion": "sim.lakh.dev/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": spec,
    });
    Stage::read(&object).expect("a good stage")
}

fn by(specs: &[(&str, Value)]) -> KubeletOptions {
    let stages = specs.iter().map(|(name, spec)| stage(name, spec.clone()));
    KubeletOptions {
        default_duration: Duration::from_secs(5),
        stages: stages.collect(),
        ..KubeletOptions::with_nodes(1)
    }
}

#[test]
fn the_first_stage_that_means_a_pod_decides() {
    check(
        by(&[
            (
                "some",
                json!({"pods": {"indexes": "0,2-3"}, "end": {"delay": "1s", "exitCode": 3}}),
            ),
            (
                "other",
                json!({"pods": {"namespace": "elsewhere"}, "end": {"exitCode": 9}}),
            ),
            (
                "late",
                json!({"pods": {"indexes": 7}, "start": {"delay": "2s"}}),
            ),
            ("rest", json!({"end": {"exitCode": 4}})),
        ]),
        "pod a index=2
         pod b index=1
         pod c index=7
         pod d exit-code=5
         until 10s",
        "0s a bind hollow-0
         0s a Running [c running] ready
         0s b bind hollow-0
         0s b Running [c running] ready
         0s c bind hollow-0
         0s d bind hollow-0
         0s d Running [c running] ready
         1s a Failed [c 3:Error]
         2s c Running [c running] ready
         5s b Failed [c 4:Error]
         5s d Failed [c 4:Error]
         7s c Succeeded [c 0:Completed]",
    );
}

#[test]
fn labels_are_selected_as_by_kubernetes() {
    let meant = |selector: Value| {
        let options = by(&[("s", json!({"pods": selector, "end": {"exitCode": 1}}))]);
        play(options, "pod a label:app=x label:tier=1\nuntil 9s").contains("Failed")
    };
    let expression = |key: &str, operator: &str, values: Value| {
        let values = json!({"key": key, "operator": operator, "values": values});
        meant(json!({"matchExpressions": [values]}))
    };
    assert!(meant(json!({"matchLabels": {"app": "x", "tier": "1"}})));
    assert!(!meant(json!({"matchLabels": {"app": "x", "tier": "2"}})));
    assert!(expression("app", "In", json!(["y", "x"])));
    assert!(!expression("none", "In", json!(["x"])));
    assert!(expression("app", "NotIn", json!(["y"])));
    assert!(expression("none", "NotIn", json!(["y"])));
    assert!(!expression("app", "NotIn", json!(["x"])));
    assert!(expression("app", "Exists", json!([])));
    assert!(!expression("app", "DoesNotExist", json!([])));
    assert!(expression("none", "DoesNotExist", json!([])));
}

#[test]
fn restarts_select_the_stage_of_each_try() {
    check(
        by(&[
            (
                "crash",
                json!({
                    "pods": {"restarts": "0-2"},
                    "end": {"delay": "1s", "exitCode": 137, "reason": "OOMKilled"},
                }),
            ),
            ("work", json!({"end": {"delay": "3s"}})),
        ]),
        "pod a restart=OnFailure
         until 2m",
        "0s a bind hollow-0
         0s a Running [c running] ready
         1s a Running [c running x1 last 137] ready
         2s a Running [c CrashLoopBackOff x1 last 137]
         12s a Running [c running x2 last 137] ready
         13s a Running [c CrashLoopBackOff x2 last 137]
         33s a Running [c running x3 last 137] ready
         36s a Succeeded [c 0:Completed x3 last 137]",
    );
}

#[test]
fn containers_become_ready_later_than_they_run() {
    check(
        by(&[(
            "s",
            json!({"ready": {"delay": "2s"}, "end": {"delay": "3s"}}),
        )]),
        "pod a
         until 9s",
        "0s a bind hollow-0
         0s a Running [c running]
         2s a Running [c running] ready
         3s a Succeeded [c 0:Completed]",
    );
}

#[test]
fn containers_stop_in_their_own_time_and_with_their_own_code() {
    let options = || by(&[("s", json!({"stop": {"delay": "2s", "exitCode": 0}}))]);
    check(
        options(),
        "pod a
         until 1s
         delete a 30
         until 9s",
        "0s a bind hollow-0
         0s a Running [c running] ready
         3s a Succeeded [c 0:Completed]
         3s a delete",
    );
    check(
        options(),
        "pod a
         until 1s
         delete a 1
         until 9s",
        "0s a bind hollow-0
         0s a Running [c running] ready
         2s a Failed [c 137:Error]
         2s a delete",
    );
}

#[test]
fn a_deleted_pod_ends_with_the_deletions_reason() {
    let ends = |cause: &str| {
        let spec = json!({"disruption": {"delay": "1s", "cause": cause}});
        let told = play(by(&[("s", spec)]), "pod a\nuntil 9s");
        let lines = told.lines().skip(2).map(str::to_owned);
        lines.collect::<Vec<_>>().join(" | ")
    };
    let by_kubelet =
        |reason: &str, target: &str| format!("1s a Failed{target} {reason} [c 143:Error]");
    let target = " TerminationByKubelet";
    assert_eq!(ends("NodePressureEviction"), by_kubelet("Evicted", target));
    assert_eq!(ends("EphemeralStorageLimit"), by_kubelet("Evicted", ""));
    assert_eq!(ends("KubeletPreemption"), by_kubelet("Preempting", target));
    assert_eq!(ends("NodeShutdown"), by_kubelet("Terminated", target));
    let stopped = "1s a Failed{} [c 143:Error] | 1s a delete";
    let marked = |reason: &str| {
        let mark = format!("1s a marked {reason} | 1s a remove | ");
        mark + &stopped.replace("{}", "")
    };
    assert_eq!(ends("SchedulerPreemption"), marked("PreemptionByScheduler"));
    assert_eq!(ends("TaintEviction"), marked("DeletionByTaintManager"));
    assert_eq!(
        ends("ApiEviction"),
        "1s a evict | ".to_owned() + &stopped.replace("{}", "")
    );
    assert_eq!(
        ends("NodeLoss"),
        "1s a Failed DeletionByPodGC | 1s a delete"
    );
}

#[test]
fn an_eviction_that_is_refused_is_tried_again_until_the_pod_ends_by_itself() {
    let spec =
        json!({"disruption": {"delay": "1s", "cause": "ApiEviction"}, "end": {"delay": "4s"}});
    let told = play(
        by(&[("s", spec)]),
        "pod a\nuntil 1500ms\nrefuse a 2\nuntil 9s",
    );
    assert!(told.ends_with("delete\n"), "{told}");
    let spec =
        json!({"disruption": {"delay": "1s", "cause": "ApiEviction"}, "end": {"delay": "2s"}});
    let told = play(
        by(&[("s", spec)]),
        "pod a\nuntil 900ms\nrefuse a 4\nuntil 9s",
    );
    let lines: Vec<&str> = told.lines().skip(2).collect();
    assert!(
        lines.iter().any(|line| line.ends_with("evict (refused)")),
        "{told}"
    );
    assert!(told.ends_with(" a Succeeded [c 0:Completed]\n"), "{told}");
    assert!(!told.contains("delete"), "{told}");
}

/// Returns the exit codes of many Pods under a seed, by name.
fn fates(seed: u64, names: impl Iterator<Item = u32>) -> BTreeMap<String, Value> {
    let mut options = by(&[
        (
            "a",
            json!({"probability": 0.2, "end": {"delay": "1s", "jitter": "4s", "exitCode": 11}}),
        ),
        (
            "b",
            json!({"probability": 0.5, "end": {"delay": "1s", "exitCode": 12}}),
        ),
    ]);
    options.seed = seed;
    let mut theatre = Theatre::new(options);
    for name in names {
        theatre.command(&format!("pod p{name}"));
        theatre.drain();
    }
    theatre.command("until 10s");
    theatre.drain();
    let ended = theatre.patches.into_iter().map(|(name, patch)| {
        let state = &patch["status"]["containerStatuses"][0]["state"]["terminated"];
        (name, state.clone())
    });
    ended.collect()
}

#[test]
fn chances_are_hit_as_often_as_asked_and_follow_from_seed_and_pod_alone() {
    let all = fates(7, 0..4000);
    let count = |code: u64| {
        all.values()
            .filter(|state| state["exitCode"] == code)
            .count()
    };
    // A fifth; half of the rest; the others. Three standard deviations are 76, 93 and 93.
    for (code, want, off) in [(11, 800, 76), (12, 1600, 93), (0, 1600, 93)] {
        let got = count(code);
        assert!(
            got.abs_diff(want) <= off,
            "{got} of {code}, not about {want}"
        );
    }
    // In another order, and among other Pods, each Pod lives the same life.
    let again = fates(7, (0..500).rev().chain(4000..4100));
    let same = again.iter().filter(|(name, _)| all.contains_key(*name));
    let ips_aside = |state: &Value| (state["exitCode"].clone(), state["finishedAt"].clone());
    let mut compared = 0;
    for (name, state) in same {
        assert_eq!(ips_aside(state), ips_aside(&all[name]), "{name}");
        compared += 1;
    }
    assert_eq!(compared, 500);
    let other = fates(8, 0..500);
    assert!(
        other
            .iter()
            .any(|(name, state)| state["exitCode"] != all[name]["exitCode"])
    );
    // Jitter spreads the ends over four seconds.
    let ends: Vec<&Value> = all
        .values()
        .filter(|state| state["exitCode"] == 11)
        .map(|state| &state["finishedAt"])
        .collect();
    for second in 1..5 {
        let text = format!("1970-01-01T00:00:0{second}Z");
        let hits = ends.iter().filter(|end| **end == &json!(text)).count();
        assert!(
            hits.abs_diff(ends.len() / 4) < ends.len() / 8,
            "{hits} at {text}"
        );
    }
}
