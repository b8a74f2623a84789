//! Renders the Node objects of the hollow nodes.
//!
//! Responsible for: the objects at the start. Must not: keep them alive. There are no heartbeats, and no component of
//! the embedded cluster expects them.

use serde_json::{Value, json};

use super::{KubeletOptions, NodeCapacity};
use crate::model::Time;

/// Returns one Node per name, Ready and with the configured capacity; create them when the kubelet starts.
pub fn node_objects(options: &KubeletOptions, now: Time) -> Vec<Value> {
    let capacity = options.capacity.clone();
    let room = capacity.unwrap_or_else(NodeCapacity::plenty);
    let names = options.node_names.iter().enumerate();
    names
        .map(|(nth, name)| node_object(nth, name, &room, now))
        .collect()
}

/// Returns the address of a node, given its position in the list.
pub(super) fn node_ip(nth: usize) -> String {
    let host = nth + 2;
    format!("172.18.{}.{}", host >> 8 & 0xff, host & 0xff)
}

fn node_object(nth: usize, name: &str, room: &NodeCapacity, now: Time) -> Value {
    let now = now.to_rfc3339();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        })
    };
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
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "memory is plentiful"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "disk is plentiful"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "process ids are plentiful"),
                condition("Ready", "True", "KubeletReady", "the hollow kubelet is ready"),
            ],
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
