//! Converts Events between `events.k8s.io/v1` and `v1`: the same objects with other field names.
//!
//! Responsible for: conversion in both directions. Must not: validate Events.

use super::tree::Tree;

/// The API version.
pub(crate) const API_VERSION: &str = "events.k8s.io/v1";

/// Field names in this API version and in `v1`.
const RENAMED: [(&str, &str); 7] = [
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Converts an Event, or a patch of one, to `v1`.
pub(crate) fn to_core(event: &mut Tree) {
    for (own, core) in RENAMED {
        rename(event, own, core);
    }
    if event
        .get("apiVersion")
        .is_some_and(|version| version == API_VERSION)
    {
        event.insert("apiVersion".into(), "v1".into());
    }
}

/// Converts an Event from `v1` to this API version.
pub(crate) fn from_core(event: &mut Tree) {
    for (own, core) in RENAMED {
        rename(event, core, own);
    }
    event.insert("apiVersion".into(), API_VERSION.into());
}

/// Converts a query with its field selector to `v1`.
pub(crate) fn query_to_core(query: &str) -> String {
    query
        .replace("regarding.", "involvedObject.")
        .replace("reportingController", "reportingComponent")
}

fn rename(event: &mut Tree, from: &str, to: &str) {
    if let Some(value) = event.remove(from) {
        event.insert(to.into(), value);
    }
}
