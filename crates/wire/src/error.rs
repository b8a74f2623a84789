//! Decodes the errors of an API server from its Status objects.

use std::time::Duration;

use super::{
    field::{Count, Text},
    message::message,
    protobuf::{self, ProtobufMessage as _, Value},
};

/// The class of an error, which decides how callers react.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The object does not exist.
    NotFound,
    /// Another object has that name.
    AlreadyExists,
    /// The object's resourceVersion or UID differs from the one in the request.
    Conflict,
    /// The requested resourceVersion is too old: start from a list.
    Expired,
    /// The requested resourceVersion is newer than the server's data.
    Ahead,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// The server itself is overloaded. It may have set `Retry-After`.
    Busy,
    /// A component that the server called for this object, such as an admission webhook, limits its requests. That says
    /// nothing about other objects.
    TooManyRequests,
    /// The server refuses the request. A retry is pointless.
    Refused,
    /// The response exceeds the call's limit; the rest of it was not read.
    TooLong,
    /// The server or a proxy failed. The request may have been applied.
    Failed,
    /// lakh cancelled the request because another replica may hold the Lease. The request may have been applied. It
    /// causes no Event.
    GivenUp,
}

/// The field that the server reports for a patch with another UID than the object's.
const UID_FIELD: &str = "metadata.uid";

/// Messages of a conflict of UIDs. Source: `preconditions` of `k8s.io/apiserver`, in the store of a kind and in etcd's.
const UID_CONFLICTS: [&str; 2] = [
    "the UID in the precondition",
    "Precondition failed: UID in precondition",
];

/// The maximum `Retry-After` that is honored. An admission webhook may have set it, and a header must not stop a tenant
/// for a day.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// An error response of the API server.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
#[doc(alias = "StatusError")]
pub struct ApiError {
    /// The class of the error.
    pub kind: ErrorKind,
    /// The HTTP status code; 0 without a response.
    pub code: u16,
    /// The server's message.
    pub message: String,
    /// The time to wait before a retry, at most 30 s.
    pub retry_after: Option<Duration>,
    /// The write named a UID, and the object of that name has another one.
    pub of_another: bool,
    /// The token with which a list may continue after its own token has expired. The further pages are newer than the
    /// earlier ones.
    pub continue_token: Option<Box<str>>,
}

// Source of the field numbers: `generated.proto` of `k8s.io/apimachinery/pkg/apis/meta/v1`.
message! {
    struct RawStatus<'a> {
        metadata: RawStatusMetadata<'a> = 1,
        message: Text<'a> = 3,
        reason: Text<'a> = 4,
        details: Option<RawStatusDetails<'a>> = 5,
        code: u16 = 6,
    }

    struct RawStatusMetadata<'a> {
        #[serde(rename = "continue")]
        continue_token: Text<'a> = 3,
    }

    struct RawStatusDetails<'a> {
        causes: Vec<RawStatusCause<'a>> = 4,
        /// In protobuf it is always present; 0 means unset.
        retry_after_seconds: Option<Count> = 5,
    }

    struct RawStatusCause<'a> {
        reason: Text<'a> = 1,
        field: Text<'a> = 3,
    }
}

impl<'a> RawStatus<'a> {
    fn of_body(body: &'a [u8]) -> Self {
        if protobuf::is_object(body) {
            let status = protobuf::object(body).map(Value::Bytes);
            return status.and_then(Self::read).unwrap_or_default();
        }
        serde_json::from_slice(body).unwrap_or_default()
    }
}

impl ApiError {
    /// Returns true if a ResourceQuota is exceeded. Its admission plugin sets no reason of its own in the Status.
    pub fn is_of_quota(&self) -> bool {
        self.code == 403 && self.message.contains("exceeded quota: ")
    }

