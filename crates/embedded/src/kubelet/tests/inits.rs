//! Tests init containers, and Pods that have them.

use std::time::Duration;

use serde_json::json;

use super::{stage::check, statuses::status_after};
use crate::kubelet::{KubeletOptions, Stage};

fn running_for(secs: u64) -> KubeletOptions {
    KubeletOptions {
        default_duration: Duration::from_secs(secs),
        ..KubeletOptions::with_nodes(2)
    }
}

/// Returns the options with a stage that has these `initContainers`.
fn staged(inits: serde_json::Value) -> KubeletOptions {
    staged_as(json!({"initContainers": inits}))
}

/// Returns the options with a stage of this spec.
fn staged_as(spec: serde_json::Value) -> KubeletOptions {
    let stage = Stage::read(&json!({
        "apiVersion": "sim.lakh.dev/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": "s"},
        "spec": spec,
    }));
    KubeletOptions {
        stages: [stage.expect("a good stage")].into(),
        ..running_for(1)
    }
}

#[test]
fn init_containers_that_take_no_time_cost_no_write() {
    check(
        running_for(1),
        "pod a inits=i,s!,k
         until 2s",
        "0s a bind hollow-0
         0s a Running [i 0:Completed] [s running] [k 0:Completed] [c running] ready
         1s a Succeeded [i 0:Completed] [s 143:Error] [k 0:Completed] [c 0:Completed]",
    );
}

#[test]
fn init_containers_run_one_after_the_other_and_sidecars_on_the_way() {
    check(
        running_for(1),
        "pod a inits=i,s!,k,t! init-duration=2s,500ms
         until 5s",
        "0s a bind hollow-0
         0s a Pending [i running] [s PodInitializing] [k PodInitializing] [t PodInitializing] [c PodInitializing]
         2s a Pending [i 0:Completed] [s running] [k running] [t PodInitializing] [c PodInitializing]
         2.5s a Running [i 0:Completed] [s running] [k 0:Completed] [t running] [c running] ready
         3.5s a Succeeded [i 0:Completed] [s 143:Error] [k 0:Completed] [t 143:Error] [c 0:Completed]",
    );
}

#[test]
fn a_pod_that_is_not_restarted_fails_with_its_init_container() {
    check(
        running_for(1),
        "pod a inits=s!,i,k,t! init-duration=1s,3s init-exit-code=0,2
         until 5s",
        "0s a bind hollow-0
         0s a Pending [s running] [i running] [k PodInitializing] [t PodInitializing] [c PodInitializing]
         1s a Pending [s running] [i 0:Completed] [k running] [t PodInitializing] [c PodInitializing]
         4s a Failed [s 143:Error] [i 0:Completed] [k 2:Error] [t PodInitializing] [c PodInitializing]",
    );
    check(
        running_for(1),
        "pod a inits=i,k init-exit-code=2
         until 15s",
        "0s a bind hollow-0
         0s a Failed [i 2:Error] [k PodInitializing] [c PodInitializing]",
    );
}

#[test]
fn an_init_container_that_fails_is_tried_again_with_growing_delays() {
    check(
        running_for(1),
        "pod a inits=i restart=OnFailure init-exit-code=2
         until 15s",
        "0s a bind hollow-0
         0s a Pending [i CrashLoopBackOff x1 last 2] [c PodInitializing]
         10s a Pending [i CrashLoopBackOff x2 last 2] [c PodInitializing]",
    );
    check(
        running_for(1),
        "pod a inits=i restart=Always init-duration=1s init-exit-code=2 init-fail-attempts=3
         until 36s",
        "0s a bind hollow-0
         0s a Pending [i running] [c PodInitializing]
         1s a Pending [i running x1 last 2] [c PodInitializing]
         2s a Pending [i CrashLoopBackOff x1 last 2] [c PodInitializing]
         12s a Pending [i running x2 last 2] [c PodInitializing]
         13s a Pending [i CrashLoopBackOff x2 last 2] [c PodInitializing]
         33s a Pending [i running x3 last 2] [c PodInitializing]
         34s a Running [i 0:Completed x3 last 2] [c running] ready
         35s a Running [i 0:Completed x3 last 2] [c running x1 last 0] ready
         36s a Running [i 0:Completed x3 last 2] [c CrashLoopBackOff x1 last 0]",
    );
}

