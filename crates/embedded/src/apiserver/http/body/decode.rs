//! Decodes JSON or YAML bodies into trees and checks them against the types of the API.
//!
//! Responsible for: decode errors and field validation. Must not: apply defaults or validate values.
//!
//! Different from a real server: duplicate fields are reported for objects in JSON, but not in YAML or patches. For
//! Pods, Events and Leases they are reported only if the client sets `fieldValidation`.

use serde_json::Value;

use super::{
    duplicates::{self, unknown_field},
    field_types::{self, go_name},
    protobuf,
};
use crate::{
    apiserver::{
        http::{
            options::FieldValidation,
            request::{Request, Target},
        },
        object::{ApiError, Kind, KindInfo, Result, Tree, events_v1, tree},
    },
    json::read_json,
};

/// Decodes a body by its media type, without checking the type of the object.
#[doc(alias = "NewYAMLOrJSONDecoder")]
pub(crate) fn json_or_yaml(request: Request<'_>) -> Result<Tree> {
    let value = match request.media_type() {
        "" | "application/json" => json(request.body)?,
        "application/yaml" => yaml(request.body, "")?,
        "application/vnd.kubernetes.protobuf" => {
            Value::Object(protobuf::read(request.body).ok_or_else(unknown_format)?)
        }
        _ => return Err(unknown_format()),
    };
    match value {
        Value::Object(tree) => Ok(tree),
        other => Err(ApiError::bad_request(format!(
            "{NO_JSON}json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            go_name(&other)
        ))),
    }
}

/// The start of error texts about bodies that are not a JSON object.
const NO_JSON: &str = "couldn't get version/kind; json parse error: ";

fn unknown_format() -> ApiError {
    ApiError::new(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: \
         application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
}

/// Like [`json_or_yaml`], but an empty body is an empty object: DELETE needs no body.
pub(crate) fn optional(request: Request<'_>) -> Result<Tree> {
    if request.body.iter().all(u8::is_ascii_whitespace) {
        Ok(Tree::new())
    } else {
        json_or_yaml(request)
    }
}

/// Decodes an object of the target's kind; adds warnings about unknown fields to the target.
pub(crate) fn object(request: Request<'_>, target: &mut Target) -> Result<Tree> {
    let info = target.kind.info();
    if request.body.iter().all(u8::is_ascii_whitespace) {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get \
             version/kind; json parse error: unexpected end of JSON input (<empty>)",
            info.name
        )));
    }
    let mut tree = json_or_yaml(request).map_err(|error| unrecognized(error, request, info))?;
    if target.as_events_v1 {
        events_v1::to_core(&mut tree);
    }
    check_kind(&tree, info)?;
    let is_json = matches!(request.media_type(), "" | "application/json");
    let text = is_json.then_some(request.body);
    check_types(target, &mut tree, text)
        .map_err(|why| cannot_handle(info.name, info.version, info.name, &why))?;
    check_place(&tree, target).map_err(|error| error.with_warnings(target.warnings.clone()))?;
    Ok(tree)
}

/// Appends the body to an error about one that is not a JSON object: as text if it starts with a brace, otherwise as
/// hex digits.
fn unrecognized(error: ApiError, request: Request<'_>, info: &KindInfo) -> ApiError {
    let why = error.to_string();
    if !why.starts_with(NO_JSON) {
        return error;
    }
    let body = match request.body {
        [b'{', ..] => String::from_utf8_lossy(request.body).into_owned(),
        bytes => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({body})",
        info.name
    ))
}

/// Converts a tree to the form of the API type. Drops unknown fields and adds warnings to the target, or rejects them
/// under strict validation. The same applies to duplicate fields in `text`, the JSON source of the tree. The error is
/// the text after `cannot be handled as a X: `.
pub(crate) fn check_types(
    target: &mut Target,
    tree: &mut Tree,
    text: Option<&[u8]>,
) -> Result<(), String> {
    let (kind, validation) = (target.kind, target.options.validation);
    let info = kind.info();
    tree.insert("apiVersion".into(), info.api_version.into());
    tree.insert("kind".into(), info.name.into());
    let unknown = field_types::take_unknown_fields(kind, tree)?;
    // Parsing the text a second time is too expensive for kinds with thousands of writes.
    let hot = matches!(kind, Kind::Pod | Kind::Event | Kind::Lease);
    let found = match text {
        Some(text) if !hot || validation != FieldValidation::Unset => {
            duplicates::findings(text, &unknown)
        }
        _ => unknown.iter().map(|path| unknown_field(path)).collect(),
    };
    if validation == FieldValidation::Strict && !found.is_empty() {
        return Err(format!("strict decoding error: {}", found.join(", ")));
    }
    if validation != FieldValidation::Ignore {
        target.warnings.extend(found);
    }
    tree::drop_nulls(tree);
    Ok(())
}

