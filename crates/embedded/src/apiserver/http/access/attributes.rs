//! Derives the attributes of a request from its path, for authorization and the audit log.
//!
//! Responsible for: the verb and its target. Must not: know the served resources.

use serde::Deserialize;
use serde_json::Value;

use crate::apiserver::{
    http::{
        query::{Query, decode_path},
        request::{Request, verb_of},
    },
    object::{Tree, tree},
};

/// The verb and the target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `create` and so on, or the HTTP method if the path has no resource.
    pub verb: String,
    /// The target of the verb.
    pub target: RequestTarget,
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestTarget {
    /// A path without a resource.
    Path(String),
    /// A resource.
    Resource(ResourceAttributes),
}

/// A resource or an object; fields that do not apply are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceAttributes {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Attributes {
    /// The attributes of a request.
    pub fn of(request: Request<'_>) -> Self {
        let path = decode_path(request.path);
        let segments = path.split('/').filter(|it| !it.is_empty());
        let segments: Vec<&str> = segments.collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => {
                return Self {
                    verb: request.method.to_lowercase(),
                    target: RequestTarget::Path(path.to_string()),
                };
            }
        };
        let (watched, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            _ => (false, rest),
        };
        // `status` and `finalize` are subresources of a namespace, not resources in it.
        let (namespace, rest) = match rest {
            ["namespaces", namespace, third, ..] if !["status", "finalize"].contains(third) => {
                (*namespace, &rest[2..])
            }
            ["namespaces", namespace, ..] => (*namespace, rest),
            _ => ("", rest),
        };
        let part = |nth: usize| (*rest.get(nth).unwrap_or(&"")).to_owned();
        let mut resource = ResourceAttributes {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: part(0),
            subresource: part(2),
            namespace: namespace.to_owned(),
            name: part(1),
        };
        let query = Query::parse(request.query);
        let watch = watched || query.flag("watch");
        let verb = verb_of(request.method, watch, resource.name.is_empty());
        let of_many = matches!(verb, Some("list" | "watch" | "deletecollection"));
        if let Some(name) = named_by_selector(&query).filter(|_| of_many) {
            resource.name = name;
        }
        Self {
            verb: verb.unwrap_or_default().to_owned(),
            target: RequestTarget::Resource(resource),
        }
    }

    /// The attributes in the spec of an access review.
    pub(crate) fn reviewed(attributes: &Tree) -> Self {
        let target = ResourceAttributes::deserialize(attributes).unwrap_or_default();
        Self {
            verb: tree::text(attributes, "verb").to_owned(),
            target: RequestTarget::Resource(target),
        }
    }
}

/// The name in a field selector for a single object: a list, watch or deletecollection with it needs access to that
/// object only.
fn named_by_selector(query: &Query) -> Option<String> {
    let selector = query.text("fieldSelector");
    let mut terms = selector.split(',');
    let name = terms.find_map(|term| term.strip_prefix("metadata.name="))?;
    let name = name.strip_prefix('=').unwrap_or(name);
    (!name.is_empty()).then(|| name.to_owned())
}

impl ResourceAttributes {
    /// The resource as an audit log reference; fields that do not apply are omitted.
    #[doc(alias = "ObjectReference")]
    pub(crate) fn reference(&self) -> Value {
        tree::of_texts([
            ("resource", &self.resource),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("apiGroup", &self.group),
            ("apiVersion", &self.version),
            ("subresource", &self.subresource),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, path: &str, expected: &str) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let attributes = Attributes::of(Request {
            method,
            path,
            query,
            ..Request::default()
        });
        let seen = match attributes.target {
            RequestTarget::Path(path) => format!("{} {path}", attributes.verb),
            RequestTarget::Resource(resource) => {
                format!("{} {}", attributes.verb, resource.reference())
            }
        };
        assert_eq!(seen, expected, "{method} {path}");
    }

    #[test]
    fn requests_are_about_resources_or_paths() {
        check("POST", "/healthz", "post /healthz");
        check("GET", "/apis/batch/v1", "get /apis/batch/v1");
        check(
            "GET",
            "/api/v1/pods?watch=1",
            r#"watch {"apiVersion":"v1","resource":"pods"}"#,
        );
        check(
            "GET",
            "/api/v1/namespaces/n/pods?watch=1&fieldSelector=metadata.name%3Dp",
            r#"watch {"apiVersion":"v1","name":"p","namespace":"n","resource":"pods"}"#,
        );
        check(
            "PATCH",
            "/apis/batch/v1/namespaces/n/jobs/j/status",
            r#"patch {"apiGroup":"batch","apiVersion":"v1","name":"j","namespace":"n","resource":"jobs","subresource":"status"}"#,
        );
        check(
            "PUT",
            "/api/v1/namespaces/x/finalize",
            r#"update {"apiVersion":"v1","name":"x","namespace":"x","resource":"namespaces","subresource":"finalize"}"#,
        );
        check(
            "DELETE",
            "/api/v1/namespaces/x",
            r#"delete {"apiVersion":"v1","name":"x","namespace":"x","resource":"namespaces"}"#,
        );
        check(
            "GET",
            "/api/v1/namespaces/x%2Dy",
            r#"get {"apiVersion":"v1","name":"x-y","namespace":"x-y","resource":"namespaces"}"#,
        );
        check(
            "POST",
            "/api/v1/namespaces",
            r#"create {"apiVersion":"v1","resource":"namespaces"}"#,
        );
    }
}
