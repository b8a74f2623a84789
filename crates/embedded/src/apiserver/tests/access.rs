//! Tests tokens against the responses of a real server with RBAC to a read-only user and to unknown users.

use super::*;

const TOKENS: &str = "tok,admin,admin,\"system:masters\"\nrtok,reader,reader-uid,\"readers\"\n";

fn answer(authorization: &str, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    let users = Users::read(TOKENS).unwrap();
    let user = users.find(authorization);
    let request = Request {
        method,
        path,
        authorization,
        body: body.as_bytes(),
        ..Request::default()
    };
    let response = users.answer(user.as_ref(), request)?;
    let code = response.status;
    Some((
        code,
        serde_json::from_slice(&response.into_bytes()).unwrap(),
    ))
}

#[track_caller]
fn check_forbidden(method: &str, path: &str, message: &str, details: Value) {
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "Forbidden", "details": details, "code": 403,
    });
    assert_eq!(
        answer("Bearer rtok", method, path, ""),
        Some((403, expected))
    );
    assert_eq!(answer("Bearer tok", method, path, ""), None);
}

#[test]
fn readers_may_not_write() {
    check_forbidden(
        "POST",
        JOBS,
        "jobs.batch is forbidden: User \"reader\" cannot create resource \"jobs\" in API group \
         \"batch\" in the namespace \"default\"",
        json!({"group": "batch", "kind": "jobs"}),
    );
    check_forbidden(
        "DELETE",
        PODS,
        "pods is forbidden: User \"reader\" cannot deletecollection resource \"pods\" in API group \
         \"\" in the namespace \"default\"",
        json!({"kind": "pods"}),
    );
    check_forbidden(
        "PATCH",
        "/apis/batch/v1/namespaces/default/jobs/x/status",
        "jobs.batch \"x\" is forbidden: User \"reader\" cannot patch resource \"jobs/status\" in API \
         group \"batch\" in the namespace \"default\"",
        json!({"name": "x", "group": "batch", "kind": "jobs"}),
    );
    check_forbidden(
        "PUT",
        "/api/v1/nodes/n",
        "nodes \"n\" is forbidden: User \"reader\" cannot update resource \"nodes\" in API group \"\" \
         at the cluster scope",
        json!({"name": "n", "kind": "nodes"}),
    );
    check_forbidden(
        "PUT",
        "/api/v1/namespaces/x/finalize",
        "namespaces \"x\" is forbidden: User \"reader\" cannot update resource \
         \"namespaces/finalize\" in API group \"\" in the namespace \"x\"",
        json!({"name": "x", "kind": "namespaces"}),
    );
    check_forbidden(
        "POST",
        "/healthz",
        "forbidden: User \"reader\" cannot post path \"/healthz\"",
        json!({}),
    );
    for method in ["GET", "PUT", "DELETE"] {
        let verb = method.to_lowercase();
        check_forbidden(
            method,
            "/lakh/faults",
            &format!("forbidden: User \"reader\" cannot {verb} path \"/lakh/faults\""),
            json!({}),
        );
    }
    for path in [JOBS, "/api/v1/nodes/n", "/apis/batch/v1", "/openapi/v3"] {
        assert_eq!(answer("Bearer rtok", "GET", path, ""), None, "{path}");
    }
}

#[test]
fn unknown_tokens_are_unauthorized() {
    let unknown = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    for path in ["/api/v1/pods", "/healthz"] {
        let seen = answer("Bearer nope", "GET", path, "");
        assert_eq!(seen, Some((401, unknown.clone())));
    }
    let message = |path: &str| {
        let (code, status) = answer("", "GET", path, "").unwrap();
        (code, status["message"].as_str().unwrap().to_owned())
    };
    let pods = "pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \
                \"\" at the cluster scope";
    assert_eq!(message("/api/v1/pods"), (403, pods.to_owned()));
    let apis = "forbidden: User \"system:anonymous\" cannot get path \"/apis\"";
    assert_eq!(message("/apis"), (403, apis.to_owned()));
    for path in ["/healthz", "/version"] {
        assert_eq!(answer("", "GET", path, ""), None);
    }
}

#[test]
fn access_reviews_match_enforcement() {
    let review = |token: &str, resource: &str, spec: Value| {
        let path = format!("/apis/authorization.k8s.io/v1/{resource}");
        let body = json!({"spec": spec}).to_string();
        answer(token, "POST", &path, &body).unwrap()
    };
    let own = "selfsubjectaccessreviews";
    let jobs = |verb: &str| {
        json!({"resourceAttributes":
            {"namespace": "default", "verb": verb, "group": "batch", "resource": "jobs"}})
    };
    let path = |verb: &str| json!({"nonResourceAttributes": {"path": "/x", "verb": verb}});
    let everything = json!({"resourceAttributes": {"verb": "*", "resource": "*", "group": "*"}});
    for (spec, reader) in [
        (jobs("create"), false),
        (jobs("list"), true),
        (path("get"), true),
        (path("post"), false),
        (everything, false),
    ] {
        let (code, seen) = review("Bearer rtok", own, spec.clone());
        assert_eq!((code, &seen["status"]), (201, &json!({"allowed": reader})));
        assert_eq!(seen["spec"], spec);
        assert_eq!(seen["kind"], "SelfSubjectAccessReview");
        let (_, seen) = review("Bearer tok", own, spec);
        assert_eq!(seen["status"], json!({"allowed": true}));
    }
    let (code, status) = review("Bearer rtok", own, json!({}));
    let why = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be \
               specified";
    assert_eq!(code, 422);
    assert_eq!(
        status["message"],
        format!(".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: {why}")
    );
    let about_reader = with(jobs("create"), &json!({"user": "reader"}));
    let others = "subjectaccessreviews";
    let (_, seen) = review("Bearer tok", others, about_reader.clone());
    assert_eq!(seen["status"], json!({"allowed": false}));
    let (code, status) = review("Bearer rtok", others, about_reader);
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "subjectaccessreviews.authorization.k8s.io is forbidden: User \"reader\" cannot create resource \
         \"subjectaccessreviews\" in API group \"authorization.k8s.io\" at the cluster scope"
    );
    let (_, rules) = review(
        "Bearer rtok",
        "selfsubjectrulesreviews",
        json!({"namespace": "default"}),
    );
    let first = &rules["status"]["resourceRules"][0];
    assert_eq!(first["verbs"], json!(["get", "list", "watch"]));
    assert_eq!(rules["status"]["incomplete"], false);
}

#[test]
fn a_token_review_returns_the_user() {
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = |asks: &str, token: &str| {
        let body = json!({"spec": {"token": token}}).to_string();
        answer(asks, "POST", path, &body).unwrap()
    };
    let (code, seen) = review("Bearer tok", "rtok");
    assert_eq!((code, &seen["kind"]), (201, &json!("TokenReview")));
    assert_eq!(seen["apiVersion"], "authentication.k8s.io/v1");
    let user = json!({"username": "reader", "uid": "reader-uid", "groups": ["readers", "system:authenticated"]});
    assert_eq!(seen["status"]["authenticated"], true);
    assert_eq!(seen["status"]["user"], user);
    for token in ["nope", ""] {
        let (_, seen) = review("Bearer tok", token);
        assert_eq!(
            seen["status"],
            json!({"user": {}, "error": "invalid bearer token"})
        );
    }
    let (code, status) = review("Bearer rtok", "tok");
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
}