#[test]
fn tries_of_pods_that_are_not_restarted_are_counted_per_job_and_index() {
    check(
        running_for(0),
        "pod a node=hollow-0 job=j index=0 inits=i,k init-exit-code=0,4 init-fail-attempts=1 fail-attempts=1
         pod b node=hollow-0 job=j index=1 inits=i,k init-exit-code=0,4 init-fail-attempts=1
         pod c node=hollow-0 job=j index=0 inits=i,k init-exit-code=0,4 init-fail-attempts=1 fail-attempts=1
         pod d node=hollow-0 job=j index=0 inits=i,k init-exit-code=0,4 init-fail-attempts=1 fail-attempts=1",
        "0s a Failed [i 0:Completed] [k 4:Error] [c PodInitializing]
         0s b Failed [i 0:Completed] [k 4:Error] [c PodInitializing]
         0s c Failed [i 0:Completed] [k 0:Completed] [c 1:Error]
         0s d Succeeded [i 0:Completed] [k 0:Completed] [c 0:Completed]",
    );
}

#[test]
fn a_pod_that_is_stopped_meanwhile_fails_and_nothing_more_starts() {
    let options = KubeletOptions {
        stop_delay: Duration::from_secs(1),
        ..running_for(9)
    };
    check(
        options,
        "pod a inits=i,k init-duration=3s,3s
         pod ends inits=i,k init-duration=3s
         pod deadline inits=i init-duration=1m deadline=5
         until 2s
         delete a 30
         until 2.5s
         delete ends 30
         until 1m",
        "0s a bind hollow-0
         0s a Pending [i running] [k PodInitializing] [c PodInitializing]
         0s ends bind hollow-1
         0s ends Pending [i running] [k PodInitializing] [c PodInitializing]
         0s deadline bind hollow-0
         0s deadline Pending [i running] [c PodInitializing]
         3s a Failed [i 0:Completed] [k PodInitializing] [c PodInitializing]
         3s ends Failed [i 0:Completed] [k PodInitializing] [c PodInitializing]
         3s a delete
         3s ends delete
         6s deadline Failed DeadlineExceeded [i 143:Error] [c PodInitializing]",
    );
    check(
        running_for(1),
        "pod a inits=i restart=OnFailure init-exit-code=2
         until 5s
         delete a 30",
        "0s a bind hollow-0
         0s a Pending [i CrashLoopBackOff x1 last 2] [c PodInitializing]
         5s a Failed [i 2:Error x1 last 2] [c PodInitializing]
         5s a delete",
    );
}

#[test]
fn stages_say_it_by_name() {
    let options = staged(json!([
        {"name": "k", "delay": "2s", "exitCode": 137, "reason": "OOMKilled", "failures": 1},
        {"delay": "1s"},
    ]));
    check(
        options.clone(),
        "pod a inits=i,k init-duration=9s restart=OnFailure
         until 7s",
        "0s a bind hollow-0
         0s a Pending [i running] [k PodInitializing] [c PodInitializing]
         1s a Pending [i 0:Completed] [k running] [c PodInitializing]
         3s a Pending [i 0:Completed] [k running x1 last 137] [c PodInitializing]
         5s a Running [i 0:Completed] [k 0:Completed x1 last 137] [c running] ready
         6s a Succeeded [i 0:Completed] [k 0:Completed x1 last 137] [c 0:Completed]",
    );
    check(
        options,
        "pod a inits=k
         until 7s",
        "0s a bind hollow-0
         0s a Pending [k running] [c PodInitializing]
         2s a Failed [k 137:OOMKilled] [c PodInitializing]",
    );
}

