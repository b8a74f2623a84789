//! Answers paths without objects: discovery, version, health, access reviews.
//!
//! Responsible for: documents about the API. Must not: access stored objects.

use serde_json::{Value, json};

use super::{health, openapi, version};
use crate::apiserver::{
    http::negotiation::Transform,
    object::{ApiError, GROUPS, Kind, KindInfo, Result, Subresource, Tree, VERBS, served_rows},
    print::Response,
};

/// Reviews: group, plural and kind.
pub(crate) const REVIEWS: [[&str; 3]; 5] = [
    [
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
    ],
    [
        "authorization.k8s.io",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
    ],
    [
        "authorization.k8s.io",
        "subjectaccessreviews",
        "SubjectAccessReview",
    ],
    [
        "authentication.k8s.io",
        "selfsubjectreviews",
        "SelfSubjectReview",
    ],
    ["authentication.k8s.io", "tokenreviews", "TokenReview"],
];

/// The groups of the reviews, with their versions.
const REVIEW_GROUPS: [(&str, &str); 2] = [
    ("authorization.k8s.io", "v1"),
    ("authentication.k8s.io", "v1"),
];

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The `storageVersionHash` of a real server for a kind.
const STORAGE_HASHES: [(Kind, &str); 2] =
    [(Kind::CronJob, "sd5LIXh4Fjs="), (Kind::Job, "mudhfqk/qZY=")];

/// Answers a path without a resource.
pub(crate) fn answer(path: &str, query: &str, accepted: Transform) -> Result<Response> {
    let aggregated = accepted == Transform::Discovery;
    if let Some(document) = openapi::answer(path, query, accepted) {
        return document;
    }
    let version_of = |group: &str| {
        let mut groups = served();
        groups
            .find(|(name, _)| *name == group)
            .map(|(_, version)| version)
    };
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if let Some(health) = health::answer(&parts, query) {
        return health;
    }
    let document = match parts.as_slice() {
        [] => paths(),
        ["version"] => version::document(),
        ["api"] if aggregated => return Ok(aggregate([("", "v1")])),
        ["apis"] if aggregated => return Ok(aggregate(served())),
        ["api"] => core_versions(),
        ["api", "v1"] => {
            let mut list = resource_list("", "v1");
            // The core group omits this.
            list.as_object_mut().map(|list| list.remove("apiVersion"));
            list
        }
        ["apis"] => groups(),
        ["apis", group] => {
            let version = version_of(group).ok_or_else(ApiError::no_path)?;
            let mut answer = group_entry(group, version);
            answer["kind"] = "APIGroup".into();
            answer["apiVersion"] = "v1".into();
            answer
        }
        ["apis", group, version] if version_of(group) == Some(version) => {
            resource_list(group, &format!("{group}/{version}"))
        }
        ["apis", group, ..] if version_of(group).is_some() => return Err(ApiError::no_resource()),
        _ => return Err(ApiError::no_path()),
    };
    Ok(Response::json(200, &document))
}

/// Answers a review on loopback: everything is allowed, and there are no tokens.
pub(crate) fn review(kind: &str, body: Tree) -> Response {
    let status = match kind {
        "SelfSubjectRulesReview" => rules(&["*"], &["*"]),
        "TokenReview" => json!({"user": {}, "error": "no token is known on loopback"}),
        "SelfSubjectReview" => user_info(
            "system:admin",
            "",
            &["system:masters", "system:authenticated"],
        ),
        _ => json!({"allowed": true, "reason": "everything is allowed on loopback"}),
    };
    Response::json(201, &reviewed(kind, body, status))
}

/// The status of a review of the requesting user.
pub(crate) fn user_info(name: &str, uid: &str, groups: &[&str]) -> Value {
    let mut info = json!({"username": name, "groups": groups});
    if !uid.is_empty() {
        info["uid"] = uid.into();
    }
    json!({"userInfo": info})
}

/// A review with its status.
pub(crate) fn reviewed(kind: &str, mut body: Tree, status: Value) -> Value {
    let group = REVIEWS.iter().find(|[_, _, known]| *known == kind);
    let [group, ..] = group.unwrap_or(&REVIEWS[0]);
    body.insert("kind".into(), kind.into());
    body.insert("apiVersion".into(), format!("{group}/v1").into());
    body.insert("status".into(), status);
    Value::Object(body)
}

/// The rules of a user with these verbs on all resources and these on all paths.
pub(crate) fn rules(verbs: &[&str], of_paths: &[&str]) -> Value {
    json!({
        "resourceRules": [{"verbs": verbs, "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": of_paths, "nonResourceURLs": ["*"]}],
        "incomplete": false,
    })
}

