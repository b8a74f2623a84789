//! Why the API server refuses an object, in words for its author.
//!
//! Responsible for: joining the server's errors with the object's location in the file.
//! Must not: decide whether to try again.

use std::fmt;

use serde::Deserialize;

use super::{Document, SourceLocation};

/// The answer of an API server that refused an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Rejection {
    /// Where the object stands.
    pub location: SourceLocation,
    /// The object by kind, namespace and name.
    pub object: String,
    /// The HTTP status code.
    pub status_code: u16,
    /// The server's word for the reason, such as `Invalid`; empty if it gave none.
    pub reason: String,
    /// Each complaint: a field with a message, or a message alone.
    pub complaints: Vec<String>,
}

impl Rejection {
    /// Reads the body of a refusal. One that is not a `Status` is quoted as it is.
    pub fn new(document: &Document, status_code: u16, body: &[u8]) -> Self {
        let status: RawStatus = serde_json::from_slice(body).unwrap_or_else(|_| RawStatus {
            message: Some(String::from_utf8_lossy(body).trim().to_owned()),
            ..RawStatus::default()
        });
        let location = document.location.clone();
        let reason = status.reason.clone().unwrap_or_default();
        let complaints = status.complaints(&document.field_prefix);
        Self {
            location,
            object: object_words(document),
            status_code,
            reason,
            complaints,
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            location,
            object,
            status_code,
            ..
        } = self;
        write!(f, "{location}: {object} was refused ({status_code}")?;
        if !self.reason.is_empty() {
            write!(f, " {}", self.reason)?;
        }
        write!(f, ")")?;
        self.complaints
            .iter()
            .try_for_each(|complaint| write!(f, "\n  {complaint}"))
    }
}

#[derive(Default, Deserialize)]
struct RawStatus {
    message: Option<String>,
    reason: Option<String>,
    details: Option<RawStatusDetails>,
}

#[derive(Deserialize)]
struct RawStatusDetails {
    causes: Option<Vec<RawStatusCause>>,
}

#[derive(Deserialize)]
struct RawStatusCause {
    field: Option<String>,
    message: Option<String>,
}

impl RawStatus {
    /// The causes, or the message as a whole where there are none. Some servers give a cause
    /// twice; once is enough to read.
    fn complaints(&self, prefix: &str) -> Vec<String> {
        let causes = self
            .details
            .iter()
            .filter_map(|details| details.causes.as_ref())
            .flatten();
        let mut complaints: Vec<String> = Vec::new();
        for cause in causes {
            let message = cause.message.as_deref().unwrap_or("is refused");
            let complaint = match cause.field.as_deref() {
                Some(field) if !field.is_empty() => format!("{prefix}{field}: {message}"),
                Some(_) | None => message.to_owned(),
            };
            if !complaints.contains(&complaint) {
                complaints.push(complaint);
            }
        }
        if complaints.is_empty() {
            let lines = self.message.as_deref().unwrap_or_default().lines();
            complaints = lines.map(str::to_owned).collect();
        }
        complaints
    }
}

fn object_words(document: &Document) -> String {
    let Document { kind, name, .. } = document;
    match &document.namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}
