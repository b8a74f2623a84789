//! Wraps the embedded API server for a simulation: adds a journal of changes, a backup, and webhooks.
//!
//! Must not: know which client is right.

use std::sync::Arc;

use lakh::{
    embedded::apiserver::{
        ApiServer, Body, EventType, Kind, Limits, Reply, Request, Stored, prepare,
    },
    model::Time,
    wire::SchedulingApi,
};
use serde_json::{Value, json};

/// Changes that a watch may lag before it gets 410.
const LOG: usize = 400;

/// Kinds that are journaled for judges and nodes.
pub(crate) const JOURNALED: [Kind; 6] = [
    Kind::Job,
    Kind::Pod,
    Kind::CronJob,
    Kind::Event,
    Kind::Node,
    Kind::PodGroup,
];

/// The creation, change or deletion of an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) what: EventType,
    /// The object's state after the change, or its last state.
    pub(crate) new: Arc<Stored>,
}

/// The effect of an admission webhook on Pods of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Webhook {
    /// It refuses creations with this code.
    Refuses(u16),
    /// It removes the labels.
    Strips,
    /// Another client creates a Pod of the same name first.
    Squats,
    /// It answers slowly.
    IsSlow,
}

/// A kind of write that a policy refuses to controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) method: &'static str,
    /// With the subresource, if the policy is about one.
    pub(crate) resource: &'static str,
    pub(crate) code: u16,
}

/// The message of such a refusal.
pub(crate) const DENIED: &str = "policy \"p.example.com\" denied the request: no";

/// Delay by a slow webhook, in milliseconds.
const SLOW: u64 = 12_000;

/// A response.
#[derive(Debug)]
pub(crate) enum Answer {
    Whole(u16, Vec<u8>),
    Watch(Box<lakh::embedded::apiserver::WatchCursor>),
}

