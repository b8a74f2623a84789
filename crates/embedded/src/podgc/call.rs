//! Defines the collector's API calls.
//!
//! Responsible for: the calls as values and as requests. Must not: send them, or decide when.

use compact_str::CompactString;
use serde_json::{Value, json};

use super::{Phase, PodFacts, Reason};
use crate::{
    model::Time,
    request::{ApiRequest, JSON, STRATEGIC_MERGE_PATCH},
};

/// An API call of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the pass goes on when this is answered"]
pub enum Call {
    /// Set the Pod's phase to Failed: no other component will.
    Fail {
        /// The Pod as it was when the pass began.
        pod: PodFacts,
        /// Why the Pod goes.
        reason: Reason,
    },
    /// Delete the Pod without a grace period.
    Delete {
        /// The Pod as it was when the pass began.
        pod: PodFacts,
        /// Why the Pod goes.
        reason: Reason,
    },
    /// Check whether a node exists.
    GetNode {
        /// Its name.
        name: CompactString,
        /// Pods to remove if the node does not exist.
        pods: Vec<PodFacts>,
    },
}

impl Call {
    /// Returns the first call of a forced deletion.
    pub(super) fn force_delete(pod: PodFacts, reason: Reason) -> Self {
        match pod.phase {
            Phase::Ended => Self::Delete { pod, reason },
            Phase::Active | Phase::Strange => Self::Fail { pod, reason },
        }
    }

    /// Renders the call as a request made at time `at`.
    pub fn request(&self, at: Time) -> ApiRequest {
        let (method, path, content_type, body) = match self {
            Self::Fail { pod, reason } => {
                let (path, body) = (format!("{}/status", path(pod)), failed(pod, *reason, at));
                ("PATCH", path, STRATEGIC_MERGE_PATCH, body.to_string())
            }
            Self::Delete { pod, .. } => {
                let options = json!({
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "gracePeriodSeconds": 0,
                });
                ("DELETE", path(pod), JSON, options.to_string())
            }
            Self::GetNode { name, .. } => {
                ("GET", format!("/api/v1/nodes/{name}"), JSON, String::new())
            }
        };
        ApiRequest {
            method,
            path,
            content_type,
            body: body.into_bytes(),
        }
    }
}

fn path(pod: &PodFacts) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// Returns the status patch that marks a Pod as Failed. Its reason, message and other conditions stay: the patch merges
/// conditions by type.
fn failed(pod: &PodFacts, reason: Reason, at: Time) -> Value {
    let mut status = json!({"phase": "Failed"});
    let mut condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
        "lastTransitionTime": at.to_rfc3339(),
    });
    if pod.generation != 0 {
        status["observedGeneration"] = pod.generation.into();
        condition["observedGeneration"] = pod.generation.into();
    }
    if reason == Reason::Orphaned {
        status["conditions"] = json!([condition]);
    }
    json!({"metadata": {"uid": pod.uid.to_string()}, "status": status})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Uid;

    fn pod(generation: i64) -> PodFacts {
        PodFacts {
            namespace: "ns".into(),
            name: "p".into(),
            uid: Uid::from_u128(7),
            node: "n1".into(),
            generation,
            created: Time::from_secs(0),
            phase: Phase::Active,
            evicted: false,
            deleting: false,
        }
    }

    fn fail(generation: i64, reason: Reason) -> Call {
        Call::Fail {
            pod: pod(generation),
            reason,
        }
    }

    fn shown(call: &Call) -> String {
        let ApiRequest {
            method,
            path,
            content_type,
            body,
        } = call.request(Time::from_millis(1_795_231_200_999));
        let body = String::from_utf8(body).expect("bodies are text");
        format!("{method} {path} {content_type} {body}")
    }

    #[test]
    fn an_orphaned_pod_failed_because_its_node_is_gone() {
        assert_eq!(
            shown(&fail(3, Reason::Orphaned)),
            r#"PATCH /api/v1/namespaces/ns/pods/p/status application/strategic-merge-patch+json {"metadata":{"uid":"00000000-0000-0000-0000-000000000007"},"status":{"conditions":[{"lastTransitionTime":"2026-11-21T03:20:00Z","message":"PodGC: node no longer exists","observedGeneration":3,"reason":"DeletionByPodGC","status":"True","type":"DisruptionTarget"}],"observedGeneration":3,"phase":"Failed"}}"#
        );
        let without_generation = shown(&fail(0, Reason::Orphaned));
        assert!(!without_generation.contains("observedGeneration"));
    }

    #[test]
    fn others_failed_and_that_is_all_that_is_said() {
        for reason in [
            Reason::Terminated,
            Reason::OutOfService,
            Reason::Unscheduled,
        ] {
            assert_eq!(
                shown(&fail(3, reason)),
                r#"PATCH /api/v1/namespaces/ns/pods/p/status application/strategic-merge-patch+json {"metadata":{"uid":"00000000-0000-0000-0000-000000000007"},"status":{"observedGeneration":3,"phase":"Failed"}}"#
            );
        }
    }

    #[test]
    fn pods_are_deleted_at_once_and_without_preconditions() {
        let delete = Call::Delete {
            pod: pod(1),
            reason: Reason::Unscheduled,
        };
        assert_eq!(
            shown(&delete),
            r#"DELETE /api/v1/namespaces/ns/pods/p application/json {"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions"}"#
        );
        let get = Call::GetNode {
            name: "n1".into(),
            pods: Vec::new(),
        };
        assert_eq!(shown(&get), "GET /api/v1/nodes/n1 application/json ");
    }
}
