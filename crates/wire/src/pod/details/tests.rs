//! Checks that Pod details are the same from JSON and from protobuf.

use super::*;
use crate::protobuf_writer::{bytes, number};

fn read(object: Object<'_>) -> PodDetails {
    PodDetails::read(object).expect("a good Pod")
}

const UID: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";

#[test]
fn a_pod_of_a_real_server_is_the_same_in_both() {
    let whole = include_bytes!("../../../../../tests/fixtures/pod.pb");
    let message = crate::protobuf::object(whole).expect("an object");
    let json = include_str!("../../../../../tests/fixtures/pod.json");
    let pod = read(Object::Json(json));
    assert_eq!(read(Object::Protobuf(message)), pod);
    assert!(pod.index.is_some() && pod.owner.is_some() && !pod.node.is_empty());
    assert!(pod.finished() > pod.created);
}

#[test]
fn reasons_and_messages_are_the_same_in_both() {
    let json = format!(
        r#"{{"metadata":{{"name":"j-3","uid":"{UID}","deletionTimestamp":"1970-01-01T00:01:00Z",
        "finalizers":["x"],"annotations":{{"other":"x","batch.kubernetes.io/job-completion-index":"3",
        "batch.kubernetes.io/job-index-failure-count":"2",
        "batch.kubernetes.io/job-index-ignored-failure-count":"1"}},
        "ownerReferences":[{{"uid":"{UID}","controller":true}}]}},
        "spec":{{"nodeName":"n","schedulingGates":[{{"name":"g"}}]}},
        "status":{{"phase":"Pending","reason":"Evicted","message":"no room","conditions":[
        {{"type":"Initialized","status":"True"}},
        {{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3",
        "lastTransitionTime":"1970-01-01T00:00:09Z"}}],
        "initContainerStatuses":[{{"name":"i","restartCount":4,"state":{{"terminated":{{"exitCode":-9,
        "signal":9,"reason":"Error","message":"boom","finishedAt":"1970-01-01T00:00:20Z"}}}}}}],
        "containerStatuses":[{{"name":"c","state":{{"waiting":{{"reason":"ImagePullBackOff",
        "message":"not there"}}}},"lastState":{{"terminated":{{"exitCode":1}}}}}}]}}}}"#
    );
    let pair = |key: &str, value: &str| bytes(12, [bytes(1, key), bytes(2, value)].concat());
    let time = |field, seconds| bytes(field, number(1, seconds));
    let metadata = [
        bytes(1, "j-3"),
        bytes(5, UID),
        time(9, 60),
        pair("other", "x"),
        pair("batch.kubernetes.io/job-completion-index", "3"),
        pair("batch.kubernetes.io/job-index-failure-count", "2"),
        pair("batch.kubernetes.io/job-index-ignored-failure-count", "1"),
        bytes(13, [bytes(4, UID), number(6, 1)].concat()),
        bytes(14, "x"),
    ];
    let scheduled = [
        bytes(1, "PodScheduled"),
        bytes(2, "False"),
        time(4, 9),
        bytes(5, "Unschedulable"),
        bytes(6, "0/3"),
    ];
    let end = [
        number(1, -9),
        number(2, 9),
        bytes(3, "Error"),
        bytes(4, "boom"),
        time(6, 20),
    ];
    let init = [
        bytes(1, "i"),
        bytes(2, bytes(3, end.concat())),
        number(5, 4),
    ];
    let waiting = [bytes(1, "ImagePullBackOff"), bytes(2, "not there")];
    let container = [
        bytes(1, "c"),
        bytes(2, bytes(1, waiting.concat())),
        bytes(3, bytes(3, number(1, 1))),
    ];
    let status = [
        bytes(1, "Pending"),
        bytes(2, [bytes(1, "Initialized"), bytes(2, "True")].concat()),
        bytes(2, scheduled.concat()),
        bytes(3, "no room"),
        bytes(4, "Evicted"),
        bytes(8, container.concat()),
        bytes(10, init.concat()),
    ];
    let message = [
        bytes(1, metadata.concat()),
        bytes(2, [bytes(10, "n"), bytes(38, bytes(1, "g"))].concat()),
        bytes(3, status.concat()),
    ]
    .concat();
    let pod = read(Object::Protobuf(&message));
    assert_eq!(pod, read(Object::Json(&json)));
    assert_eq!((pod.index, pod.failures_before), (Some(3), 3));
    assert_eq!(pod.conditions.len(), 1, "{:?}", pod.conditions);
    assert_eq!(pod.finished(), Some(Time::from_secs(20)));
    assert_eq!(pod.containers[0].name, "i");
    for length in 0..message.len() {
        // It must neither panic nor hang.
        let _ = PodDetails::read(Object::Protobuf(&message[..length]));
    }
}
