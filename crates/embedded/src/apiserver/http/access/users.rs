//! Authenticates and authorizes users if tokens are required.
//!
//! Responsible for: the users of a token file, their permissions, and the responses 401, 403 and those to access and
//! token reviews. Must not: access objects.
//!
//! Different from a real server: there are no roles. Members of `system:masters` may do everything. Other users with a
//! known token may read, as with a role for `get`, `list` and `watch` of everything. Without a token, only health and
//! version are served.

use serde_json::{Value, json};

use super::attributes::{Attributes, RequestTarget};
use crate::apiserver::{
    http::{body::decode, discovery::documents, request::Request},
    object::{ApiError, Tree, qualify, tree},
    print::Response,
};

/// The group that may do everything.
const MASTERS: &str = "system:masters";
const REVIEWS: &str = "authorization.k8s.io";
/// The API group of the reviews about authentication.
const TOKEN_REVIEWS: &str = "authentication.k8s.io";
/// The reviews that every user may create about itself.
const ABOUT_SELF: [&str; 3] = [
    "selfsubjectaccessreviews",
    "selfsubjectrulesreviews",
    "selfsubjectreviews",
];
/// Prefix of the paths that only this server has, such as faults. Read-only users have no access to them.
const OWN: &str = "/lakh/";

/// The user that makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name.
    pub name: String,
    /// Unique id; may be empty.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
}

/// All users, by their tokens.
#[derive(Clone, Debug, Default)]
pub struct Users(Vec<(String, User)>);