#[test]
fn a_kubelet_that_starts_anew_goes_on_where_it_matters() {
    check(
        running_for(2),
        "pod a inits=i node=hollow-0 phase=Running restarts=1 init-duration=1m restart=OnFailure
         pod b inits=i,k node=hollow-0 init-statuses=0!,2 init-duration=1m,1s restart=OnFailure
         until 3s",
        "0s a Running [i 0:Completed] [c running x1] ready
         0s b Pending [i 0:Completed] [k running x2] [c PodInitializing]
         1s b Running [i 0:Completed] [k 0:Completed x2] [c running] ready
         2s a Succeeded [i 0:Completed] [c 0:Completed x1]
         3s b Succeeded [i 0:Completed] [k 0:Completed x2] [c 0:Completed]",
    );
}

#[test]
fn the_status_names_the_awaited_container() {
    let script = "pod a inits=i,s!,k init-duration=2s,2s\nuntil ";
    let status = |time: &str| status_after(&format!("{script}{time}"));
    let condition = |status: &serde_json::Value, kind: &str| {
        let mut all = status["conditions"].as_array().expect("a list").iter();
        let found = all.find(|condition| condition["type"] == kind);
        found.expect("it is there").clone()
    };
    let now = status("1s");
    assert_eq!(
        condition(&now, "Initialized"),
        json!({
            "type": "Initialized", "status": "False", "reason": "ContainersNotInitialized",
            "message": "containers with incomplete status: [i s k]",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        })
    );
    let message = &condition(&now, "Ready")["message"];
    assert_eq!(*message, "containers with unready status: [s c]");
    assert_eq!(
        condition(&now, "PodReadyToStartContainers")["status"],
        "True"
    );
    assert_eq!(
        now["initContainerStatuses"],
        json!([
            {
                "name": "i", "image": "busybox", "imageID": "busybox",
                "containerID": "containerd://",
                "ready": false, "started": true, "restartCount": 0,
                "state": {"running": {"startedAt": "1970-01-01T00:00:00Z"}},
            },
            {
                "name": "s", "image": "busybox", "imageID": "",
                "ready": false, "started": false, "restartCount": 0,
                "state": {"waiting": {"reason": "PodInitializing"}},
            },
            {
                "name": "k", "image": "busybox", "imageID": "",
                "ready": false, "started": false, "restartCount": 0,
                "state": {"waiting": {"reason": "PodInitializing"}},
            },
        ])
    );

    let now = status("3s");
    let message = &condition(&now, "Initialized")["message"];
    assert_eq!(*message, "containers with incomplete status: [k]");
    let message = &condition(&now, "Ready")["message"];
    assert_eq!(*message, "containers with unready status: [c]");
    let first = &now["initContainerStatuses"][0];
    assert_eq!(
        (&first["ready"], &first["started"]),
        (&json!(true), &json!(false))
    );
    let times = json!(["1970-01-01T00:00:00Z", "1970-01-01T00:00:02Z"]);
    let ended = &first["state"]["terminated"];
    assert_eq!(json!([ended["startedAt"], ended["finishedAt"]]), times);
    let sidecar = &now["initContainerStatuses"][1];
    assert_eq!(
        (&sidecar["ready"], &sidecar["started"]),
        (&json!(true), &json!(true))
    );

    // Earlier texts are cleared explicitly: the patch merges.
    let now = status("5s");
    assert_eq!(
        condition(&now, "Initialized"),
        json!({
            "type": "Initialized", "status": "True", "reason": null, "message": null,
            "lastTransitionTime": "1970-01-01T00:00:04Z",
        })
    );
    assert_eq!(condition(&now, "Ready")["reason"], json!(null));
    assert_eq!(now["startTime"], "1970-01-01T00:00:00Z");
    assert_eq!(
        now["containerStatuses"][0]["state"]["running"]["startedAt"],
        "1970-01-01T00:00:04Z"
    );

    let crashed = status_after("pod a inits=i restart=OnFailure init-exit-code=3\nuntil 5s");
    let waiting = &crashed["initContainerStatuses"][0]["state"]["waiting"];
    let message = "back-off 10s restarting failed container=i pod=a_ns(uid-a)";
    assert_eq!(
        *waiting,
        json!({"reason": "CrashLoopBackOff", "message": message})
    );
}