/// The simulated API server. It keeps the position in each kind's log up to which changes were passed on.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) api: ApiServer,
    positions: [u64; JOURNALED.len()],
    /// Namespace and effect of the active webhook.
    pub(crate) webhook: Option<(&'static str, Webhook)>,
    /// Namespace and refused write of the active policy.
    pub(crate) denial: Option<(&'static str, Denial)>,
}

impl Server {
    pub(crate) fn new(seed: u64, now: Time) -> Self {
        let limits = Limits { log_capacity: LOG };
        let mut server = Self {
            api: ApiServer::new(seed, limits, now),
            positions: [0; JOURNALED.len()],
            webhook: None,
            denial: None,
        };
        let _ = server.changes();
        server
    }

    /// Replaces the state with an earlier one.
    pub(crate) fn restore(&mut self, backup: ApiServer, seed: u64) {
        self.api = backup;
        self.api.reseed(seed);
        self.api.forget_events();
        self.skip();
    }

    /// Drops the events that watches have not received yet.
    pub(crate) fn forget_events(&mut self) {
        self.api.forget_events();
        self.skip();
    }

    fn skip(&mut self) {
        for (position, kind) in self.positions.iter_mut().zip(JOURNALED) {
            *position = self.api.log_end(kind);
        }
    }

    /// Returns the changes since the last call.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (position, kind) in self.positions.iter_mut().zip(JOURNALED) {
            if *position == self.api.log_end(kind) {
                continue;
            }
            let events = self.api.events(kind, *position, usize::MAX);
            for event in events.expect("it is read after each request") {
                *position += 1;
                changes.push(Change {
                    what: event.event_type,
                    new: event.object,
                });
            }
        }
        changes.sort_by_key(|change| change.new.version);
        changes
    }

    /// Handles a request. A read may return the state of `stale` changes ago.
    pub(crate) fn handle(&mut self, request: Request<'_>, stale: u64, now: Time) -> Answer {
        if let Some(refusal) = self.ask_policy(&request) {
            return refusal;
        }
        if let Some(refusal) = self.ask_webhook(&request) {
            return refusal;
        }
        let stripped = self.strip(&request);
        let mut request = request;
        if let Some(body) = &stripped {
            request.body = body;
        }
        let prepared = prepare(request);
        let reply = match stale {
            0 => self.api.handle_prepared(prepared, now),
            changes => self.api.handle_stale(prepared, changes, now),
        };
        match reply {
            Reply::Watch(cursor) => Answer::Watch(cursor),
            Reply::Complete(response) => {
                let code = response.status;
                let bytes = match response.body {
                    Body::Bytes(bytes) => bytes,
                    _ => response.into_bytes(),
                };
                Answer::Whole(code, bytes)
            }
        }
    }

    /// Returns the newest version of the scheduling API that it serves.
    pub(crate) fn scheduling_api(&mut self) -> SchedulingApi {
        let path = SchedulingApi::group_path();
        let asked = Request {
            method: "GET",
            path: &path,
            ..Request::default()
        };
        let Answer::Whole(_, body) = self.handle(asked, 0, Time::default()) else {
            unreachable!("a group is no watch");
        };
        let offered = SchedulingApi::offered(&body).expect("the server describes the group");
        offered.into_iter().next().expect("it serves gangs")
    }

    fn is_hooked(&self, method: &str, path: &str) -> Option<Webhook> {
        let (namespace, webhook) = self.webhook?;
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        (method == "POST" && path == pods).then_some(webhook)
    }

    /// Returns the additional delay of a request in milliseconds.
    pub(crate) fn pause(&self, method: &str, path: &str) -> u64 {
        match self.is_hooked(method, path) {
            Some(Webhook::IsSlow) => SLOW,
            _ => 0,
        }
    }

    fn ask_policy(&self, request: &Request<'_>) -> Option<Answer> {
        let (namespace, denial) = self.denial?;
        if request.method != denial.method || request.user_agent != "lakh" {
            return None;
        }
        let (_, rest) = request
            .path
            .split_once(&format!("/namespaces/{namespace}/"))?;
        let mut parts = rest.split('/');
        let (resource, _, part) = (parts.next()?, parts.next()?, parts.next());
        let is_meant = match part {
            Some(part) => format!("{resource}/{part}") == denial.resource,
            None => resource == denial.resource,
        };
        is_meant.then(|| Answer::Whole(denial.code, refusal(denial.code, DENIED)))
    }

    fn ask_webhook(&self, request: &Request<'_>) -> Option<Answer> {
        let Webhook::Refuses(code) = self.is_hooked(request.method, request.path)? else {
            return None;
        };
        Some(Answer::Whole(
            code,
            refusal(
                code,
                "admission webhook \"w.example.com\" denied the request: no",
            ),
        ))
    }

    /// Creates another client's Pod under the requested name, if the webhook squats.
    pub(crate) fn squat(&mut self, request: &Request<'_>, now: Time) {
        if self.is_hooked(request.method, request.path) != Some(Webhook::Squats) {
            return;
        }
        let asked: Value = serde_json::from_slice(request.body).expect("a Pod");
        // The owner reference has the Job's UID and another name.
        let mut owners = asked["metadata"]["ownerReferences"].clone();
        owners[0]["name"] = json!("another");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": asked["metadata"]["name"], "ownerReferences": owners},
            "spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"},
        });
        let body = pod.to_string();
        let squatter = Request {
            body: body.as_bytes(),
            user_agent: "kubectl",
            ..*request
        };
        let _ = self.api.handle_prepared(prepare(squatter), now);
    }

    fn strip(&self, request: &Request<'_>) -> Option<Vec<u8>> {
        if self.is_hooked(request.method, request.path)? != Webhook::Strips {
            return None;
        }
        let mut pod: Value = serde_json::from_slice(request.body).ok()?;
        pod["metadata"]["labels"] = json!({});
        Some(pod.to_string().into_bytes())
    }
}

/// Returns the Status object of an API server's refusal with this code.
pub(crate) fn refusal(code: u16, message: &str) -> Vec<u8> {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        409 => "Conflict",
        422 => "Invalid",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    status.to_string().into_bytes()
}
