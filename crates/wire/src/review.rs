//! Builds and decodes TokenReviews and SubjectAccessReviews.
//!
//! Must not: send them, or keep a token.

use k8s_openapi::api::{
    authentication::v1::{TokenReview, UserInfo},
    authorization::v1::SubjectAccessReview,
};
use serde_json::json;

use super::Call;

/// Requests the user of a token.
pub fn token_review(token: &str) -> Call {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    });
    Call::create_whole(
        "/apis/authentication.k8s.io/v1/tokenreviews",
        review.to_string(),
    )
}

/// The user of the token; none if the token is not authenticated.
pub fn decode_token_review(answer: &[u8]) -> serde_json::Result<Option<UserInfo>> {
    let review: TokenReview = serde_json::from_slice(answer)?;
    let status = review.status.unwrap_or_default();
    let is_good = status.authenticated == Some(true);
    Ok(is_good.then_some(status.user).flatten())
}

/// Checks if a user may list a resource, in one namespace or in all.
pub fn access_review(
    user: &UserInfo,
    group: &str,
    resource: &str,
    namespace: Option<&str>,
) -> Call {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "resourceAttributes": {
                "verb": "list",
                "group": group,
                "resource": resource,
                "namespace": namespace.unwrap_or_default(),
            },
        },
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    Call::create_whole(path, review.to_string())
}

/// Returns true if the user may.
pub fn decode_access_review(answer: &[u8]) -> serde_json::Result<bool> {
    let review: SubjectAccessReview = serde_json::from_slice(answer)?;
    let status = review.status.unwrap_or_default();
    Ok(status.allowed && status.denied != Some(true))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_an_authenticated_user_has_a_name() {
        let who = |status: &str| {
            let answer = format!(r#"{{"metadata": {{}}, "spec": {{}}, "status": {status}}}"#);
            let user = decode_token_review(answer.as_bytes()).expect("a review");
            user.and_then(|user| user.username)
        };
        let ann = r#"{"authenticated": true, "user": {"username": "ann"}}"#;
        assert_eq!(who(ann).as_deref(), Some("ann"));
        assert_eq!(who(r#"{"user": {"username": "ann"}}"#), None);
        assert_eq!(who(r#"{"authenticated": false, "error": "too old"}"#), None);
        assert_eq!(who("{}"), None);
        assert!(decode_token_review(b"no").is_err());
    }

    #[test]
    fn a_refusal_weighs_more() {
        let may = |status: &str| {
            let answer = format!(r#"{{"metadata": {{}}, "spec": {{}}, "status": {status}}}"#);
            decode_access_review(answer.as_bytes()).expect("a review")
        };
        assert!(may(r#"{"allowed": true}"#));
        assert!(!may(r#"{"allowed": true, "denied": true}"#));
        assert!(!may(r#"{"allowed": false}"#));
    }

    #[test]
    fn a_review_carries_all_user_info() {
        let user = UserInfo {
            username: Some("ann".to_owned()),
            groups: Some(vec!["readers".to_owned()]),
            extra: Some([("scopes".to_owned(), vec!["x".to_owned()])].into()),
            ..UserInfo::default()
        };
        let call = access_review(&user, "batch", "jobs", Some("team-a"));
        let body: Value = serde_json::from_slice(&call.body).expect("JSON");
        let spec = &body["spec"];
        assert_eq!(spec["extra"], json!({"scopes": ["x"]}));
        assert_eq!(spec["groups"], json!(["readers"]));
        assert_eq!(spec["resourceAttributes"]["namespace"], "team-a");
    }
}
