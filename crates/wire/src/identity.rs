//! Builds and decodes a SelfSubjectReview: the user as which the API server authenticates us. Servers from 1.28 on
//! support it.
//!
//! Must not: send it.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use serde_json::json;

use super::Call;

/// Requests our user.
pub fn self_subject_review() -> Call {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    Call::create_whole(path, review.to_string())
}

/// Our user name in the response; none if it is missing or cannot be decoded.
pub fn decode_user_name(answer: &[u8]) -> Option<String> {
    let review: SelfSubjectReview = serde_json::from_slice(answer).ok()?;
    review.status?.user_info?.username
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_the_user() {
        let answer = br#"{"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"userInfo": {"username": "system:serviceaccount:lakh:lakh", "groups": ["x"]}}}"#;
        let name = "system:serviceaccount:lakh:lakh".to_owned();
        assert_eq!(decode_user_name(answer), Some(name));
        assert_eq!(decode_user_name(b"{}"), None);
        assert_eq!(decode_user_name(b"not found"), None);
    }
}