impl Users {
    /// Reads a token file in Kubernetes' format: `token,user,uid` and optionally `"group1,group2"`.
    ///
    /// # Errors
    ///
    /// The number of an invalid line and the reason; or that no user may do everything, which the cluster's own
    /// controllers need.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut users: Vec<(String, User)> = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: &str| format!("line {number}: {why}");
            let fields = fields(line).ok_or_else(|| wrong("a quote has no end"))?;
            let [token, name, uid, rest @ ..] = fields.as_slice() else {
                return Err(wrong("expected token,user,uid and perhaps \"groups\""));
            };
            if token.is_empty() || name.is_empty() {
                return Err(wrong("token and user must not be empty"));
            }
            if users.iter().any(|(known, _)| known == token) {
                return Err(wrong("the token is there already"));
            }
            let groups = rest.first().map(String::as_str).unwrap_or_default();
            let groups = groups.split(',').map(str::trim).filter(|it| !it.is_empty());
            let mut groups: Vec<String> = groups.map(str::to_owned).collect();
            groups.push("system:authenticated".to_owned());
            let user = User {
                name: name.clone(),
                uid: uid.clone(),
                groups,
            };
            users.push((token.clone(), user));
        }
        let users = Self(users);
        if users.master_token().is_none() {
            return Err(format!("nobody in it is in the group {MASTERS}"));
        }
        Ok(users)
    }

    /// The token of a user that may do everything.
    pub fn master_token(&self) -> Option<&str> {
        let masters = self.0.iter().find(|(_, user)| user.is_master());
        masters.map(|(token, _)| token.as_str())
    }

    /// The user of a request by its `Authorization` header; `None` if the token is unknown.
    pub fn find(&self, authorization: &str) -> Option<User> {
        let Some((scheme, token)) = authorization.trim().split_once(' ') else {
            return authorization.trim().is_empty().then(User::anonymous);
        };
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Some(User::anonymous());
        }
        self.of_token(token.trim()).cloned()
    }

    fn of_token(&self, token: &str) -> Option<&User> {
        let mut users = self.0.iter();
        let found = users.find(|(known, _)| same(known.as_bytes(), token.as_bytes()));
        found.map(|(_, user)| user)
    }

    /// Returns the responses that depend on the user: rejections and access reviews. `None` if the server has to answer
    /// the request.
    pub fn answer(&self, user: Option<&User>, request: Request<'_>) -> Option<Response> {
        let Some(user) = user else {
            return Some(ApiError::new(401, "Unauthorized", "Unauthorized").into());
        };
        let asked = Attributes::of(request);
        match user.may(&asked) {
            true => self.review(user, &asked, request),
            false => Some(forbidden(user, &asked).into()),
        }
    }

    fn review(&self, user: &User, asked: &Attributes, request: Request<'_>) -> Option<Response> {
        let RequestTarget::Resource(target) = &asked.target else {
            return None;
        };
        let is_review = [REVIEWS, TOKEN_REVIEWS].contains(&target.group.as_str());
        if !is_review || asked.verb != "create" {
            return None;
        }
        let answer = decode::json_or_yaml(request).and_then(|body| match &*target.resource {
            "tokenreviews" if target.group == TOKEN_REVIEWS => Ok(self.token_review(body)),
            "selfsubjectreviews" if target.group == TOKEN_REVIEWS => {
                let groups: Vec<&str> = user.groups.iter().map(String::as_str).collect();
                let status = documents::user_info(&user.name, &user.uid, &groups);
                Ok(documents::reviewed("SelfSubjectReview", body, status))
            }
            _ if target.group == TOKEN_REVIEWS => Err(ApiError::no_resource()),
            "selfsubjectrulesreviews" => Ok(rules_review(user, body)),
            "selfsubjectaccessreviews" => {
                access_review("SelfSubjectAccessReview", Some(user), body)
            }
            "subjectaccessreviews" => {
                let name = tree::text(&body, "spec.user").to_owned();
                let mut users = self.0.iter().map(|(_, user)| user);
                let meant = users.find(|user| user.name == name);
                access_review("SubjectAccessReview", meant, body)
            }
            _ => Err(ApiError::no_resource()),
        });
        let review = answer.map(|review| Response::json(201, &review));
        Some(review.unwrap_or_else(Response::from))
    }

    /// Reviews a token. The error text is that of a real server.
    fn token_review(&self, mut body: Tree) -> Value {
        let token = tree::text(&body, "spec.token").to_owned();
        let found = self.of_token(&token).filter(|_| !token.is_empty());
        let status = match found {
            Some(user) => json!({
                "authenticated": true,
                "user": {"username": user.name, "uid": user.uid, "groups": user.groups},
                "audiences": ["https://kubernetes.default.svc.cluster.local"],
            }),
            None => json!({"user": {}, "error": "invalid bearer token"}),
        };
        tree::metadata_mut(&mut body);
        documents::reviewed("TokenReview", body, status)
    }
}

impl User {
    fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            uid: String::new(),
            groups: vec!["system:unauthenticated".to_owned()],
        }
    }

    fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|have| have == group)
    }

    fn is_anonymous(&self) -> bool {
        !self.is_in("system:authenticated")
    }

    fn may(&self, asked: &Attributes) -> bool {
        if self.is_master() {
            return true;
        }
        let verb = asked.verb.as_str();
        match &asked.target {
            RequestTarget::Path(path) if self.is_anonymous() => {
                let open = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
                verb == "get" && open.contains(&path.as_str())
            }
            RequestTarget::Path(path) => verb == "get" && !path.starts_with(OWN),
            RequestTarget::Resource(_) if self.is_anonymous() => false,
            RequestTarget::Resource(target) => {
                let reviews = [REVIEWS, TOKEN_REVIEWS].contains(&target.group.as_str())
                    && verb == "create"
                    && ABOUT_SELF.contains(&target.resource.as_str());
                reviews || ["get", "list", "watch"].contains(&verb)
            }
        }
    }
}

