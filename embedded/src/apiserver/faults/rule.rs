//! One rule: which requests, which fault, how often, how long.
//!
//! Responsible for: its fields, what they may say together, and what it means. Must not: draw or count.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{go_duration, observed_request::ObservedRequest};
use crate::apiserver::{
    http::Query,
    object::{ApiError, STALE},
    print::Response,
};

/// On which side of a fault the work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The fault comes first: nothing is done.
    Before,
    /// The work is done, and its answer is lost.
    After,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// It takes longer.
    Latency,
    /// It is refused, and nothing is done.
    Refuse,
    /// Nothing is done, and 504 is answered.
    TimeoutBefore,
    /// It is done, and 504 is answered.
    TimeoutAfter,
    /// Nothing is done, and the connection breaks.
    DropBefore,
    /// It is done, and the connection breaks before the answer.
    DropAfter,
    /// A watch ends.
    CloseWatch,
    /// A watch, or the next page of a list, is answered with 410.
    Expire,
    /// A read shows what was.
    Stale,
    /// Each event of a watch comes twice.
    DuplicateEvents,
    /// The events of a watch come later.
    DelayEvents,
    /// Nothing gets through, in either direction, until the rule ends.
    Partition,
}

impl FaultKind {
    /// Whether it decides what becomes of a request; the first such rule does.
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

    /// Whether it is of no concern for requests, or only by holding them.
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

    /// The field that a value after the fault's name stands for.
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
    /// What goes wrong.
    pub fault: FaultKind,
    /// How much later, or after how long.
    #[serde(default, with = "go_duration", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// With which status code a request is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// In which words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it may come again.
    #[serde(default, with = "go_duration", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// How many changes a stale read is behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<u64>,
    /// Verbs that are meant, such as `create`; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// Resources that are meant, such as `pods` or `jobs/status`; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// How paths begin that are meant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// How the `User-Agent` of clients begins that are meant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client: String,
    /// Share of what is meant that is met.
    #[serde(default = "always")]
    pub probability: f64,
    /// At most how often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// For how long.
    #[serde(rename = "for")]
    #[serde(default, with = "go_duration", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Duration>,
}

/// A rule that makes no sense.
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

/// What somebody wants of the server.
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
    /// A rule for everybody and everything.
    pub fn new(fault: FaultKind) -> Self {
        let rule = serde_json::from_value(json!({"fault": fault}));
        rule.expect("all other fields have defaults")
    }

    /// All calls take so much longer.
    pub fn latency(delay: Duration) -> Self {
        Self {
            delay: Some(delay),
            ..Self::new(FaultKind::Latency)
        }
    }

    /// Reads a rule from its fields.
    pub(super) fn from_json(value: Value) -> Result<Self, RuleError> {
        let rule = serde_path_to_error::deserialize::<_, Self>(value);
        rule.map_err(|error| in_our_words(&error))
    }

    pub(super) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_else(|error| json!({"error": error.to_string()}))
    }

    /// Whether what the rule says makes sense together.
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
                (false, true) => return Err(RuleError::new(field, "is not for this fault")),
                _ => {}
            }
        }
        if self.code.is_some_and(|code| !(400..600).contains(&code)) {
            return Err(RuleError::new("code", "must be from 400 to 599"));
        }
        let is_share = (0.0..=1.0).contains(&self.probability);
        let for_others = "is not for this fault";
        let for_long = "is not for a partition; say for how long";
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

    /// Whether the rule is about this.
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

    /// Whether the fault can happen to a request of this kind.
    pub(super) fn applies_to(&self, request: &ObservedRequest) -> bool {
        let verb = request.label.verb;
        match self.fault {
            FaultKind::Stale => matches!(verb, "get" | "list"),
            // An open watch is another matter; the first page of a list is never too old.
            FaultKind::Expire => {
                verb == "list" && !Query::parse(&request.query).text("continue").is_empty()
            }
            // What happens to a watch happens to it while it is open.
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
            // A server that is too busy says so in plain text; an admission webhook says it in a Status.
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

/// What a real server says with a status code.
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
