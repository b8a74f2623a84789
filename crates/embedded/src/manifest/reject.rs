//! Explains to the author of a manifest why the API server refused an object.
//!
//! Responsible for: joining the server's errors with the object's location in the file.
//! Must not: decide on retries.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;

use super::{Document, SourceLocation};

/// The response of an API server that refused an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Rejection {
    /// Location of the object.
    pub location: SourceLocation,
    /// The object by kind, namespace and name.
    pub object: String,
    /// The HTTP status code.
    pub status_code: u16,
    /// The server's reason, such as `Invalid`; empty if it gave none.
    pub reason: String,
    /// The causes: a field with a message, or a message alone.
    pub complaints: Vec<String>,
}

impl Rejection {
    /// Reads the body of the response. A body that is not a `Status` is quoted as it is.
    pub fn new(document: &Document, status_code: u16, body: &[u8]) -> Self {
        let mut status: Status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
            message: Some(String::from_utf8_lossy(body).trim().to_owned()),
            ..Status::default()
        });
        Self {
            location: document.location.clone(),
            object: object_words(document),
            status_code,
            reason: status.reason.take().unwrap_or_default(),
            complaints: complaints(status, &document.field_prefix),
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

/// Returns the causes, or the whole message if there are none. Duplicate causes, which some servers send, are dropped.
/// `prefix` precedes each field.
fn complaints(status: Status, prefix: &str) -> Vec<String> {
    let causes = status.details.and_then(|details| details.causes);
    let mut complaints: Vec<String> = Vec::new();
    for cause in causes.into_iter().flatten() {
        let message = cause.message.unwrap_or_else(|| "is refused".to_owned());
        let complaint = match cause.field.as_deref() {
            Some(field) if !field.is_empty() => format!("{prefix}{field}: {message}"),
            Some(_) | None => message,
        };
        if !complaints.contains(&complaint) {
            complaints.push(complaint);
        }
    }
    if complaints.is_empty() {
        let lines = status.message.as_deref().unwrap_or_default().lines();
        complaints = lines.map(str::to_owned).collect();
    }
    complaints
}

fn object_words(document: &Document) -> String {
    let Document { kind, name, .. } = document;
    match &document.namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}
