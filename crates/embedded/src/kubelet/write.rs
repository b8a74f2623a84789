//! Defines the hollow kubelet's API writes.
//!
//! Responsible for: the writes as values and as requests, and the interpretation of their responses.
//! Must not: send them.

use serde_json::json;

use crate::request::{ApiRequest, JSON, STRATEGIC_MERGE_PATCH};

/// A write for one Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a dropped write is a Pod that stays where it is"]
pub struct PodWrite {
    /// Namespace of the Pod.
    pub namespace: String,
    /// Name of the Pod.
    pub name: String,
    /// UID of the Pod; a Pod with the same name and another UID must not be changed.
    pub uid: String,
    /// The action of the write.
    pub action: Action,
}

/// The kinds of write, in the order of a Pod's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Bind the Pod to a node.
    Bind {
        /// Name of the node.
        node: String,
    },
    /// Patch the status: the body of a strategic merge patch, guarded by the UID.
    Status(Vec<u8>),
    /// Create an Event about the Pod: its body.
    Event(Vec<u8>),
    /// Delete with the Pod's own grace period, if the UID still matches.
    Remove,
    /// Delete through the eviction API, which also marks the Pod as disrupted.
    Evict,
    /// Delete with a grace period of zero, if the UID still matches.
    Delete,
}

/// Result of a write, given its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The write succeeded, or is not needed.
    Done,
    /// The Pod no longer exists, or has another UID; drop it.
    Gone,
    /// The write may be retried later.
    Retry,
}

impl PodWrite {
    /// Renders the write as a request.
    pub fn request(&self) -> ApiRequest {
        let Self {
            namespace,
            name,
            uid,
            action,
        } = self;
        let all = format!("/api/v1/namespaces/{namespace}");
        let pod = format!("{all}/pods/{name}");
        let (method, path, content_type, body) = match action {
            Action::Bind { node } => {
                let binding = json!({
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"namespace": namespace, "name": name, "uid": uid},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": node},
                });
                ("POST", format!("{pod}/binding"), JSON, to_bytes(&binding))
            }
            Action::Status(patch) => {
                let path = format!("{pod}/status");
                ("PATCH", path, STRATEGIC_MERGE_PATCH, patch.clone())
            }
            Action::Event(body) => ("POST", format!("{all}/events"), JSON, body.clone()),
            Action::Evict => {
                let eviction = json!({
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"namespace": namespace, "name": name},
                    "deleteOptions": {"preconditions": {"uid": uid}},
                });
                ("POST", format!("{pod}/eviction"), JSON, to_bytes(&eviction))
            }
            Action::Remove | Action::Delete => {
                let mut options = json!({
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "preconditions": {"uid": uid},
                });
                if *action == Action::Delete {
                    options["gracePeriodSeconds"] = 0.into();
                }
                ("DELETE", pod, JSON, to_bytes(&options))
            }
        };
        ApiRequest {
            method,
            path,
            content_type,
            body,
        }
    }

    /// Interprets the HTTP status code of the response to this write.
    ///
    /// A wrong UID is refused with 422 for a status and with 409 for a delete. A binding is refused with 409 if another
    /// client bound the Pod first; the watch will show that.
    pub(super) fn outcome(&self, status_code: u16) -> Outcome {
        match (status_code, &self.action) {
            (200..=299, _) => Outcome::Done,
            // The Event exists already or is refused; the Pod goes on without it.
            (400..=428 | 430..=499, Action::Event(_)) => Outcome::Done,
            (404, _) => Outcome::Gone,
            (422, Action::Status(_)) => Outcome::Gone,
            (409, Action::Delete | Action::Remove | Action::Evict) => Outcome::Gone,
            _ => Outcome::Retry,
        }
    }
}

fn to_bytes(value: &serde_json::Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(action: Action) -> PodWrite {
        PodWrite {
            namespace: "ns".into(),
            name: "p".into(),
            uid: "u".into(),
            action,
        }
    }

    #[test]
    fn writes_are_requests() {
        let cases = [
            (
                write(Action::Bind { node: "n1".into() }),
                r#"POST /api/v1/namespaces/ns/pods/p/binding application/json {"apiVersion":"v1","kind":"Binding","metadata":{"name":"p","namespace":"ns","uid":"u"},"target":{"apiVersion":"v1","kind":"Node","name":"n1"}}"#,
            ),
            (
                write(Action::Status(b"{}".to_vec())),
                "PATCH /api/v1/namespaces/ns/pods/p/status application/strategic-merge-patch+json {}",
            ),
            (
                write(Action::Delete),
                r#"DELETE /api/v1/namespaces/ns/pods/p application/json {"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions","preconditions":{"uid":"u"}}"#,
            ),
        ];
        for (write, want) in cases {
            let ApiRequest {
                method,
                path,
                content_type,
                body,
            } = write.request();
            let body = String::from_utf8(body).expect("bodies are text");
            assert_eq!(format!("{method} {path} {content_type} {body}"), want);
        }
    }

    #[test]
    fn answers_say_whether_to_try_again() {
        let (bind, status) = (
            write(Action::Bind { node: "n".into() }),
            write(Action::Status(vec![])),
        );
        let (delete, event) = (write(Action::Delete), write(Action::Event(vec![])));
        let cases = [
            (&bind, 201, Outcome::Done),
            (&bind, 409, Outcome::Retry),
            (&bind, 404, Outcome::Gone),
            (&status, 200, Outcome::Done),
            (&status, 409, Outcome::Retry),
            (&status, 422, Outcome::Gone),
            (&status, 429, Outcome::Retry),
            (&status, 503, Outcome::Retry),
            (&event, 201, Outcome::Done),
            (&event, 403, Outcome::Done),
            (&event, 404, Outcome::Done),
            (&event, 429, Outcome::Retry),
            (&event, 500, Outcome::Retry),
            (&delete, 409, Outcome::Gone),
            (&delete, 200, Outcome::Done),
        ];
        for (write, code, want) in cases {
            assert_eq!(write.outcome(code), want, "{write:?} {code}");
        }
    }
}
