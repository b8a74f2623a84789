//! Tests the lives of Pods: starts, ends, restarts, deletions, deadlines.

use std::time::Duration;

use super::stage::check;
use crate::kubelet::KubeletOptions;

fn running_for(text: &str) -> KubeletOptions {
    let default_duration = crate::kubelet::parse_go_duration(text).expect("a Go duration");
    KubeletOptions {
        default_duration,
        ..KubeletOptions::with_nodes(2)
    }
}

#[test]
fn pods_are_bound_in_turn_run_and_succeed() {
    check(
        running_for("2s"),
        "pod a
         pod b
         pod c
         until 5s",
        "0s a bind hollow-0
         0s a Running [c running] ready
         0s b bind hollow-1
         0s b Running [c running] ready
         0s c bind hollow-0
         0s c Running [c running] ready
         2s a Succeeded [c 0:Completed]
         2s b Succeeded [c 0:Completed]
         2s c Succeeded [c 0:Completed]",
    );
}

#[test]
fn nothing_is_bound_to_a_node_that_is_gone_until_it_is_there_again() {
    check(
        running_for("2s"),
        "pod a
         lose hollow-1
         lose elsewhere
         pod b
         until 1s
         lose hollow-0
         pod c
         pod d
         gone d
         pod e
         until 4s
         find hollow-1
         until 5s
         find hollow-0
         pod f",
        "0s a bind hollow-0
         0s a Running [c running] ready
         0s b bind hollow-0
         0s b Running [c running] ready
         2s a Succeeded [c 0:Completed]
         2s b Succeeded [c 0:Completed]
         4s c bind hollow-1
         4s e bind hollow-1
         4s c Running [c running] ready
         4s e Running [c running] ready
         5s f bind hollow-0
         5s f Running [c running] ready",
    );
}

#[test]
fn a_pod_that_takes_no_time_needs_two_writes_or_one_if_it_came_with_a_node() {
    check(
        running_for("0s"),
        "pod a
         pod b node=hollow-1
         pod c exit-code=42",
        "0s a bind hollow-0
         0s a Succeeded [c 0:Completed]
         0s b Succeeded [c 0:Completed]
         0s c bind hollow-1
         0s c Failed [c 42:Error]",
    );
}

#[test]
fn gated_foreign_and_ended_pods_are_left_alone() {
    check(
        running_for("0s"),
        "pod gated gate=wait
         pod foreign node=elsewhere
         pod done node=hollow-0 phase=Succeeded
         pod failed phase=Failed
         until 1s
         ungate gated",
        "1s gated bind hollow-0
         1s gated Succeeded [c 0:Completed]",
    );
}

#[test]
fn without_nodes_nothing_is_bound() {
    check(KubeletOptions::with_nodes(0), "pod a\nuntil 1h", "");
}

#[test]
fn startup_takes_its_time() {
    let options = KubeletOptions {
        startup_latency: Duration::from_millis(300),
        ..running_for("1s")
    };
    check(
        options,
        "pod a
         until 10s",
        "0s a bind hollow-0
         300ms a Running [c running] ready
         1.3s a Succeeded [c 0:Completed]",
    );
}

#[test]
fn a_pod_says_how_long_and_how_it_ends() {
    check(
        running_for("0s"),
        "pod a duration=1m30s exit-code=3
         until 10m",
        "0s a bind hollow-0
         0s a Running [c running] ready
         1m30s a Failed [c 3:Error]",
    );
}

#[test]
fn chosen_indexes_fail() {
    check(
        running_for("0s"),
        "pod a job=j index=0 fail-indexes=0,2-3
         pod b job=j index=1 fail-indexes=0,2-3
         pod c job=j index=3 fail-indexes=0,2-3 exit-code=9",
        "0s a bind hollow-0
         0s a Failed [c 1:Error]
         0s b bind hollow-1
         0s b Succeeded [c 0:Completed]
         0s c bind hollow-0
         0s c Failed [c 9:Error]",
    );
}