#[test]
fn sidecars_are_stopped_after_the_containers_and_end_with_codes_of_their_own() {
    // They stop one after the other, the last first. A sidecar that takes longer than the grace period (30 s) is
    // killed.
    let stage = json!({
        "end": {"delay": "1s", "exitCode": 1},
        "sidecars": [
            {"name": "s", "delay": "2s", "exitCode": 0},
            {"name": "t", "delay": "1s", "exitCode": 3},
        ],
    });
    check(
        staged_as(stage.clone()),
        "pod a inits=s!,i,t!,u!
         until 5s",
        "0s a bind hollow-0
         0s a Running [s running] [i 0:Completed] [t running] [u running] [c running] ready
         1s a Running [s running] [i 0:Completed] [t running] [u running] [c 1:Error]
         4s a Failed [s 0:Completed] [i 0:Completed] [t 3:Error] [u 143:Error] [c 1:Error]",
    );
    let mut slow = stage.clone();
    slow["sidecars"][0]["delay"] = json!("1m");
    check(
        staged_as(slow),
        "pod a inits=s!,t!
         until 1m",
        "0s a bind hollow-0
         0s a Running [s running] [t running] [c running] ready
         1s a Running [s running] [t running] [c 1:Error]
         31s a Failed [s 137:Error] [t 3:Error] [c 1:Error]",
    );
    // An entry without a name applies to all others; if there is none, they stop like other containers.
    check(
        staged_as(json!({"stop": {"exitCode": 5}, "sidecars": [{"name": "s", "exitCode": 9}]})),
        "pod a inits=s!,t!
         until 5s",
        "0s a bind hollow-0
         0s a Running [s running] [t running] [c running] ready
         1s a Succeeded [s 9:Error] [t 5:Error] [c 0:Completed]",
    );
}

#[test]
fn a_pod_that_is_deleted_while_its_sidecars_stop_keeps_its_result() {
    let stage = json!({
        "end": {"delay": "1s"},
        "sidecars": [{"delay": "10s", "exitCode": 0}],
    });
    check(
        staged_as(stage.clone()),
        "pod a inits=s!
         until 3s
         delete a 2
         until 20s",
        "0s a bind hollow-0
         0s a Running [s running] [c running] ready
         1s a Running [s running] [c 0:Completed]
         5s a Succeeded [s 137:Error] [c 0:Completed]
         5s a delete",
    );
    // A Pod deleted earlier stops its containers first; sidecars get the rest of the grace period.
    check(
        staged_as(stage),
        "pod a inits=s!
         until 0.5s
         delete a 4
         until 20s",
        "0s a bind hollow-0
         0s a Running [s running] [c running] ready
         500ms a Running [s running] [c 143:Error]
         4.5s a Failed [s 137:Error] [c 143:Error]
         4.5s a delete",
    );
}

#[test]
fn other_containers_end_with_the_first_and_with_codes_of_their_own() {
    let stage = json!({
        "end": {"delay": "1s"},
        "containers": [{"name": "d", "exitCode": 4, "reason": "OOMKilled"}, {"exitCode": 0}],
    });
    check(
        staged_as(stage.clone()),
        "pod a containers=c,d,e
         until 5s",
        "0s a bind hollow-0
         0s a Running [c running] [d running] [e running] ready
         1s a Failed [c 0:Completed] [d 4:OOMKilled] [e 0:Completed]",
    );
    // A failed container would have to restart alone, which is not simulated.
    check(
        staged_as(stage.clone()),
        "pod a containers=c,d restart=OnFailure
         until 5s",
        "0s a bind hollow-0
         0s a Running [c running] [d running] ready
         1s a Succeeded [c 0:Completed] [d 0:Completed]",
    );
    // A stop gives all of them its exit code.
    check(
        staged_as(stage),
        "pod a containers=c,d
         until 0.5s
         delete a 4
         until 5s",
        "0s a bind hollow-0
         0s a Running [c running] [d running] ready
         500ms a Failed [c 143:Error] [d 143:Error]
         500ms a delete",
    );
}