fn json(body: &[u8]) -> Result<Value> {
    read_json(body).map_err(|error| {
        let why = if error.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else if let Some(letter) = bare_key(body, &error) {
            format!("invalid character '{letter}' looking for beginning of object key string")
        } else {
            error.to_string()
        };
        ApiError::bad_request(format!("{NO_JSON}{why}"))
    })
}

/// The character at which a key should have started.
fn bare_key(body: &[u8], error: &serde_json::Error) -> Option<char> {
    if !error.to_string().starts_with("key must be a string") {
        return None;
    }
    let line = body.split(|byte| *byte == b'\n').nth(error.line() - 1)?;
    line.get(error.column().checked_sub(1)?)
        .map(|byte| char::from(*byte))
}

fn yaml(body: &[u8], prefix: &str) -> Result<Value> {
    let wrong = |why: &dyn std::fmt::Display| {
        ApiError::bad_request(format!("{prefix}error converting YAML to JSON: {why}"))
    };
    let text = std::str::from_utf8(body).map_err(|_| wrong(&"invalid UTF-8"))?;
    serde_saphyr::from_str(text).map_err(|error| wrong(&error))
}

/// Decodes YAML (or JSON, its subset) of apply patches.
pub(crate) fn apply_body(body: &[u8]) -> Result<Tree> {
    match yaml(body, "error decoding YAML: ")? {
        Value::Object(tree) => Ok(tree),
        Value::Null => Ok(Tree::new()),
        other => Err(ApiError::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
             map[string]interface {{}}",
            go_name(&other)
        ))),
    }
}

/// The kind and version in an object, if they differ from `info`.
fn other_kind<'a>(tree: &'a Tree, info: &KindInfo) -> Option<(&'a str, &'a str)> {
    let said = |member: &str, own: &'static str| match tree::text(tree, member) {
        "" => own,
        text => text,
    };
    let found = (
        said("kind", info.name),
        said("apiVersion", info.api_version),
    );
    (found != (info.name, info.api_version)).then_some(found)
}

fn not_registered(name: &str, api_version: &str) -> String {
    format!(
        "no kind {name:?} is registered for version {api_version:?} in scheme \
         \"pkg/api/legacyscheme/scheme.go:30\""
    )
}

fn check_kind(tree: &Tree, info: &KindInfo) -> Result<()> {
    let Some((name, api_version)) = other_kind(tree, info) else {
        return Ok(());
    };
    let version = version_of(api_version);
    let why = not_convertible(name, api_version, info);
    Err(cannot_handle(name, version, info.name, &why))
}

fn version_of(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or_default()
}

/// The reason why an object of one kind cannot be converted to another.
fn not_convertible(name: &str, api_version: &str, info: &KindInfo) -> String {
    if Kind::named(api_version, name).is_none() {
        return not_registered(name, api_version);
    }
    let (version, group, own) = (version_of(api_version), info.short_group(), info.name);
    format!("converting ({version}.{name}) to ({group}.{own}): unknown conversion")
}

/// Rejects a patch that changed the kind of an object.
pub(crate) fn same_kind(kind: Kind, tree: &Tree) -> Result<(), String> {
    match other_kind(tree, kind.info()) {
        Some((name, api_version)) => Err(not_convertible(name, api_version, kind.info())),
        None => Ok(()),
    }
}

fn cannot_handle(name: &str, version: &str, own: &str, why: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{name} in version {version:?} cannot be handled as a {own}: {why}"
    ))
}

fn check_place(tree: &Tree, target: &Target) -> Result<()> {
    let metadata = tree::metadata(tree);
    let namespace = tree::text(metadata, "namespace");
    if target.kind.info().namespaced && !namespace.is_empty() && namespace != target.namespace {
        return Err(ApiError::other_namespace());
    }
    let name = tree::text(metadata, "name");
    if !target.name.is_empty() && name != target.name {
        return Err(match name {
            "" => ApiError::no_name(&target.name),
            name => ApiError::other_name(name, &target.name),
        });
    }
    Ok(())
}