#[test]
fn the_first_tries_fail_counted_per_job_and_index() {
    check(
        running_for("0s"),
        "pod a0 node=hollow-0 job=j index=0 fail-attempts=2
         pod b0 node=hollow-0 job=j index=1 fail-attempts=2
         pod a1 node=hollow-0 job=j index=0 fail-attempts=2
         pod a2 node=hollow-0 job=j index=0 fail-attempts=2
         pod other node=hollow-0 job=k index=0 fail-attempts=2
         pod n0 node=hollow-0 job=n fail-attempts=1
         pod n1 node=hollow-0 job=n fail-attempts=1
         pod i0 node=hollow-0 job=i index=5 fail-attempts=1 fail-indexes=5
         pod i1 node=hollow-0 job=i index=5 fail-attempts=1 fail-indexes=5
         pod i2 node=hollow-0 job=i index=6 fail-attempts=1 fail-indexes=5",
        "0s a0 Failed [c 1:Error]
         0s b0 Failed [c 1:Error]
         0s a1 Failed [c 1:Error]
         0s a2 Succeeded [c 0:Completed]
         0s other Failed [c 1:Error]
         0s n0 Failed [c 1:Error]
         0s n1 Succeeded [c 0:Completed]
         0s i0 Failed [c 1:Error]
         0s i1 Succeeded [c 0:Completed]
         0s i2 Succeeded [c 0:Completed]",
    );
}

#[test]
fn an_annotation_that_cannot_be_read_fails_the_pod() {
    check(
        running_for("0s"),
        "pod a duration=soon
         until 1h",
        "0s a bind hollow-0
         0s a Failed InvalidSimAnnotation",
    );
}

#[test]
fn on_failure_restarts_in_place_with_growing_delays() {
    check(
        running_for("1s"),
        "pod a restart=OnFailure fail-attempts=4
         until 5m",
        "0s a bind hollow-0
         0s a Running [c running] ready
         1s a Running [c running x1 last 1] ready
         2s a Running [c CrashLoopBackOff x1 last 1]
         12s a Running [c running x2 last 1] ready
         13s a Running [c CrashLoopBackOff x2 last 1]
         33s a Running [c running x3 last 1] ready
         34s a Running [c CrashLoopBackOff x3 last 1]
         1m14s a Running [c running x4 last 1] ready
         1m15s a Succeeded [c 0:Completed x4 last 1]",
    );
}

#[test]
fn the_base_of_the_delays_can_be_chosen_and_they_are_capped() {
    let options = KubeletOptions {
        restart_backoff: Duration::from_millis(20),
        ..running_for("0s")
    };
    check(
        options,
        "pod a restart=OnFailure exit-code=7
         until 2s",
        "0s a bind hollow-0
         0s a Running [c CrashLoopBackOff x1 last 7]
         20ms a Running [c CrashLoopBackOff x2 last 7]
         60ms a Running [c CrashLoopBackOff x3 last 7]
         140ms a Running [c CrashLoopBackOff x4 last 7]
         300ms a Running [c CrashLoopBackOff x5 last 7]
         620ms a Running [c CrashLoopBackOff x6 last 7]
         1.22s a Running [c CrashLoopBackOff x7 last 7]
         1.82s a Running [c CrashLoopBackOff x8 last 7]",
    );
}

#[test]
fn a_restart_count_never_goes_back() {
    check(
        running_for("1s"),
        "pod a restart=OnFailure node=hollow-0 phase=Running restarts=3
         until 2s",
        "0s a Running [c running x3] ready
         1s a Succeeded [c 0:Completed x3]",
    );
}

#[test]
fn a_container_that_has_exited_before_the_kubelet_started_stays_so() {
    check(
        running_for("1s"),
        "pod a containers=z,b restart=OnFailure node=hollow-0 phase=Running restarts=1 exited=b:0
         until 2s",
        "0s a Running [b 0:Completed] [z running x1]
         1s a Succeeded [b 0:Completed] [z 0:Completed x1]",
    );
}