fn forbidden(user: &User, asked: &Attributes) -> ApiError {
    let (name, verb) = (&user.name, &asked.verb);
    let target = match &asked.target {
        RequestTarget::Path(path) => {
            let message = format!("forbidden: User {name:?} cannot {verb} path {path:?}");
            return ApiError::new(403, "Forbidden", message).with_details(json!({}));
        }
        RequestTarget::Resource(target) => target,
    };
    let (group, resource) = (&target.group, &target.resource);
    let full = match target.subresource.as_str() {
        "" => resource.clone(),
        part => format!("{resource}/{part}"),
    };
    let place = match target.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let object = match target.name.as_str() {
        "" => String::new(),
        name => format!(" {name:?}"),
    };
    let message = format!(
        "{}{object} is forbidden: User {name:?} cannot {verb} resource {full:?} in API group \
         {group:?} {place}",
        qualify(resource, group)
    );
    let details = tree::of_texts([("kind", resource), ("name", &target.name), ("group", group)]);
    ApiError::new(403, "Forbidden", message).with_details(details)
}

fn access_review(kind: &str, user: Option<&User>, mut body: Tree) -> Result<Value, ApiError> {
    let spec = tree::section(&body, "spec");
    let (resource, path) = ("resourceAttributes", "nonResourceAttributes");
    let asked = match (spec.get(resource), spec.get(path)) {
        (Some(Value::Object(resource)), None) => Attributes::reviewed(resource),
        (None, Some(Value::Object(path))) => Attributes {
            verb: tree::text(path, "verb").to_owned(),
            target: RequestTarget::Path(tree::text(path, "path").to_owned()),
        },
        _ => return Err(neither()),
    };
    let allowed = user.is_some_and(|user| user.may(&asked));
    tree::metadata_mut(&mut body);
    Ok(documents::reviewed(kind, body, json!({"allowed": allowed})))
}

fn neither() -> ApiError {
    let why = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be \
               specified";
    let details = json!({"group": REVIEWS});
    let errors = [("spec.resourceAttributes", why)];
    ApiError::invalid(&format!(".{REVIEWS} \"\""), details, errors)
}

fn rules_review(user: &User, mut body: Tree) -> Value {
    let mut rules = match user.is_master() {
        true => documents::rules(&["*"], &["*"]),
        false => documents::rules(&["get", "list", "watch"], &["get"]),
    };
    let reviews = json!({"verbs": ["create"], "apiGroups": [REVIEWS], "resources": ABOUT_SELF});
    if let Value::Array(of_resources) = &mut rules["resourceRules"] {
        of_resources.push(reviews);
    }
    tree::metadata_mut(&mut body);
    body.insert("spec".into(), json!({}));
    documents::reviewed("SelfSubjectRulesReview", body, rules)
}

/// The fields of a CSV line; `None` if a quote is not closed.
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = fields.last_mut()?;
        match letter {
            '"' if quoted && letters.next_if_eq(&'"').is_some() => last.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => last.push(other),
        }
    }
    let trimmed = fields.iter().map(|field| field.trim().to_owned());
    (!quoted).then(|| trimmed.collect())
}

/// Compares two tokens in constant time.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_files_are_read_or_refused() {
        let users = Users::read("# who\nt1,ann,1,\"system:masters,a\"\n\nt2,\"bob\",2\n").unwrap();
        let bob = users.find("Bearer t2").unwrap();
        assert_eq!((bob.name.as_str(), bob.uid.as_str()), ("bob", "2"));
        assert_eq!(bob.groups, ["system:authenticated"]);
        assert_eq!(users.find("Bearer t3"), None);
        assert_eq!(users.find("").unwrap().name, "system:anonymous");
        assert_eq!(users.master_token(), Some("t1"));
        for (text, why) in [
            ("t1,ann", "line 1: expected"),
            ("\nt1,\"ann,1", "line 2: a quote"),
            (
                "t1,ann,1,\"system:masters\"\nt1,bob,2",
                "line 2: the token is there",
            ),
            ("t1,,1", "line 1: token and user"),
            ("t2,bob,2", "nobody in it is in the group system:masters"),
        ] {
            let error = Users::read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