    /// Decodes an error response. A body that is not a Status object becomes the message.
    pub fn from_response(code: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let status = RawStatus::of_body(body);
        let details = status.details.unwrap_or_default();
        let caused_by = |reason: &str| details.causes.iter().any(|cause| cause.reason == reason);
        let kind = match (code, &*status.reason) {
            (_, "AlreadyExists") => ErrorKind::AlreadyExists,
            (404, _) => ErrorKind::NotFound,
            (409, _) => ErrorKind::Conflict,
            (410, _) => ErrorKind::Expired,
            (403, _) if caused_by("NamespaceTerminating") => ErrorKind::NamespaceTerminating,
            // The server's own rejections are plain text (`tooManyRequests` of its filters).
            (429, "") => ErrorKind::Busy,
            (429, _) => ErrorKind::TooManyRequests,
            (504, _) if caused_by("ResourceVersionTooLarge") => ErrorKind::Ahead,
            (500.., _) => ErrorKind::Failed,
            _ => ErrorKind::Refused,
        };
        let message = if status.message.is_empty() {
            let text = String::from_utf8_lossy(body);
            format!("HTTP {code} {}", text.trim()).trim_end().to_owned()
        } else {
            status.message.to_string()
        };
        let seconds = details
            .retry_after_seconds
            .map_or(0, |Count(seconds)| seconds);
        let in_body = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        let retry_after = retry_after.or(in_body);
        let of_another = match code {
            // A patch with another UID is an attempt to change it.
            422 => details.causes.iter().any(|cause| cause.field == UID_FIELD),
            // For a deletion, or an update of a given version, only the message says so.
            409 => UID_CONFLICTS.iter().any(|words| message.contains(words)),
            _ => false,
        };
        let token = status.metadata.continue_token;
        Self {
            kind,
            code,
            message,
            retry_after: retry_after.map(|after| after.min(RETRY_AFTER_MAX)),
            of_another,
            continue_token: (!token.is_empty()).then(|| (*token).into()),
        }
    }

    /// Returns true if the intended object does not exist: its name is free, or another object has it.
    pub fn is_of_no_such_object(&self) -> bool {
        self.kind == ErrorKind::NotFound || self.of_another
    }

    /// Decodes the object of an ERROR event on a watch.
    pub fn from_event(status: &[u8]) -> Self {
        Self::from_response(RawStatus::of_body(status).code, status, None)
    }

    /// The server returned an older state than before.
    pub fn behind() -> Self {
        Self {
            kind: ErrorKind::Ahead,
            ..Self::no_answer("the server tells what is older than what it told before")
        }
    }

