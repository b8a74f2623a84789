//! Defines the kinds of calls that fail, and the faults.
//!
//! Must not: hold state, or know how the controller handles a response.

use std::time::Duration;

use bytes::Bytes;

use crate::{
    machine::CallResult,
    wire::{ApiError, Call},
};

use super::{ACCOUNT, CALL_TIMEOUT};

/// A kind of call: its title on the page, its method, and substrings by which its path is recognized.
pub(super) struct CallKind {
    pub(super) title: &'static str,
    /// `*` for every write.
    method: &'static str,
    contains: &'static [&'static str],
    lacks: &'static [&'static str],
    /// The verb, API group and resource that a role grants for it.
    pub(super) right: (&'static str, &'static str, &'static str),
    /// When its calls begin to fail.
    pub(super) from: Duration,
}

const fn kind(
    title: &'static str,
    (method, contains): (&'static str, &'static [&'static str]),
    right: (&'static str, &'static str, &'static str),
) -> CallKind {
    CallKind {
        title,
        method,
        contains,
        lacks: &[],
        right,
        from: Duration::ZERO,
    }
}

/// The API group of Leases.
const COORDINATION: &str = "coordination.k8s.io";

/// The kinds of calls, in the order of the page.
pub(super) const CALLS: &[CallKind] = &[
    kind(
        "List of Jobs",
        ("GET", &["/jobs?limit"]),
        ("list", "batch", "jobs"),
    ),
    kind(
        "List of Pods",
        ("GET", &["/pods?limit"]),
        ("list", "", "pods"),
    ),
    kind(
        "Watch of Jobs",
        ("GET", &["/jobs?watch"]),
        ("watch", "batch", "jobs"),
    ),
    kind(
        "Watch of Pods",
        ("GET", &["/pods?watch"]),
        ("watch", "", "pods"),
    ),
    kind(
        "Creation of a Pod",
        ("POST", &["/pods"]),
        ("create", "", "pods"),
    ),
    kind(
        "Deletion of a Pod",
        ("DELETE", &["/pods/"]),
        ("delete", "", "pods"),
    ),
    kind(
        "Removal of a Pod's finalizer, adoption of a Pod",
        ("PATCH", &["/pods/"]),
        ("patch", "", "pods"),
    ),
    kind(
        "Status of a Job",
        ("PATCH", &["/jobs/", "/status"]),
        ("patch", "batch", "jobs/status"),
    ),
    CallKind {
        lacks: &["/cronjobs/"],
        ..kind(
            "Look at a Job before a Pod is adopted or the Job deleted",
            ("GET", &["/jobs/"]),
            ("get", "batch", "jobs"),
        )
    },
    kind("Event", ("POST", &["/events"]), ("create", "", "events")),
    kind(
        "Read of the Lease",
        ("GET", &["/leases/"]),
        ("get", COORDINATION, "leases"),
    ),
    kind(
        "Write of the Lease",
        ("PUT", &["/leases/"]),
        ("update", COORDINATION, "leases"),
    ),
    kind(
        "Creation of a CronJob's Job",
        ("POST", &["/jobs"]),
        ("create", "batch", "jobs"),
    ),
    kind(
        "Status of a CronJob",
        ("PATCH", &["/cronjobs/", "/status"]),
        ("patch", "batch", "cronjobs/status"),
    ),
    kind(
        "Deletion of a Job whose TTL is over",
        ("DELETE", &["/jobs/"]),
        ("delete", "batch", "jobs"),
    ),
];

/// Every write of every client, from 3 s on: etcd is full.
pub(super) const EVERY_WRITE: CallKind = CallKind {
    from: Duration::from_secs(3),
    ..kind(
        "Every write, of all clients, from 3 s on",
        ("*", &[]),
        ("", "", ""),
    )
};

/// No call, for the row without a failure.
pub(super) const NONE: CallKind = kind("No call", ("none", &[]), ("", "", ""));

impl CallKind {
    /// Returns true for a call of this kind.
    pub(super) fn is_of(&self, call: &Call) -> bool {
        let path = call.path.as_str();
        // A creation's path ends with the kind.
        let ends = |part: &&str| self.method != "POST" || path.ends_with(*part);
        let is_method = match self.method {
            "*" => call.method != "GET",
            method => call.method == method,
        };
        is_method
            && self
                .contains
                .iter()
                .all(|part| path.contains(part) && ends(part))
            && !self.lacks.iter().any(|part| path.contains(part))
    }

    /// Returns true if every write of every client fails, and not the controller's alone.
    pub(super) fn is_every_write(&self) -> bool {
        self.method == "*"
    }
}

/// The response to a call that fails, and the delay after which it comes.
pub(super) type FailedCall = (Duration, CallResult);

/// A way in which calls fail.
pub(super) struct Fault {
    /// The row's name.
    pub(super) name: &'static str,
    answer: Box<dyn Fn(&CallKind) -> FailedCall + Send + Sync>,
    /// True if the controller lacks the permission.
    pub(super) lacks_right: bool,
}

impl Fault {
    /// Calls fail at once, with a status code, a body, and perhaps a delay in seconds that the server demands.
    fn refused(
        name: &'static str,
        code: u16,
        body: impl Fn(&CallKind) -> String + Send + Sync + 'static,
        seconds: Option<u64>,
    ) -> Self {
        let after = seconds.map(Duration::from_secs);
        Self::new(name, move |kind| {
            let error = ApiError::from_response(code, body(kind).as_bytes(), after);
            (Duration::ZERO, Err(error))
        })
    }

    fn new(
        name: &'static str,
        answer: impl Fn(&CallKind) -> FailedCall + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            answer: Box::new(answer),
            lacks_right: false,
        }
    }

    /// Calls have no response; the client itself detects the error.
    pub(super) fn found_out(name: &'static str, after: Duration, error: ApiError) -> Self {
        Self::new(name, move |_| (after, Err(error.clone())))
    }

    /// Returns the response to a call of this kind.
    pub(super) fn answer(&self, kind: &CallKind) -> FailedCall {
        (self.answer)(kind)
    }
}

/// Returns the body of a Status. Most messages are quoted from a real server.
fn status(reason: &str, message: &str) -> String {
    serde_json::json!({"kind": "Status", "reason": reason, "message": message}).to_string()
}

/// The faults of the calls of one kind, in the order of the page. Faults that need a real connection are added later.
pub(super) fn faults() -> Vec<Fault> {
    let forbidden = |kind: &CallKind| {
        let (verb, group, resource) = kind.right;
        let message = format!(
            "{resource} \"x\" is forbidden: User \"system:serviceaccount:{ACCOUNT}\" cannot {verb} resource \
             \"{resource}\" in API group \"{group}\" in the namespace \"d\""
        );
        status(
            "Forbidden",
            &message.replace("kube-system/", "kube-system:"),
        )
    };
    let denied = |_: &CallKind| {
        let message = r#"admission webhook "w.example.com" denied the request: policy P-17"#;
        status("Invalid", message)
    };
    let away = |_: &CallKind| {
        let message = "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: \
                       Post \"https://w.d.svc:443/\": context deadline exceeded";
        status("InternalError", message)
    };
    let busy = |_: &CallKind| "Too many requests, please try again later.".to_owned();
    vec![
        Fault {
            lacks_right: true,
            ..Fault::refused("403, no right", 403, forbidden, None)
        },
        Fault::refused("422, a webhook's refusal", 422, denied, None),
        Fault::refused("500, a webhook is away", 500, away, None),
        Fault::refused("429, busy", 429, busy, None),
        Fault::refused("429, `Retry-After: 0`", 429, busy, Some(0)),
        Fault::refused(
            "503, `Retry-After: 5`",
            503,
            |_| "unavailable".to_owned(),
            Some(5),
        ),
        Fault::refused("302, redirect", 302, |_| String::new(), None),
        Fault::found_out(
            "connection refused, closed or cut",
            Duration::ZERO,
            ApiError::no_answer("connection reset"),
        ),
        Fault::new("success without the object", |_| {
            let page = Bytes::from_static(b"<html>Sign in</html>");
            (Duration::ZERO, Ok(page))
        }),
        Fault::found_out(
            "no answer",
            CALL_TIMEOUT,
            ApiError::no_answer("no answer within 60 s"),
        ),
    ]
}

/// The response to writes while etcd has reached its quota.
pub(super) fn store_full() -> Fault {
    let full = |_: &CallKind| status("", "etcdserver: mvcc: database space exceeded");
    Fault::refused("500, etcd is full", 500, full, None)
}
