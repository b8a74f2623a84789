//! Decodes and builds the Lease of a leader election.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use lakh_model::{Lease, LeaseRecord, Roster, RosterEntry, Time};

use super::timestamp::time;

/// The API version of Leases.
const API: &str = "coordination.k8s.io/v1";

/// The annotation that lists the replicas that share a Lease, with the ranges of each.
const REPLICAS: &str = "lakh.dev/replicas";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLease {
    metadata: RawVersion,
    #[serde(default)]
    spec: RawSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawVersion {
    resource_version: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct RawEntry {
    beat: u64,
    seconds: u32,
    ranges: BTreeSet<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSpec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<u32>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
    lease_transitions: Option<u32>,
}

/// Decodes a Lease's JSON. Missing fields have client-go's defaults: no holder, no time.
pub fn decode_lease(json: &[u8]) -> Result<Lease, serde_json::Error> {
    let RawLease { metadata, spec } = serde_json::from_slice(json)?;
    Ok(Lease {
        record: LeaseRecord {
            holder: spec.holder_identity.unwrap_or_default(),
            seconds: spec.lease_duration_seconds.unwrap_or(0),
            acquired: time(spec.acquire_time),
            renewed: time(spec.renew_time),
            transitions: spec.lease_transitions.unwrap_or(0),
            roster: metadata.annotations.as_ref().and_then(roster_of),
        },
        version: metadata.resource_version,
    })
}

/// Decodes the roster of the replicas that share a Lease from its annotations. A malformed roster is ignored.
pub fn roster_of(annotations: &BTreeMap<String, String>) -> Option<Roster> {
    let text = annotations.get(REPLICAS)?;
    let raw: BTreeMap<String, RawEntry> = serde_json::from_str(text).ok()?;
    let entry = |raw: RawEntry| RosterEntry {
        beat: raw.beat,
        seconds: raw.seconds,
        ranges: raw.ranges,
    };
    let entries = raw.into_iter().map(|(name, raw)| (name, entry(raw)));
    Some(Roster(entries.collect()))
}

fn roster_text(roster: &Roster) -> String {
    let entry = |entry: &RosterEntry| json!({"beat": entry.beat, "seconds": entry.seconds, "ranges": entry.ranges});
    let entries = roster.0.iter().map(|(name, it)| (name.clone(), entry(it)));
    Value::Object(entries.collect()).to_string()
}

/// Returns the body that creates a Lease with this record.
pub fn new_lease(namespace: &str, name: &str, record: &LeaseRecord) -> Vec<u8> {
    let mut lease = json!({
        "apiVersion": API,
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name},
    });
    write_record(&mut lease, record);
    lease.to_string().into_bytes()
}

/// Returns the body that replaces only the record of a Lease. Labels, annotations, owners and fields of newer servers
/// stay as they were read, as in client-go's `LeaseLock`. `read` is the object as the server sent it. The server
/// rejects the update if `read` is not its latest version.
pub fn updated_lease(read: &[u8], record: &LeaseRecord) -> Result<Vec<u8>, serde_json::Error> {
    let mut lease: Value = serde_json::from_slice(read)?;
    if let Some(metadata) = lease["metadata"].as_object_mut() {
        // The server manages them; they are long and need not be sent back.
        metadata.remove("managedFields");
    }
    write_record(&mut lease, record);
    Ok(lease.to_string().into_bytes())
}

fn write_record(lease: &mut Value, record: &LeaseRecord) {
    match &record.roster {
        Some(roster) => lease["metadata"]["annotations"][REPLICAS] = roster_text(roster).into(),
        None => {
            if let Some(annotations) = lease["metadata"]["annotations"].as_object_mut() {
                annotations.remove(REPLICAS);
            }
        }
    }
    let spec = &mut lease["spec"];
    spec["holderIdentity"] = json!(record.holder);
    spec["leaseDurationSeconds"] = json!(record.seconds);
    spec["acquireTime"] = json!(record.acquired.map(Time::to_rfc3339_micros));
    spec["renewTime"] = json!(record.renewed.map(Time::to_rfc3339_micros));
    spec["leaseTransitions"] = json!(record.transitions);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Lease as the server stores it.
    fn stored(body: &[u8]) -> Vec<u8> {
        let mut lease: Value = serde_json::from_slice(body).expect("JSON");
        lease["metadata"]["resourceVersion"] = json!("7");
        lease.to_string().into_bytes()
    }

    #[test]
    fn an_update_keeps_everything_that_others_have_written() {
        let read = json!({
            "apiVersion": API,
            "kind": "Lease",
            "metadata": {
                "namespace": "kube-system",
                "name": "lakh",
                "uid": "u",
                "resourceVersion": "7",
                "labels": {"app": "lakh"},
                "annotations": {"team": "batch", REPLICAS: "{}"},
                "ownerReferences": [{"kind": "Deployment", "name": "lakh"}],
                "managedFields": [{"manager": "argocd"}],
            },
            "spec": {"holderIdentity": "other", "leaseTransitions": 2, "strategy": "OldestEmulationVersion"},
        });
        let record = LeaseRecord {
            holder: "host_1".to_owned(),
            seconds: 15,
            transitions: 3,
            ..LeaseRecord::default()
        };
        let body = updated_lease(read.to_string().as_bytes(), &record).expect("JSON");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        let mut expected = read;
        let metadata = expected["metadata"].as_object_mut().expect("an object");
        metadata.remove("managedFields");
        metadata.insert("annotations".to_owned(), json!({"team": "batch"}));
        expected["spec"] = json!({
            "holderIdentity": "host_1",
            "leaseDurationSeconds": 15,
            "acquireTime": null,
            "renewTime": null,
            "leaseTransitions": 3,
            "strategy": "OldestEmulationVersion",
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn a_written_lease_is_read_back() {
        let record = LeaseRecord {
            holder: "host_1".to_owned(),
            seconds: 15,
            acquired: Some(Time::from_millis(1_795_231_200_001)),
            renewed: Some(Time::from_millis(1_795_231_210_999)),
            transitions: 3,
            roster: None,
        };
        let body = new_lease("kube-system", "lakh", &record);
        let text = std::str::from_utf8(&body).expect("text");
        assert!(
            text.contains(r#""renewTime":"2026-11-21T03:20:10.999000Z""#),
            "{text}"
        );
        let found = decode_lease(&stored(&body)).expect("a Lease");
        assert_eq!((found.record, found.version.as_str()), (record, "7"));
    }

    #[test]
    fn so_is_a_roster_and_one_that_is_damaged_is_none() {
        let entry = RosterEntry {
            beat: 7,
            seconds: 15,
            ranges: BTreeSet::from([0, 3]),
        };
        let roster = Roster(BTreeMap::from([("host_1".to_owned(), entry)]));
        let record = LeaseRecord {
            roster: Some(roster),
            ..LeaseRecord::default()
        };
        let body = stored(&new_lease("kube-system", "lakh", &record));
        let found = decode_lease(&body).expect("a Lease");
        assert_eq!(found.record.roster, record.roster);
        let text = String::from_utf8(body).expect("text");
        assert!(text.contains(r#"\"ranges\":[0,3]"#), "{text}");
        let damaged = text.replace("beat", "best");
        let found = decode_lease(damaged.as_bytes()).expect("a Lease");
        assert_eq!(found.record.roster, None);
    }

    #[test]
    fn an_empty_lease_has_no_holder() {
        let found = decode_lease(br#"{"metadata":{"resourceVersion":"1"}}"#).expect("a Lease");
        assert_eq!(found.record, LeaseRecord::default());
        assert!(decode_lease(b"{}").is_err());
    }
}