fn paths() -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, version) in GROUPS {
        paths.push(format!("/apis/{group}"));
        paths.push(format!("/apis/{group}/{version}"));
    }
    paths.extend(health::paths());
    let others = "/openapi/v2 /openapi/v3 /version";
    paths.extend(others.split(' ').map(str::to_owned));
    paths.sort();
    json!({"paths": paths})
}

fn core_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
    })
}

fn groups() -> Value {
    let entry = |(group, version): (&str, &str)| group_entry(group, version);
    let groups: Vec<Value> = served().map(entry).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// All groups except for the core group, with their versions.
fn served() -> impl Iterator<Item = (&'static str, &'static str)> {
    GROUPS.into_iter().chain(REVIEW_GROUPS)
}

/// The reviews of a group.
fn reviews(group: &str) -> impl Iterator<Item = [&'static str; 2]> {
    let rows = REVIEWS.into_iter();
    rows.filter(move |[of, ..]| *of == group)
        .map(|[_, plural, kind]| [plural, kind])
}

fn group_entry(group: &str, version: &str) -> Value {
    let version = json!({"groupVersion": format!("{group}/{version}"), "version": version});
    json!({"name": group, "versions": [version], "preferredVersion": version})
}

fn rows(group: &str) -> impl Iterator<Item = &'static KindInfo> {
    served_rows().filter(move |row| row.group == group)
}

fn resource_list(group: &str, group_version: &str) -> Value {
    let mut resources = Vec::new();
    let mut sorted: Vec<&KindInfo> = rows(group).collect();
    sorted.sort_by_key(|row| row.plural);
    for row in sorted {
        let mut resource = resource(row.plural, row.name, row.namespaced, VERBS);
        add_names(&mut resource, row);
        if let Some((_, hash)) = STORAGE_HASHES.iter().find(|(kind, _)| *kind == row.kind) {
            resource["storageVersionHash"] = (*hash).into();
        }
        resources.push(resource);
        for sub in row.subresources {
            let name = format!("{}/{}", row.plural, sub.name);
            let mut resource = self::resource(&name, sub.kind, row.namespaced, sub.verbs);
            if let Some((group, version)) = sub.group_version {
                resource["group"] = group.into();
                resource["version"] = version.into();
            }
            resources.push(resource);
        }
    }
    let reviews = reviews(group);
    resources.extend(reviews.map(|[plural, kind]| resource(plural, kind, false, &["create"])));
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    })
}

fn resource(name: &str, kind: &str, namespaced: bool, verbs: &[&str]) -> Value {
    let singular = match name.contains('/') {
        true => String::new(),
        false => kind.to_lowercase(),
    };
    json!({
        "name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": verbs,
    })
}

fn add_names(resource: &mut Value, row: &KindInfo) {
    for (field, names) in [
        ("shortNames", row.short_names),
        ("categories", row.categories),
    ] {
        if !names.is_empty() {
            resource[field] = json!(names);
        }
    }
}

/// The aggregated form: all groups with all resources in one response.
fn aggregate<'a>(groups: impl IntoIterator<Item = (&'a str, &'a str)>) -> Response {
    let items = groups.into_iter();
    let items = items.map(|(group, version)| aggregated_group(group, version));
    let items: Vec<Value> = items.collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    Response {
        content_type: AGGREGATED,
        ..Response::json(200, &list)
    }
}

fn aggregated_group(group: &str, version: &str) -> Value {
    let resources = rows(group).map(aggregated_resource);
    let reviews = reviews(group).map(|[plural, kind]| {
        let kind = response_kind(group, version, kind);
        resource_of_kind(plural, &kind, false, &["create"])
    });
    let resources: Vec<Value> = resources.chain(reviews).collect();
    let mut metadata = json!({"creationTimestamp": null});
    if !group.is_empty() {
        metadata["name"] = group.into();
    }
    json!({
        "metadata": metadata,
        "versions": [{"version": version, "resources": resources, "freshness": "Current"}],
    })
}

fn response_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

fn resource_of_kind(plural: &str, kind: &Value, namespaced: bool, verbs: &[&str]) -> Value {
    json!({
        "resource": plural,
        "responseKind": kind,
        "scope": if namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind["kind"].as_str().map(str::to_lowercase),
        "verbs": verbs,
    })
}

fn aggregated_resource(row: &KindInfo) -> Value {
    let kind = response_kind(row.group, row.version, row.name);
    let mut resource = resource_of_kind(row.plural, &kind, row.namespaced, VERBS);
    add_names(&mut resource, row);
    let sub = |sub: &Subresource| {
        let (group, version) = sub.group_version.unwrap_or((row.group, row.version));
        json!({
            "subresource": sub.name,
            "responseKind": response_kind(group, version, sub.kind),
            "verbs": sub.verbs,
        })
    };
    if !row.subresources.is_empty() {
        resource["subresources"] = row.subresources.iter().map(sub).collect();
    }
    resource
}
