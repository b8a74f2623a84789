//! The Node objects of the hollow nodes.
//!
//! Responsible for: rendering them. Must not: keep them alive; there are no heartbeats, and the
//! embedded cluster has nobody who would miss them.

use serde_json::{Value, json};

use super::{KubeletOptions, NodeCapacity};
use crate::model::Time;

/// One Node per name, Ready and with the capacity that was asked for; to be created when the kubelet starts.
pub fn node_objects(options: &KubeletOptions, now: Time) -> Vec<Value> {
    let capacity = options.capacity.clone();
    let room = capacity.unwrap_or_else(NodeCapacity::plenty).to_json();
    let names = options.node_names.iter().enumerate();
    names
        .map(|(nth, name)| node_object(nth, name, &room, now))
        .collect()
}

/// The address of a node, by its place in the list.
pub(super) fn node_ip(nth: usize) -> String {
    let host = nth + 2;
    format!("172.18.{}.{}", host >> 8 & 0xff, host & 0xff)
}

fn node_object(nth: usize, name: &str, room: &Value, now: Time) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "sim.lakh.dev/node": "hollow",
            },
        },
        "spec": {},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": node_ip(nth)},
                {"type": "Hostname", "address": name},
            ],
            "capacity": room,
            "allocatable": room,
            "conditions": conditions(&now.to_rfc3339()),
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "osImage": "hollow",
                "kernelVersion": "hollow",
                "containerRuntimeVersion": "hollow://0",
                "kubeletVersion": concat!("v1.36.0-lakh-", env!("CARGO_PKG_VERSION")),
                "kubeProxyVersion": "",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
        },
    })
}

fn conditions(now: &str) -> Value {
    let conditions = CONDITIONS.iter().map(|(kind, status, reason, message)| {
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        })
    });
    conditions.collect()
}

/// Type, status, reason and message of each condition.
const CONDITIONS: [(&str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "memory is plentiful",
    ),
    (
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "disk is plentiful",
    ),
    (
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "process ids are plentiful",
    ),
    (
        "Ready",
        "True",
        "KubeletReady",
        "the hollow kubelet is ready",
    ),
];
