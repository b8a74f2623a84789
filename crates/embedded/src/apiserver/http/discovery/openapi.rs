//! Serves the OpenAPI documents that kubectl needs.
//!
//! Responsible for: the location of the schemas, and the kinds that accept the `fieldValidation` parameter, so that
//! clients leave validation to the server. Must not: describe fields; `schemas` does.
//!
//! Different from a real server: the version 2 document describes `metadata`, `spec` and `status` as open objects. Its
//! protobuf form has no definitions. kubectl requests that form if the version 3 documents lack a kind, and must find
//! that it lacks the kind, too. No document offers strategic merge for patches, so that kubectl uses its built-in merge
//! keys.

use std::iter;

use serde_json::{Map, Value, json};

use super::version::VERSION;
use crate::apiserver::{
    http::{negotiation::Transform, query::Query},
    object::{ApiError, GROUPS, KindInfo, Result, schemas, served_rows},
    print::{JSON, Response, TEXT},
};

/// The hash in document URLs; it must change exactly when the documents change.
const HASH: &str = VERSION;

/// The media type of the version 2 document in protobuf.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Answers `/openapi/...`; `None` for other paths.
pub(crate) fn answer(path: &str, query: &str, accepted: Transform) -> Option<Result<Response>> {
    match path {
        "/openapi/v3" => Some(Ok(Response {
            content_type: TEXT,
            ..Response::json(200, &index())
        })),
        "/openapi/v2" if accepted == Transform::OldOpenApi => {
            Some(Ok(Response::bytes(200, PROTOBUF, no_definitions())))
        }
        "/openapi/v2" => Some(Ok(Response::json(200, &swagger()))),
        other => {
            let name = other.strip_prefix("/openapi/v3/")?;
            let mut all = all();
            let found = all.find(|(group, version)| path_of(group, version) == name);
            let answer = found.map(|(group, version)| match Query::parse(query).get("hash") {
                None | Some("" | HASH) => document(group, version),
                Some(_) => moved(path),
            });
            // An empty body, as on a real server.
            Some(answer.ok_or_else(|| ApiError::text(404, "")))
        }
    }
}

/// All groups, each with its version.
fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    iter::once(("", "v1")).chain(GROUPS)
}

/// The path of a group's document.
fn path_of(group: &str, version: &str) -> String {
    match group {
        "" => "api/v1".to_owned(),
        group => format!("apis/{group}/{version}"),
    }
}

/// Redirects a request for an older document to the current one.
fn moved(path: &str) -> Response {
    Response {
        headers: vec![("location", format!("{path}?hash={HASH}"))],
        ..Response::bytes(301, JSON, Vec::new())
    }
}

fn index() -> Value {
    let entry = |(group, version): (&str, &str)| {
        let path = path_of(group, version);
        let url = format!("/openapi/v3/{path}?hash={HASH}");
        (path, json!({"serverRelativeURL": url}))
    };
    let paths: Map<String, Value> = all().map(entry).collect();
    json!({"paths": paths})
}

fn document(group: &str, version: &str) -> Response {
    let mut paths = Map::new();
    for row in served_rows().filter(|row| row.group == group) {
        let root = path_of(group, version);
        let namespace = if row.namespaced {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let collection = format!("/{root}{namespace}/{}", row.plural);
        let of_object = ["get", "put", "patch", "delete"].map(|it| (it, operation(row, it)));
        let of_all = [
            ("get", operation(row, "list")),
            ("post", operation(row, "post")),
        ];
        paths.insert(
            format!("{collection}/{{name}}"),
            Value::from_iter(of_object),
        );
        paths.insert(collection, Value::from_iter(of_all));
    }
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas::of_group(group)},
    });
    Response::json(200, &document)
}

fn operation(row: &KindInfo, action: &str) -> Value {
    let names: &[&str] = match action {
        "post" | "put" | "patch" => &["pretty", "dryRun", "fieldManager", "fieldValidation"],
        _ => &["pretty"],
    };
    let parameters = names.iter().map(|name| {
        json!({
            "name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true},
        })
    });
    let parameters: Vec<Value> = parameters.collect();
    json!({
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": schemas::group_version_kind(row),
    })
}

/// The version 2 document in protobuf: version, info and empty paths.
fn no_definitions() -> Vec<u8> {
    let field = |number: u8, content: &[u8]| {
        // All content is shorter than 128 bytes, so a length is one byte.
        let head = [number << 3 | 2, content.len() as u8];
        [&head, content].concat()
    };
    let info = [field(1, b"Kubernetes"), field(2, VERSION.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info), field(8, b"")].concat()
}

fn swagger() -> Value {
    let definitions: Map<String, Value> = served_rows()
        .map(|row| (schemas::name(row), open_schema(row)))
        .collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": {},
        "definitions": definitions,
    })
}

fn open_schema(row: &KindInfo) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": open,
            "spec": open,
            "status": open,
        },
        "x-kubernetes-group-version-kind": [schemas::group_version_kind(row)],
        "x-kubernetes-preserve-unknown-fields": true,
    })
}
