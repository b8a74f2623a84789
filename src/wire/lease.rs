//! Reads and writes the Lease of a leader election.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    election::{Lease, LeaseRecord},
    model::Time,
};

use super::timestamp::time;

/// The API version of Leases.
const API: &str = "coordination.k8s.io/v1";

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

/// Reads a Lease's JSON. What is missing is as in client-go: nobody, no time.
pub fn decode_lease(json: &[u8]) -> Result<Lease, serde_json::Error> {
    let RawLease { metadata, spec } = serde_json::from_slice(json)?;
    Ok(Lease {
        record: LeaseRecord {
            holder: spec.holder_identity.unwrap_or_default(),
            seconds: spec.lease_duration_seconds.unwrap_or(0),
            acquired: time(spec.acquire_time),
            renewed: time(spec.renew_time),
            transitions: spec.lease_transitions.unwrap_or(0),
        },
        version: metadata.resource_version,
    })
}

/// A Lease with this in it, of that version if there is one already.
pub fn lease_body(
    namespace: &str,
    name: &str,
    record: &LeaseRecord,
    version: Option<&str>,
) -> Vec<u8> {
    let body: Value = json!({
        "apiVersion": API,
        "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name, "resourceVersion": version},
        "spec": {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": record.seconds,
            "acquireTime": record.acquired.map(Time::to_rfc3339_micros),
            "renewTime": record.renewed.map(Time::to_rfc3339_micros),
            "leaseTransitions": record.transitions,
        },
    });
    body.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let record = LeaseRecord {
            holder: "host_1".to_owned(),
            seconds: 15,
            acquired: Some(Time::from_millis(1_795_231_200_001)),
            renewed: Some(Time::from_millis(1_795_231_210_999)),
            transitions: 3,
        };
        let body = lease_body("kube-system", "lakh", &record, Some("7"));
        let text = std::str::from_utf8(&body).expect("text");
        assert!(
            text.contains(r#""renewTime":"2026-11-21T03:20:10.999000Z""#),
            "{text}"
        );
        let found = decode_lease(&body).expect("a Lease");
        assert_eq!((found.record, found.version.as_str()), (record, "7"));
    }

    #[test]
    fn a_lease_without_anything_is_nobodys() {
        let found = decode_lease(br#"{"metadata":{"resourceVersion":"1"}}"#).expect("a Lease");
        assert_eq!(found.record, LeaseRecord::default());
        assert!(decode_lease(b"{}").is_err());
    }
}