    /// The request was never sent.
    pub fn not_sent(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Refused,
            ..Self::no_answer(message)
        }
    }

    /// The request was cancelled and may have been in flight.
    pub fn given_up(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::GivenUp,
            ..Self::no_answer(message)
        }
    }

    /// The response, or an event in it, exceeds this size.
    pub fn too_long(bytes: usize) -> Self {
        Self {
            kind: ErrorKind::TooLong,
            ..Self::no_answer(format!("an answer of more than {bytes} bytes"))
        }
    }

    /// There was no response.
    pub fn no_answer(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Failed,
            code: 0,
            message: message.into(),
            retry_after: None,
            of_another: false,
            continue_token: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: u16, body: &str) -> ErrorKind {
        ApiError::from_response(code, body.as_bytes(), None).kind
    }

    #[test]
    fn kinds_follow_reason_and_cause() {
        assert_eq!(
            kind(409, r#"{"reason":"AlreadyExists"}"#),
            ErrorKind::AlreadyExists
        );
        assert_eq!(kind(409, r#"{"reason":"Conflict"}"#), ErrorKind::Conflict);
        assert_eq!(kind(403, r#"{"reason":"Forbidden"}"#), ErrorKind::Refused);
        assert_eq!(
            kind(
                403,
                r#"{"details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#
            ),
            ErrorKind::NamespaceTerminating
        );
        assert_eq!(
            kind(429, "Too many requests, please try again later."),
            ErrorKind::Busy
        );
        let denied = r#"{"reason":"TooManyRequests","message":"admission webhook \"w\" denied"}"#;
        assert_eq!(kind(429, denied), ErrorKind::TooManyRequests);
        assert_eq!(kind(503, ""), ErrorKind::Failed);
        let ahead =
            r#"{"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#;
        assert_eq!(kind(504, ahead), ErrorKind::Ahead);
        assert_eq!(kind(504, r#"{"reason":"Timeout"}"#), ErrorKind::Failed);
        assert_eq!(kind(422, "{}"), ErrorKind::Refused);
    }

    #[test]
    fn the_server_says_when_to_come_back() {
        let body = br#"{"details":{"retryAfterSeconds":7},"message":"busy"}"#;
        let error = ApiError::from_response(429, body, None);
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(error.to_string(), "busy");
    }

    #[test]
    fn another_object_of_that_name_is_no_such_object() {
        let error = |code, body: &str| ApiError::from_response(code, body.as_bytes(), None);
        for (code, body) in [
            (404, "{}"),
            (
                409,
                r#"{"reason":"Conflict","message":"Operation cannot be fulfilled on Pod \"p\": the UID in
                the precondition (a) does not match the UID in record (b). The object might have been
                deleted and then recreated"}"#,
            ),
            (
                409,
                r#"{"reason":"Conflict","message":"Operation cannot be fulfilled on pods \"p\": StorageError:
                invalid object, Code: 4, Key: /registry/pods/d/p, ResourceVersion: 0, AdditionalErrorMsg:
                Precondition failed: UID in precondition: a, UID in object meta: b"}"#,
            ),
            (
                422,
                r#"{"reason":"Invalid","details":{"causes":[{"reason":"FieldValueInvalid",
                "message":"Invalid value: \"a\": field is immutable","field":"metadata.uid"}]}}"#,
            ),
        ] {
            let body = body.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(error(code, &body).is_of_no_such_object(), "{code} {body}");
        }
        for (code, body) in [
            (
                409,
                r#"{"reason":"Conflict","message":"the object has been modified; please apply your changes"}"#,
            ),
            (
                422,
                r#"{"reason":"Invalid","details":{"causes":[{"field":"metadata.finalizers"}]}}"#,
            ),
            (500, r#"{"message":"the UID in the precondition"}"#),
        ] {
            assert!(!error(code, body).is_of_no_such_object(), "{code} {body}");
        }
    }

    #[test]
    fn retry_after_is_bounded() {
        let said = Some(Duration::from_secs(86_400));
        let by_header = ApiError::from_response(429, b"", said);
        let status = br#"{"code":429,"details":{"retryAfterSeconds":86400}}"#;
        let by_event = ApiError::from_event(status);
        for error in [by_header, by_event] {
            assert_eq!(error.retry_after, Some(RETRY_AFTER_MAX));
        }
    }

    #[test]
    fn a_list_that_expired_may_go_on_elsewhere() {
        use crate::protobuf_writer::{bytes, number, object};
        let json = br#"{"metadata":{"continue":"t"},"reason":"Expired","code":410}"#;
        let protobuf = object(&[bytes(1, bytes(3, "t")), number(6, 410)].concat());
        for body in [&json[..], &protobuf] {
            let error = ApiError::from_response(410, body, None);
            assert_eq!(error.kind, ErrorKind::Expired);
            assert_eq!(error.continue_token.as_deref(), Some("t"));
        }
        let without = ApiError::from_response(410, br#"{"metadata":{}}"#, None);
        assert_eq!(without.continue_token, None);
    }

    #[test]
    fn a_status_in_protobuf_says_the_same() {
        use crate::protobuf_writer::{bytes, number, object};
        let field =
            object(&[bytes(5, bytes(4, bytes(3, "metadata.uid"))), number(6, 422)].concat());
        assert!(ApiError::from_event(&field).is_of_no_such_object());
        let cause = bytes(4, bytes(1, "NamespaceTerminating"));
        let details = bytes(5, [bytes(1, "ns"), cause, number(5, 7)].concat());
        let fields = [
            bytes(3, "no"),
            bytes(4, "Forbidden"),
            details,
            number(6, 403),
        ];
        let status = object(&fields.concat());
        let error = ApiError::from_event(&status);
        assert_eq!(error.kind, ErrorKind::NamespaceTerminating);
        assert_eq!((error.code, error.to_string().as_str()), (403, "no"));
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    }
}