#[test]
fn the_first_container_leads_and_sidecars_end_with_the_pod() {
    check(
        running_for("1s"),
        "pod a containers=z,b inits=i,s! exit-code=5
         until 2s",
        "0s a bind hollow-0
         0s a Running [i 0:Completed] [s running] [b running] [z running] ready
         1s a Failed [i 0:Completed] [s 143:Error] [b 0:Completed] [z 5:Error]",
    );
    check(
        running_for("1s"),
        "pod a containers=z,b restart=OnFailure fail-attempts=1
         until 3s",
        "0s a bind hollow-0
         0s a Running [b running] [z running] ready
         1s a Running [b 0:Completed] [z running x1 last 1]
         2s a Succeeded [b 0:Completed] [z 0:Completed x1 last 1]",
    );
}

#[test]
fn a_running_pod_that_is_deleted_fails_first_and_is_deleted_then() {
    check(
        running_for("1h"),
        "pod a containers=c,d
         until 1s
         delete a 30
         until 2h",
        "0s a bind hollow-0
         0s a Running [c running] [d running] ready
         1s a Failed [c 143:Error] [d 143:Error]
         1s a delete",
    );
}

#[test]
fn a_container_stops_in_the_set_time_or_is_killed() {
    let slow = |delay| KubeletOptions {
        stop_delay: delay,
        ..running_for("10s")
    };
    check(
        slow(Duration::from_secs(5)),
        "pod a
         pod killed
         pod ends
         until 2s
         delete a 30
         delete killed 3
         until 6s
         delete ends 30
         until 1h",
        "0s a bind hollow-0
         0s a Running [c running] ready
         0s killed bind hollow-1
         0s killed Running [c running] ready
         0s ends bind hollow-0
         0s ends Running [c running] ready
         5s killed Failed [c 137:Error]
         5s killed delete
         7s a Failed [c 143:Error]
         7s a delete
         10s ends Succeeded [c 0:Completed]
         10s ends delete",
    );
    check(
        slow(Duration::from_secs(60)),
        "pod a duration=10m
         delete a 30
         until 5s
         delete a 10
         until 1h",
        "0s a bind hollow-0
         0s a Running [c running] ready
         15s a Failed [c 137:Error]
         15s a delete",
    );
}

#[test]
fn a_pod_deleted_between_restarts_fails() {
    check(
        running_for("1s"),
        "pod a restart=OnFailure exit-code=1
         until 5s
         delete a 30
         until 1h",
        "0s a bind hollow-0
         0s a Running [c running] ready
         1s a Running [c running x1 last 1] ready
         2s a Running [c CrashLoopBackOff x1 last 1]
         5s a Failed [c 1:Error x1 last 1]
         5s a delete",
    );
}

#[test]
fn a_pod_deleted_before_it_started_has_lost_its_containers() {
    let options = KubeletOptions {
        startup_latency: Duration::from_secs(9),
        ..running_for("1s")
    };
    check(
        options,
        "pod a inits=i,k
         until 1s
         delete a 30
         until 1h",
        "0s a bind hollow-0
         1s a Failed [i 137:ContainerStatusUnknown] [k PodInitializing] [c PodInitializing]
         1s a delete",
    );
}

#[test]
fn ended_and_unbound_pods_that_are_deleted() {
    check(
        KubeletOptions::with_nodes(0),
        "pod unbound
         delete unbound 0
         until 1h",
        "",
    );
    // With a grace period left, the final delete is missing; without, only finalizers remain.
    check(
        running_for("1s"),
        "pod a node=hollow-0 phase=Failed deleting=30
         pod b node=hollow-0 phase=Failed deleting=0
         until 1h",
        "0s a delete",
    );
}

#[test]
fn a_pod_deleted_by_force_but_kept_by_a_finalizer_still_gets_its_end() {
    check(
        running_for("1h"),
        "pod a
         delete a 0
         until 2h",
        "0s a bind hollow-0
         0s a Running [c running] ready
         0s a Failed [c 143:Error]",
    );
}

#[test]
fn a_pod_deadline_stops_the_pod() {
    check(
        running_for("1h"),
        "pod a deadline=5
         pod b deadline=5 duration=4s
         until 2h",
        "0s a bind hollow-0
         0s a Running [c running] ready
         0s b bind hollow-1
         0s b Running [c running] ready
         4s b Succeeded [c 0:Completed]
         5s a Failed DeadlineExceeded [c 143:Error]",
    );
}
