//! Defines one rule: the matching requests, the fault, its frequency and its duration.
//!
//! Responsible for: the fields, their valid combinations, and their meaning. Must not: draw or count.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{go_duration, observed_request::ObservedRequest};
use crate::apiserver::{
    http::Query,
    object::{ApiError, STALE},
    print::Response,
};

/// Order of the fault and the execution of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The fault comes first: the request is not executed.
    Before,
    /// The request is executed, and its response is lost.
    After,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// A request takes longer.
    Latency,
    /// A request is rejected and not executed.
    Refuse,
    /// A request is not executed and gets 504.
    TimeoutBefore,
    /// A request is executed and gets 504.
    TimeoutAfter,
    /// A request is not executed, and the connection is closed.
    DropBefore,
    /// A request is executed, and the connection is closed before the response.
    DropAfter,
    /// A watch ends.
    CloseWatch,
    /// A watch, or the next page of a list, is answered with 410.
    Expire,
    /// A read returns an older state.
    Stale,
    /// Each event of a watch is sent twice.
    DuplicateEvents,
    /// The events of a watch are delayed.
    DelayEvents,
    /// Nothing passes in either direction until the rule ends.
    Partition,
}

impl FaultKind {
    /// Returns true if the fault decides the outcome of a request; the first such rule wins.
    pub(super) const fn is_outcome(self) -> bool {
        matches!(
            self,
            Self::Refuse
                | Self::TimeoutBefore
                | Self::TimeoutAfter
                | Self::DropBefore
                | Self::DropAfter
                | Self::Expire
        )
    }

    /// Returns true if the fault affects watches only, or is a partition.
    pub(super) const fn is_for_watches(self) -> bool {
        matches!(
            self,
            Self::CloseWatch | Self::DuplicateEvents | Self::DelayEvents | Self::Partition
        )
    }

    pub(super) const fn when(self) -> When {
        match self {
            Self::TimeoutAfter | Self::DropAfter => When::After,
            _ => When::Before,
        }
    }

    /// The field that a value after the fault's name sets.
    pub(super) const fn main_field(self) -> Option<&'static str> {
        match self {
            Self::Latency
            | Self::TimeoutBefore
            | Self::TimeoutAfter
            | Self::CloseWatch
            | Self::Expire
            | Self::DelayEvents => Some("delay"),
            Self::Refuse => Some("code"),
            Self::Stale => Some("changes"),
            Self::DropBefore | Self::DropAfter | Self::DuplicateEvents | Self::Partition => None,
        }
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// The fault.
    pub fault: FaultKind,
    /// The delay, or the time until the fault occurs.
    #[serde(default, with = "go_duration", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// The status code of a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// The message of a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The time until the client may retry.
    #[serde(default, with = "go_duration", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The number of changes that a stale read is behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<u64>,
    /// Matching verbs, such as `create`; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// Matching resources, such as `pods` or `jobs/status`; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Prefix of matching paths.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Prefix of the `User-Agent` of matching clients.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client: String,
    /// The probability of the fault for a matching request or watch.
    #[serde(default = "always")]
    pub probability: f64,
    /// The maximum number of hits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The duration of the rule.
    #[serde(rename = "for")]
    #[serde(default, with = "go_duration", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Duration>,
}

/// An invalid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct RuleError {
    field: String,
    problem: String,
}

impl RuleError {
    pub(super) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }

    pub(super) fn of_rule(self, nth: usize) -> Self {
        Self {
            field: format!("rules[{nth}].{}", self.field),
            ..self
        }
    }
}

/// A request to set the rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    pub(super) seed: Option<u64>,
    pub(super) rules: Vec<Rule>,
}

impl Wanted {
    pub(super) fn read(json: &[u8]) -> Result<Self, RuleError> {
        let mut reader = serde_json::Deserializer::from_slice(json);
        let wanted = serde_path_to_error::deserialize(&mut reader);
        let wanted: Self = wanted.map_err(|error| in_our_words(&error))?;
        let end = reader.end();
        end.map_err(|error| RuleError::new("body", error.to_string()))?;
        Ok(wanted)
    }
}

impl Rule {
    /// A rule for all clients and all requests.
    pub fn new(fault: FaultKind) -> Self {
        let rule = serde_json::from_value(json!({"fault": fault}));
        rule.expect("all other fields have defaults")
    }

    /// Delays all calls.
    pub fn latency(delay: Duration) -> Self {
        Self {
            delay: Some(delay),
            ..Self::new(FaultKind::Latency)
        }
    }

    /// Parses a rule from its fields.
    pub(super) fn from_json(value: Value) -> Result<Self, RuleError> {
        let rule = serde_path_to_error::deserialize::<_, Self>(value);
        rule.map_err(|error| in_our_words(&error))
    }

