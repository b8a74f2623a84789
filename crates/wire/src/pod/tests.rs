//! Checks that a Pod's record is the same from JSON and from protobuf.

use lakh_model::{
    COMPLETION_INDEX, DecodedPod, INDEX_FAILURES, INDEX_IGNORED_FAILURES, TRACKING_FINALIZER,
};

use super::PodDecoder;
use crate::{
    Object,
    protobuf_writer::{bytes, number},
};

const UID: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";

fn decode(object: Object<'_>) -> Option<DecodedPod<'_>> {
    let finalizer = TRACKING_FINALIZER;
    PodDecoder { finalizer }.decode(object).ok()
}

fn pair(field: u64, key: &str, value: &str) -> Vec<u8> {
    bytes(field, [bytes(1, key), bytes(2, value)].concat())
}

fn time(field: u64, seconds: i64) -> Vec<u8> {
    bytes(field, [number(1, seconds), number(2, 0)].concat())
}

/// A failed Pod with many kinds of fields, some of which are skipped.
fn failed_pod() -> Vec<u8> {
    let owner = |name: &str, controller| {
        let fields = [
            bytes(1, "Job"),
            bytes(3, name),
            bytes(4, UID),
            bytes(5, "batch/v1"),
            number(6, controller),
            number(7, 1),
        ];
        bytes(13, fields.concat())
    };
    let metadata = [
        bytes(1, "train-7-bcdfg"),
        bytes(2, "train-7-"),
        bytes(3, "ml"),
        bytes(5, UID),
        bytes(6, "77"),
        time(8, 1),
        time(9, 50),
        number(10, 30),
        pair(11, "a", "1"),
        pair(11, "b", ""),
        pair(12, COMPLETION_INDEX, "7"),
        pair(12, INDEX_FAILURES, "2"),
        pair(12, INDEX_IGNORED_FAILURES, "3"),
        pair(12, "other", "x"),
        owner("other", 0),
        owner("train", 1),
        bytes(14, "x"),
        bytes(14, TRACKING_FINALIZER),
        bytes(17, [bytes(1, "kubelet"), bytes(2, "Update")].concat()),
    ];
    let side = [bytes(1, "side"), bytes(24, "Always")].concat();
    let spec = [
        bytes(2, bytes(1, "main")),
        bytes(10, "node"),
        bytes(20, side),
        bytes(20, bytes(1, "init")),
    ];
    let condition = |kind: &str, status: &str, at| {
        bytes(2, [bytes(1, kind), bytes(2, status), time(4, at)].concat())
    };
    let ended = |field, name: &str, code, at| {
        let end = bytes(3, [number(1, code), time(5, 3), time(6, at)].concat());
        let last = bytes(3, bytes(3, number(1, 99)));
        let fields = [
            bytes(1, name),
            bytes(2, end),
            last,
            number(4, 0),
            number(5, 4),
        ];
        bytes(field, fields.concat())
    };
    let status = [
        bytes(1, "Failed"),
        condition("Ready", "False", 40),
        condition("DisruptionTarget", "True", 41),
        ended(8, "main", -9, 20),
        ended(10, "side", 0, 30),
        ended(10, "init", 0, 10),
    ];
    [
        bytes(1, metadata.concat()),
        bytes(2, spec.concat()),
        bytes(3, status.concat()),
    ]
    .concat()
}

const SAME_IN_JSON: &str = r#"{"metadata":{"name":"train-7-bcdfg","namespace":"ml",
    "uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9","resourceVersion":"77",
    "creationTimestamp":"1970-01-01T00:00:01Z","deletionTimestamp":"1970-01-01T00:00:50Z",
    "deletionGracePeriodSeconds":30,"labels":{"a":"1","b":""},"annotations":{
    "batch.kubernetes.io/job-completion-index":"7","batch.kubernetes.io/job-index-failure-count":"2",
    "batch.kubernetes.io/job-index-ignored-failure-count":"3","other":"x"},
    "ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"other","controller":false,
    "uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"},{"apiVersion":"batch/v1","kind":"Job",
    "name":"train","controller":true,"uid":"0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"}],
    "finalizers":["x","batch.kubernetes.io/job-tracking"]},
    "spec":{"nodeName":"node","containers":[{"name":"main"}],
    "initContainers":[{"name":"side","restartPolicy":"Always"},{"name":"init"}]},
    "status":{"phase":"Failed","conditions":[
    {"type":"Ready","status":"False","lastTransitionTime":"1970-01-01T00:00:40Z"},
    {"type":"DisruptionTarget","status":"True","lastTransitionTime":"1970-01-01T00:00:41Z"}],
    "containerStatuses":[{"name":"main","restartCount":4,"state":{"terminated":
    {"exitCode":-9,"finishedAt":"1970-01-01T00:00:20Z"}}}],
    "initContainerStatuses":[{"name":"side","restartCount":4,"state":{"terminated":
    {"exitCode":0,"finishedAt":"1970-01-01T00:00:30Z"}}},{"name":"init","restartCount":4,
    "state":{"terminated":{"exitCode":0,"finishedAt":"1970-01-01T00:00:10Z"}}}]}}"#;

#[test]
fn a_pod_is_the_same_in_both() {
    let message = failed_pod();
    let read = decode(Object::Protobuf(&message)).expect("a good Pod");
    let json = decode(Object::Json(SAME_IN_JSON)).expect("a good Pod");
    assert_eq!(read.record, json.record);
    assert_eq!(read.record.restarts, 12);
    assert!(read.record.failure.is_some());
    assert_eq!((read.namespace, read.name), (json.namespace, json.name));
    assert_eq!(
        (read.controller, read.labels),
        (json.controller, json.labels)
    );
}

#[test]
fn a_pod_of_a_real_server_is_the_same_in_both() {
    let whole = include_bytes!("../../../../tests/fixtures/pod.pb");
    let message = crate::protobuf::object(whole).expect("an object");
    let read = decode(Object::Protobuf(message)).expect("a good Pod");
    let json = include_str!("../../../../tests/fixtures/pod.json");
    let json = decode(Object::Json(json)).expect("a good Pod");
    assert_eq!(read.record, json.record);
    assert!(read.record.finished > 0 && read.record.index.is_some());
    assert_eq!((read.namespace, read.name), (json.namespace, json.name));
    assert_eq!(
        (read.controller, read.labels.to_labels()),
        (json.controller, json.labels.to_labels())
    );
}

#[test]
fn what_is_cut_short_or_odd_is_no_pod_and_no_panic() {
    let message = failed_pod();
    for length in 0..message.len() {
        // Fields are whole or missing. The metadata comes first, so a truncated Pod may still be valid.
        let _ = decode(Object::Protobuf(&message[..length]));
    }
    for at in 0..message.len() {
        let mut odd = message.clone();
        odd[at] ^= 0xff;
        let _ = decode(Object::Protobuf(&odd));
    }
    assert!(decode(Object::Protobuf(&[])).is_none());
    assert!(decode(Object::Protobuf(&bytes(1, bytes(5, "no UID")))).is_none());
    assert!(decode(Object::Protobuf(&number(1, 5))).is_none());
}
