//! Builds Jobs and their surroundings from YAML, for tests.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, ResourceQuota};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use lakh_model::{Time, Uid, stable_hash};
use lakh_wire::{Object, PodDetails};

use crate::{
    ask::{Sight, Unseen},
    objects::ServerLease,
};

use super::{JobDetails, JobSight};

/// Time of the look.
pub(crate) const NOW: &str = "2026-11-26T03:00:00Z";

/// Default creation time of a Job.
const MADE: &str = "2026-11-26T02:50:00Z";

/// Objects in API form; the parts of names and UIDs that do not matter are left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SeenJob {
    job: Value,
    /// Each may have a `count`, to stand for that many equal Pods.
    pods: Vec<Value>,
    events: Vec<Value>,
    pod_events: Vec<Value>,
    quotas: Vec<Value>,
    /// For how many seconds the API server has not renewed its Lease.
    server_silent_for: Option<u64>,
    /// Reads that failed: `pods`, `events` or `quotas`.
    unseen: Vec<String>,
}

/// Returns a UID derived from a name.
fn uid(name: &str) -> String {
    Uid::from_u128(u128::from(stable_hash(name.bytes()))).to_string()
}

fn set(object: &mut Value, field: &str, value: Value) {
    if object[field].is_null() {
        object[field] = value;
    }
}

fn typed<T: DeserializeOwned>(objects: &[Value]) -> Vec<T> {
    let objects = objects.iter();
    let typed = objects.map(|object| serde_json::from_value(object.clone()).expect("an object"));
    typed.collect()
}

impl SeenJob {
    /// Parses a case.
    pub(crate) fn read(yaml: &str) -> JobSight {
        let seen: Self =
            serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{error}: {yaml}"));
        seen.sight()
    }

    fn sight(&self) -> JobSight {
        let mut job = self.job.clone();
        for (field, value) in [
            ("name", json!("j")),
            ("namespace", json!("ml")),
            ("uid", json!(uid("j"))),
            ("resourceVersion", json!("7")),
            ("creationTimestamp", json!(MADE)),
        ] {
            set(&mut job["metadata"], field, value);
        }
        set(&mut job["spec"], "template", json!({}));
        set(&mut job, "status", json!({"startTime": MADE}));
        let job = JobDetails::read(&job.to_string()).expect("a good Job");
        let mut sight = JobSight::of(job, Time::parse_rfc3339(NOW).expect("a time"));
        for (at, pod) in self.pods.iter().enumerate() {
            let mut pod = pod.clone();
            let count = pod["count"].take().as_u64().unwrap_or(1);
            let owner = json!([{"uid": uid("j"), "controller": true}]);
            set(&mut pod["metadata"], "name", json!(format!("j-{at}")));
            set(&mut pod["metadata"], "uid", json!(uid("p")));
            set(
                &mut pod["metadata"],
                "creationTimestamp",
                json!("2026-11-26T02:55:00Z"),
            );
            set(&mut pod["metadata"], "ownerReferences", owner);
            for _ in 0..count {
                let details = PodDetails::read(Object::Json(&pod.to_string()));
                sight.pods.take(details.expect("a good Pod"));
            }
        }
        sight.pods.has_successes = true;
        sight.pods.finish();
        let unseen = |kind: &str| {
            let is_unseen = self.unseen.iter().any(|it| it == kind);
            is_unseen.then(|| Unseen {
                what: kind.to_owned(),
                why: format!("{kind} is forbidden"),
            })
        };
        sight.pods_unseen.extend(unseen("pods"));
        sight.events = Sight {
            found: typed::<Event>(&self.events),
            unseen: unseen("events").into_iter().collect(),
        };
        sight.pod_events.found = typed::<Event>(&self.pod_events);
        sight.quotas = Sight {
            found: typed::<ResourceQuota>(&self.quotas),
            unseen: unseen("quotas").into_iter().collect(),
        };
        sight.stuck_server = self.server_silent_for.map(|seconds| ServerLease {
            key: "kube-system/apiserver-abc".to_owned(),
            age: Duration::from_secs(seconds),
        });
        sight
    }
}