    pub(super) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_else(|error| json!({"error": error.to_string()}))
    }

    /// Validates the combination of fields.
    pub(super) fn check(&self) -> Result<(), RuleError> {
        use FaultKind::{DelayEvents, Latency, Partition, Refuse, Stale};
        let main = self.fault.main_field();
        let needs_main = matches!(self.fault, Latency | DelayEvents | Refuse | Stale);
        for (field, is_given) in [
            ("delay", self.delay.is_some()),
            ("code", self.code.is_some()),
            ("changes", self.changes.is_some()),
        ] {
            match (main == Some(field), is_given) {
                (true, false) if needs_main => return Err(RuleError::new(field, "is missing")),
                (false, true) => return Err(RuleError::new(field, "does not apply to this fault")),
                _ => {}
            }
        }
        if self.code.is_some_and(|code| !(400..600).contains(&code)) {
            return Err(RuleError::new("code", "must be from 400 to 599"));
        }
        let is_share = (0.0..=1.0).contains(&self.probability);
        let for_others = "does not apply to this fault";
        let for_long = "does not apply to a partition, which needs a duration";
        let (refuses, cuts_off) = (self.fault == Refuse, self.fault == Partition);
        for (field, is_wrong, problem) in [
            ("message", !refuses && self.message.is_some(), for_others),
            (
                "retryAfter",
                !refuses && self.retry_after.is_some(),
                for_others,
            ),
            ("probability", !is_share, "must be a number from 0 to 1"),
            ("times", cuts_off && self.times.is_some(), for_long),
            ("probability", cuts_off && self.probability < 1.0, for_long),
        ] {
            if is_wrong {
                return Err(RuleError::new(field, problem));
            }
        }
        Ok(())
    }

    /// Returns true if the rule matches the request or watch.
    pub(super) fn means(&self, request: &ObservedRequest) -> bool {
        let resource = |wanted: &String| match wanted.split_once('/') {
            None => wanted == request.label.resource && request.label.subresource.is_empty(),
            Some((resource, subresource)) => {
                resource == request.label.resource && subresource == request.label.subresource
            }
        };
        (self.verbs.is_empty() || self.verbs.iter().any(|verb| verb == request.label.verb))
            && (self.resources.is_empty() || self.resources.iter().any(resource))
            && request.path.starts_with(&self.path)
            && request.client.starts_with(&self.client)
    }

    /// Returns true if the fault can occur in a request of this kind.
    pub(super) fn applies_to(&self, request: &ObservedRequest) -> bool {
        let verb = request.label.verb;
        match self.fault {
            FaultKind::Stale => matches!(verb, "get" | "list"),
            // `Faults::judge_watch` handles open watches; the first page of a list never expires.
            FaultKind::Expire => {
                verb == "list" && !Query::parse(&request.query).text("continue").is_empty()
            }
            // Only the faults of open watches apply after a watch has started.
            FaultKind::TimeoutAfter | FaultKind::DropAfter => verb != "watch",
            _ => true,
        }
    }

    pub(super) fn refusal(&self) -> Response {
        let code = self.code.unwrap_or(500);
        let (reason, message) = words(code);
        let message = self.message.as_deref().unwrap_or(message);
        let mut error = ApiError::new(code, reason, message);
        if code == 429 && self.message.is_none() {
            // An overloaded server responds in plain text, an admission webhook with a `Status`.
            error = ApiError::text(code, message);
        }
        let retry_after = self
            .retry_after
            .or((code == 429).then_some(Duration::from_secs(1)));
        if let Some(wait) = retry_after {
            // The header has whole seconds.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            error = error
                .with_details(json!({"retryAfterSeconds": seconds}))
                .with_header("Retry-After", seconds.to_string());
        }
        error.into()
    }
}

/// The reason and message of a real server for a status code.
fn words(code: u16) -> (&'static str, &'static str) {
    let asked_for = "a fault was asked for";
    match code {
        403 => ("Forbidden", asked_for),
        404 => (
            "NotFound",
            "the server could not find the requested resource",
        ),
        409 => ("Conflict", STALE),
        410 => ("Expired", "too old resource version: a fault was asked for"),
        422 => ("Invalid", asked_for),
        429 => (
            "TooManyRequests",
            "Too many requests, please try again later.",
        ),
        500 => (
            "InternalError",
            "Internal error occurred: a fault was asked for",
        ),
        503 => ("ServiceUnavailable", UNAVAILABLE),
        504 => ("Timeout", TIMEOUT),
        _ => ("", asked_for),
    }
}

const UNAVAILABLE: &str = "the server is currently unable to handle the request";
pub(super) const TIMEOUT: &str = "Timeout: request did not complete within the allotted timeout";

fn in_our_words(error: &serde_path_to_error::Error<serde_json::Error>) -> RuleError {
    match error.path().to_string().as_str() {
        "." => RuleError::new("fault", error.inner().to_string()),
        path => RuleError::new(path, error.inner().to_string()),
    }
}

fn always() -> f64 {
    1.0
}
