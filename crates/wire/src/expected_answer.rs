//! Checks that the body of a success response is the object that the call was about.
//!
//! A proxy, a gateway or a login page can answer 200 with a body of its own. Such a response says nothing about the
//! call. It becomes an error without a status code, as if the connection had been lost. client-go's `Result.Into` does
//! the same.
//!
//! Must not: know the purpose of a call.

use lakh_model::Uid;

use super::{
    ApiError,
    answer_metadata::{AckMetadata, metadata},
    field::Text,
    json,
    message::message,
    protobuf::{self, ProtobufMessage as _, Value},
    watch::decode_list_page,
};

/// Bytes of an unexpected body in an error message.
const SHOWN: usize = 80;

/// The object that a success response must contain, with UID and resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedAnswer {
    /// An object of this name, with a UID that is not known in advance.
    Named(Box<str>),
    /// The object with this UID.
    OfUid(Uid),
    /// The object with this UID, being deleted, or a Status of success if it is gone.
    DeletionOf(Uid),
    /// A page of a list, with a resourceVersion.
    List,
}

impl ExpectedAnswer {
    /// Returns an error unless the body is the expected one.
    pub fn check(&self, body: &[u8]) -> Result<(), ApiError> {
        let is_expected = match self {
            Self::Named(name) => object(body).is_some_and(|object| *object.name == **name),
            Self::OfUid(uid) => is_of(*uid, body),
            Self::DeletionOf(uid) => is_of(*uid, body) || is_success(*uid, body),
            Self::List => decode_list_page(body).is_ok(),
        };
        match is_expected {
            true => Ok(()),
            false => Err(unexpected(body)),
        }
    }
}

/// The metadata of an object, if it has a valid UID and resourceVersion.
fn object(body: &[u8]) -> Option<AckMetadata<'_>> {
    let object: AckMetadata<'_> = metadata(body)?;
    let is_whole =
        Uid::parse(&object.uid).is_some() && object.resource_version.parse::<u64>().is_ok();
    is_whole.then_some(object)
}

fn is_of(uid: Uid, body: &[u8]) -> bool {
    object(body).is_some_and(|object| Uid::parse(&object.uid) == Some(uid))
}

// Source of the field numbers: `generated.proto` of `k8s.io/apimachinery/pkg/apis/meta/v1`.
message! {
    /// The fields of a Status that are read here.
    struct RawOutcome<'a> {
        status: Text<'a> = 2,
        details: Option<RawOutcomeDetails<'a>> = 5,
    }

    struct RawOutcomeDetails<'a> {
        uid: Text<'a> = 6,
    }
}

/// Returns true if this is a Status of success, with this UID if it names one.
fn is_success(uid: Uid, body: &[u8]) -> bool {
    let outcome = match protobuf::is_object(body) {
        true => protobuf::object(body)
            .and_then(|status| RawOutcome::read(Value::Bytes(status)))
            .ok(),
        false => json::read::<RawOutcome<'_>>(body).ok(),
    };
    outcome.is_some_and(|outcome| {
        let details = outcome.details.unwrap_or_default();
        &*outcome.status == "Success"
            && (details.uid.is_empty() || Uid::parse(&details.uid) == Some(uid))
    })
}

fn unexpected(body: &[u8]) -> ApiError {
    let start = &body[..body.len().min(SHOWN)];
    let shown = match start {
        [] => "nothing".to_owned(),
        start => format!("{:?}", String::from_utf8_lossy(start)),
    };
    ApiError::no_answer(format!(
        "the answer is not the object that was meant but {shown}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf_writer::{bytes, object as envelope};

    const UID: &str = "00000000-0000-0000-0000-000000000001";
    const OTHER: &str = "00000000-0000-0000-0000-000000000002";

    fn expected() -> [ExpectedAnswer; 3] {
        let uid = Uid::parse(UID).expect("a UID");
        [
            ExpectedAnswer::Named("p".into()),
            ExpectedAnswer::OfUid(uid),
            ExpectedAnswer::DeletionOf(uid),
        ]
    }

    fn are_expected(body: &[u8]) -> [bool; 3] {
        expected().map(|expected| expected.check(body).is_ok())
    }

    fn json(name: &str, uid: &str, version: &str) -> Vec<u8> {
        format!(r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#)
            .into()
    }

    fn message(name: &str, uid: &str, version: &str) -> Vec<u8> {
        let metadata = [bytes(1, name), bytes(5, uid), bytes(6, version)].concat();
        envelope(&bytes(1, metadata))
    }

    #[test]
    fn the_object_that_was_meant_is_an_answer() {
        for body in [json("p", UID, "7"), message("p", UID, "7")] {
            assert_eq!(are_expected(&body), [true; 3]);
        }
        for body in [json("p", OTHER, "7"), message("p", OTHER, "7")] {
            assert_eq!(are_expected(&body), [true, false, false]);
        }
        for body in [json("q", UID, "7"), message("q", UID, "7")] {
            assert_eq!(are_expected(&body), [false, true, true]);
        }
    }

    #[test]
    fn a_status_of_success_answers_a_deletion_only() {
        let status = |uid: &str| {
            let json =
                format!(r#"{{"kind":"Status","status":"Success","details":{{"uid":"{uid}"}}}}"#);
            let message = [bytes(2, "Success"), bytes(5, bytes(6, uid))].concat();
            [json.into_bytes(), envelope(&message)]
        };
        for body in status(UID) {
            assert_eq!(are_expected(&body), [false, false, true]);
        }
        let bare = br#"{"kind":"Status","metadata":{},"status":"Success"}"#;
        assert_eq!(are_expected(bare), [false, false, true]);
        for body in status(OTHER) {
            assert_eq!(are_expected(&body), [false; 3]);
        }
    }

    #[test]
    fn anything_else_is_no_answer() {
        for body in [
            Vec::new(),
            b"{}".to_vec(),
            b"<!DOCTYPE html><title>Sign in</title>".to_vec(),
            br#"{"kind":"Status","status":"Failure"}"#.to_vec(),
            json("p", UID, ""),
            json("p", "", "7"),
            json("p", UID, "7")[..40].to_vec(),
            message("p", UID, ""),
            message("p", UID, "7")[..20].to_vec(),
        ] {
            assert_eq!(are_expected(&body), [false; 3], "{body:?}");
            let error = expected()[0].check(&body).expect_err("no answer");
            assert_eq!(
                (error.code, error.kind),
                (0, super::super::ErrorKind::Failed)
            );
        }
    }
}
