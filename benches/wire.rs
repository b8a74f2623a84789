//! Measures the decoding of a Pod, as an item of a list page and as a watch event, in JSON and in protobuf.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lakh::{
    model::TRACKING_FINALIZER,
    wire::{PodDecoder, WatchEvent, decode_list_page, decode_watch_frame},
};
use serde_json::{Value, json};

/// Items per page, as the informer requests them.
const PAGE: u32 = 500;

/// A finished Pod as kube-apiserver 1.36 sent it, in both encodings.
const POD_JSON: &str = include_str!("../tests/fixtures/pod.json");
const POD_PROTOBUF: &[u8] = include_bytes!("../tests/fixtures/pod.pb");

/// A running Pod as API servers send it, with what kubelets and defaults add.
fn pod(index: u32) -> Value {
    let now = "2026-11-21T08:00:00Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let volume = json!({"name": "kube-api-access-x2x4z", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]}});
    let labels = json!({
        "batch.kubernetes.io/controller-uid": "6a1ee1f6-9d1c-4a43-9c2a-0d5e5c1c7f10",
        "batch.kubernetes.io/job-completion-index": index.to_string(),
        "batch.kubernetes.io/job-name": "bench",
        "controller-uid": "6a1ee1f6-9d1c-4a43-9c2a-0d5e5c1c7f10",
        "job-name": "bench",
    });
    json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": format!("bench-{index}-bcdfg"),
            "generateName": format!("bench-{index}-"),
            "namespace": "default",
            "uid": format!("6a1ee1f6-9d1c-4a43-9c2a-{index:012}"),
            "resourceVersion": (index + 1000).to_string(),
            "generation": 1,
            "creationTimestamp": now,
            "labels": labels,
            "annotations": {"batch.kubernetes.io/job-completion-index": index.to_string()},
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "bench",
                "uid": "6a1ee1f6-9d1c-4a43-9c2a-0d5e5c1c7f10",
                "controller": true, "blockOwnerDeletion": true,
            }],
            "finalizers": [TRACKING_FINALIZER],
            "managedFields": [{
                "manager": "lakh", "operation": "Update", "apiVersion": "v1", "time": now,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:annotations": {".": {}}, "f:labels": {".": {}}},
                    "f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}}}}},
            }],
        },
        "spec": {
            "volumes": [volume],
            "containers": [{
                "name": "main", "image": "busybox", "resources": {},
                "env": [{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {
                    "apiVersion": "v1",
                    "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']",
                }}}],
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File", "imagePullPolicy": "Always",
            }],
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst", "nodeName": "hollow-1", "hostname": format!("bench-{index}"),
            "securityContext": {}, "schedulerName": "default-scheduler", "priority": 0,
            "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Running",
            "conditions": [condition("PodScheduled"), condition("Initialized"),
                condition("ContainersReady"), condition("Ready")],
            "hostIP": "10.0.0.1", "podIP": "10.1.0.1", "startTime": now, "qosClass": "BestEffort",
            "containerStatuses": [{
                "name": "main", "image": "busybox", "imageID": "", "ready": true, "started": true,
                "restartCount": 0, "lastState": {}, "state": {"running": {"startedAt": now}},
            }],
        },
    })
}

fn decode(criterion: &mut Criterion) {
    let decoder = PodDecoder {
        finalizer: TRACKING_FINALIZER,
    };
    let mut group = criterion.benchmark_group("read a Pod");

    let pods: Vec<Value> = (0..PAGE).map(pod).collect();
    let page = json!({"metadata": {"resourceVersion": "7", "continue": ""}, "items": pods});
    let page = page.to_string().into_bytes();
    group.throughput(Throughput::Elements(PAGE.into()));
    group.bench_function("page of a list", |bencher| {
        bencher.iter(|| {
            let page = decode_list_page(black_box(&page)).expect("a page");
            for item in &page.items {
                black_box(decoder.decode(*item).expect("a Pod"));
            }
        });
    });

    group.throughput(Throughput::Elements(1));
    let line = format!(r#"{{"type":"MODIFIED","object":{}}}"#, POD_JSON.trim());
    group.bench_function("event of a watch, JSON", |bencher| {
        bencher.iter(|| {
            decoder
                .decode_line(black_box(line.as_bytes()))
                .expect("a Pod")
        });
    });
    let frame = frame("MODIFIED", POD_PROTOBUF);
    group.bench_function("event of a watch, protobuf", |bencher| {
        bencher.iter(|| {
            let event = decode_watch_frame(black_box(&frame)).expect("an event");
            let WatchEvent::Applied(pod) = event else {
                panic!("it was modified")
            };
            decoder.decode(pod).expect("a Pod")
        });
    });
    group.finish();
}

/// A watch event in protobuf: its type, and the object in a nested message.
fn frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        let (low, high) = (bytes.len() & 0x7f, bytes.len() >> 7);
        let length = [low | 0x80, high].map(|part| u8::try_from(part).expect("less than 16 KiB"));
        [&[number << 3 | 2][..], &length, bytes].concat()
    };
    [field(1, kind.as_bytes()), field(2, &field(1, object))].concat()
}

criterion_group!(benches, decode);
criterion_main!(benches);
