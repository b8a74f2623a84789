//! Events in the form of `events.k8s.io/v1`: the same objects as those of `v1`, with other names of fields.
//!
//! Responsible for: both ways between the forms. Must not: judge Events.

use super::tree::Tree;

/// The group and the version.
pub(crate) const API_VERSION: &str = "events.k8s.io/v1";

/// Fields by their names in this form and in `v1`.
const RENAMED: [(&str, &str); 7] = [
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Brings an Event, or a patch of one, from this form into that of `v1`.
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

/// Brings an Event from the form of `v1` into this one.
pub(crate) fn from_core(event: &mut Tree) {
    for (own, core) in RENAMED {
        rename(event, core, own);
    }
    event.insert("apiVersion".into(), API_VERSION.into());
}

/// Brings a field selector, with the rest of its query, into the form of `v1`.
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
