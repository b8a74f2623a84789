//! Represents failed requests as Kubernetes `Status` bodies.
//!
//! Responsible for: the exact shape of error responses. Must not: decide when a request fails.

use std::fmt;

use serde_json::{Value, json};

use super::{
    kind::{Kind, qualify},
    tree,
};

/// The result of a step that can fail a request.
pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// The conflict message for a write with an old resourceVersion.
pub(crate) const STALE: &str = "the object has been modified; please apply your changes to the latest version and \
                                try again";

/// One failed request; `print::response` turns it into a response.
#[derive(Debug)]
#[doc(alias = "StatusError")]
pub(crate) struct ApiError(Box<Failure>);

#[derive(Debug, Default)]
struct Failure {
    code: u16,
    reason: &'static str,
    message: String,
    details: Option<Value>,
    continue_token: String,
    headers: Vec<(&'static str, String)>,
    warnings: Vec<String>,
    plain_text: bool,
}

impl ApiError {
    /// A failure with the given status code, reason (may be empty) and message.
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Failure {
            code,
            reason,
            message: message.into(),
            ..Failure::default()
        }))
    }

    /// A failure with details that name an object.
    pub(crate) fn about(
        code: u16,
        reason: &'static str,
        message: String,
        kind: Kind,
        name: &str,
    ) -> Self {
        let details = object_details(kind, name, kind.info().plural);
        Self::new(code, reason, message).with_details(details)
    }

    /// Sets `details`.
    pub(crate) fn with_details(mut self, details: Value) -> Self {
        self.0.details = Some(details);
        self
    }

    /// Adds a response header.
    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.headers.push((name, value.into()));
        self
    }

    /// Sets `metadata.continue`, so that a client can continue after an expired list.
    pub(crate) fn with_continue(mut self, token: String) -> Self {
        self.0.continue_token = token;
        self
    }

    /// 400 without details.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 404 for a named object.
    pub(crate) fn not_found(kind: Kind, name: &str) -> Self {
        let message = format!("{} {name:?} not found", kind.qualified());
        Self::about(404, "NotFound", message, kind, name)
    }

    /// 404 for an unknown resource in a known group.
    pub(crate) fn no_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(404, "NotFound", message).with_details(json!({}))
    }

    /// A plain-text error instead of a `Status` object.
    pub(crate) fn text(code: u16, message: &str) -> Self {
        let mut error = Self::new(code, "", message);
        error.0.plain_text = true;
        error
    }

    /// 404 for an unknown path; plain text, as on a real server.
    pub(crate) fn no_path() -> Self {
        Self::text(404, "404 page not found\n")
    }

    /// 400 for an object without a name; `wanted` is the name in the path.
    pub(crate) fn no_name(wanted: &str) -> Self {
        Self::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        ))
    }

    /// 400 if the object's name differs from the name in the path.
    pub(crate) fn other_name(name: &str, wanted: &str) -> Self {
        Self::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({wanted})"
        ))
    }

    /// 400 if the object's namespace differs from the namespace in the path.
    pub(crate) fn other_namespace() -> Self {
        Self::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with_details(json!({}))
    }

    /// 409 for a name that is taken.
    pub(crate) fn already_exists(kind: Kind, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", kind.qualified());
        Self::about(409, "AlreadyExists", message, kind, name)
    }

    /// 409 with `Operation cannot be fulfilled on ...`; `shown` is the kind as `details` names it.
    pub(crate) fn conflict(kind: Kind, name: &str, shown: &str, why: &str) -> Self {
        let on = qualify(shown, kind.info().group);
        let message = format!("Operation cannot be fulfilled on {on} {name:?}: {why}");
        Self::new(409, "Conflict", message).with_details(object_details(kind, name, shown))
    }

    /// 409 for a stale resourceVersion.
    pub(crate) fn stale(kind: Kind, name: &str) -> Self {
        Self::conflict(kind, name, kind.info().plural, STALE)
    }

    /// 403.
    pub(crate) fn forbidden(kind: Kind, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", kind.qualified());
        Self::about(403, "Forbidden", message, kind, name)
    }

    /// 403 for a namespace that is being terminated.
    pub(crate) fn namespace_terminating(kind: Kind, name: &str, namespace: &str) -> Self {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut details = object_details(kind, name, kind.info().plural);
        details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        Self::forbidden(kind, name, &why).with_details(details)
    }

    /// 422 for fields of `what`: pairs of a path and its error text, at least one.
    pub(crate) fn invalid<'a>(
        what: &str,
        mut details: Value,
        errors: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut texts: Vec<String> = Vec::new();
        let mut causes = Vec::new();
        for (path, text) in errors {
            causes.push(json!({"reason": cause_reason(text), "message": text, "field": path}));
            // The message contains an error once; the causes repeat it.
            let text = format!("{path}: {text}");
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        details["causes"] = causes.into();
        Self::new(422, "Invalid", format!("{what} is invalid: {list}")).with_details(details)
    }

    /// 422 for query or body options of the type `options`, such as `CreateOptions`.
    pub(crate) fn invalid_option(options: &str, field: &str, error: &str) -> Self {
        let details = json!({"group": "meta.k8s.io", "kind": options});
        Self::invalid(
            &format!("{options}.meta.k8s.io \"\""),
            details,
            [(field, error)],
        )
    }

    /// 410 for a list.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The `Status` object.
    pub(crate) fn status(&self) -> Value {
        let failure = &self.0;
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": tree::of_texts([("continue", &failure.continue_token)]),
            "status": "Failure",
            "message": failure.message,
        });
        if !failure.reason.is_empty() {
            status["reason"] = Value::from(failure.reason);
        }
        if let Some(details) = &failure.details {
            status["details"] = details.clone();
        }
        status["code"] = Value::from(failure.code);
        status
    }

    /// The HTTP status code.
    pub(crate) const fn code(&self) -> u16 {
        self.0.code
    }

    /// The whole body, if it is plain text and not a `Status` object.
    pub(crate) fn plain_text(&self) -> Option<&str> {
        self.0.plain_text.then_some(&*self.0.message)
    }

    /// Adds earlier warnings, unless the error already has warnings.
    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        if self.0.warnings.is_empty() {
            self.0.warnings = warnings;
        }
        self
    }

    /// The response headers and the warnings.
    pub(crate) fn into_headers(self) -> (Vec<(&'static str, String)>, Vec<String>) {
        (self.0.headers, self.0.warnings)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

/// `details` that name an object.
pub(crate) fn object_details(kind: Kind, name: &str, shown: &str) -> Value {
    tree::of_texts([
        ("name", name),
        ("group", kind.info().group),
        ("kind", shown),
    ])
}

/// The machine-readable reason for an error text.
fn cause_reason(text: &str) -> &'static str {
    const REASONS: [(&str, &str); 8] = [
        ("Required value", "FieldValueRequired"),
        ("Invalid value", "FieldValueInvalid"),
        ("Unsupported value", "FieldValueNotSupported"),
        ("Duplicate value", "FieldValueDuplicate"),
        ("Forbidden", "FieldValueForbidden"),
        ("Not found", "FieldValueNotFound"),
        ("Too long", "FieldValueTooLong"),
        ("Too many", "FieldValueTooMany"),
    ];
    REASONS
        .iter()
        .find(|(start, _)| text.starts_with(start))
        .map_or("FieldValueInvalid", |(_, reason)| reason)
}
