//! Bodies: JSON or YAML text into trees, checked against the types of the API.
//!
//! Responsible for: decode errors and field validation. Must not: apply defaults or judge
//! values.
//!
//! Different from a real server: duplicate fields are not reported (the last one counts), and
//! Pods, Events and Leases from clients that ask for no field validation are checked for types
//! only, without a search for unknown fields.

use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    error::{ApiError, Result},
    meta,
    object::Tree,
    options::FieldValidation,
    protobuf, quota,
    request::{Request, Target},
    resources::{Kind, KindInfo},
    types::{self, Visitor},
};

/// Reads a body that may be JSON or YAML, without looking at its type.
pub(crate) fn json_or_yaml(request: Request<'_>) -> Result<Tree> {
    let media = request
        .content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    let value = match media {
        "" | "application/json" => json(request.body)?,
        "application/yaml" => yaml(request.body)?,
        "application/vnd.kubernetes.protobuf" => {
            Value::Object(protobuf::read(request.body).ok_or_else(unknown_format)?)
        }
        _ => return Err(unknown_format()),
    };
    match value {
        Value::Object(tree) => Ok(tree),
        other => Err(ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go \
             value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
             Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            go_name(&other)
        ))),
    }
}

fn unknown_format() -> ApiError {
    ApiError::new(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: \
         application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
}

/// Like [`json_or_yaml`], but an empty body is an empty object: DELETE may have none.
pub(crate) fn optional(request: Request<'_>) -> Result<Tree> {
    if request.body.iter().all(u8::is_ascii_whitespace) {
        Ok(Tree::new())
    } else {
        json_or_yaml(request)
    }
}

/// Reads an object of the target's kind; warnings about unknown fields go to the target.
pub(crate) fn object(request: Request<'_>, target: &mut Target) -> Result<Tree> {
    let info = target.kind.info();
    if request.body.iter().all(u8::is_ascii_whitespace) {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get \
             version/kind; json parse error: unexpected end of JSON input (<empty>)",
            info.name
        )));
    }
    let mut tree = json_or_yaml(request)?;
    check_kind(&tree, info)?;
    normalize(target.kind, &mut tree);
    let validation = target.options.validation;
    let warnings =
        check_types(target.kind, &mut tree, validation).map_err(|why| cannot_handle(info, &why))?;
    target.warnings.extend(warnings);
    meta::drop_nulls(&mut tree);
    check_place(&tree, target)?;
    Ok(tree)
}

/// Checks a tree against the API type. Unknown fields are dropped and returned as warnings, or
/// refused under strict validation; the error is the text after `cannot be handled as a X: `.
pub(crate) fn check_types(
    kind: Kind,
    tree: &mut Tree,
    validation: FieldValidation,
) -> Result<Vec<String>, String> {
    let info = kind.info();
    tree.insert("apiVersion".into(), info.api_version.into());
    tree.insert("kind".into(), info.name.into());
    let quick = matches!(kind, Kind::Pod | Kind::Event | Kind::Lease);
    let value = Value::Object(std::mem::take(tree));
    let checked = if quick && validation == FieldValidation::Unset && types_fit(kind, &value) {
        Ok(Vec::new())
    } else {
        unknown_fields(kind, &value)
    };
    if let Value::Object(members) = value {
        *tree = members;
    }
    let unknown = checked?;
    if unknown.is_empty() {
        return Ok(Vec::new());
    }
    if validation == FieldValidation::Strict {
        let list: Vec<String> = unknown
            .iter()
            .map(|path| format!("unknown field \"{path}\""))
            .collect();
        return Err(format!("strict decoding error: {}", list.join(", ")));
    }
    for path in &unknown {
        remove_path(tree, path);
    }
    if validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    Ok(unknown
        .into_iter()
        .map(|path| format!("unknown field \"{path}\""))
        .collect())
}

fn json(body: &[u8]) -> Result<Value> {
    serde_json::from_slice(body).map_err(|error| {
        let why = if error.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else {
            error.to_string()
        };
        ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    })
}

fn yaml(body: &[u8]) -> Result<Value> {
    let text = std::str::from_utf8(body)
        .map_err(|_| ApiError::bad_request("error converting YAML to JSON: invalid UTF-8"))?;
    serde_saphyr::from_str(text)
        .map_err(|error| ApiError::bad_request(format!("error converting YAML to JSON: {error}")))
}

/// Reads YAML (or JSON, its subset) for apply patches.
pub(crate) fn apply_body(body: &[u8]) -> Result<Tree> {
    match yaml(body)? {
        Value::Object(tree) => Ok(tree),
        Value::Null => Ok(Tree::new()),
        other => Err(ApiError::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
             map[string]interface {{}}",
            go_name(&other)
        ))),
    }
}

fn check_kind(tree: &Tree, info: &KindInfo) -> Result<()> {
    let name = meta::text(tree, "kind");
    let api_version = meta::text(tree, "apiVersion");
    let name = if name.is_empty() { info.name } else { name };
    let api_version = if api_version.is_empty() {
        info.api_version
    } else {
        api_version
    };
    if name == info.name && api_version == info.api_version {
        return Ok(());
    }
    let version = api_version.rsplit('/').next().unwrap_or_default();
    Err(ApiError::bad_request(format!(
        "{name} in version {version:?} cannot be handled as a {}: no kind {name:?} is registered \
         for version {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        info.name
    )))
}

fn cannot_handle(info: &KindInfo, why: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: {why}",
        info.name, info.version, info.name
    ))
}

fn check_place(tree: &Tree, target: &Target) -> Result<()> {
    let metadata = meta::of(tree);
    let namespace = meta::text(metadata, "namespace");
    if target.kind.info().namespaced && !namespace.is_empty() && namespace != target.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the \
             request",
        ));
    }
    let name = meta::text(metadata, "name");
    if !target.name.is_empty() && name != target.name {
        let why = if name.is_empty() {
            "name must be provided".to_owned()
        } else {
            format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                target.name
            )
        };
        return Err(ApiError::bad_request(why));
    }
    Ok(())
}

fn types_fit(kind: Kind, value: &Value) -> bool {
    struct Fits<'a>(&'a Value);
    impl Visitor for Fits<'_> {
        type Answer = bool;

        fn visit<T: DeserializeOwned>(self) -> bool {
            // Unlike `from_value` this borrows: the tree itself is what gets stored.
            T::deserialize(self.0).is_ok()
        }
    }
    types::visit(kind, Fits(value))
}

fn unknown_fields(kind: Kind, value: &Value) -> Result<Vec<String>, String> {
    struct Find<'a>(Kind, &'a Value);
    impl Visitor for Find<'_> {
        type Answer = Result<Vec<String>, String>;

        fn visit<T: DeserializeOwned>(self) -> Self::Answer {
            let Self(kind, value) = self;
            let mut unknown = Vec::new();
            let mut track = serde_path_to_error::Track::new();
            let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
            let result: Result<T, _> =
                serde_ignored::deserialize(tracked, |path| unknown.push(plain_path(&path)));
            match result {
                Ok(_) => Ok(unknown),
                Err(error) => {
                    let why = error.to_string();
                    Err(go_type_error(kind, value, &track.path(), &why))
                }
            }
        }
    }
    types::visit(kind, Find(kind, value))
}

/// A field path as Kubernetes writes it: `spec.containers[0].foo`.
fn plain_path(path: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path;
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", plain_path(parent)),
        Path::Map { parent, key } => {
            let parent = plain_path(parent);
            if parent.is_empty() {
                key.clone()
            } else {
                format!("{parent}.{key}")
            }
        }
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => plain_path(parent),
    }
}

/// The text of Go's JSON decoder for a value of the wrong type.
fn go_type_error(
    kind: Kind,
    value: &Value,
    path: &serde_path_to_error::Path,
    error: &str,
) -> String {
    use serde_path_to_error::Segment;
    let mut found = Some(value);
    let mut names: Vec<&str> = Vec::new();
    for segment in path {
        match segment {
            Segment::Map { key } => {
                names.push(key);
                found = found.and_then(|value| value.get(key));
            }
            Segment::Seq { index } => found = found.and_then(|value| value.get(*index)),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let Some((target, shown)) = go_target(error).zip(found.map(go_shown)) else {
        return error.to_owned();
    };
    if target == "quantity" {
        return "quantities must match the regular expression \
                '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            .to_owned();
    }
    let owner = go_struct(kind, &names);
    let path = names.join(".");
    format!("json: cannot unmarshal {shown} into Go struct field {owner}.{path} of type {target}")
}

fn go_target(error: &str) -> Option<&'static str> {
    let (_, expected) = error.rsplit_once("expected ")?;
    const TARGETS: [(&str, &str); 9] = [
        ("i32", "int32"),
        ("i64", "int64"),
        ("f64", "float64"),
        ("a boolean", "bool"),
        ("a string", "string"),
        ("a sequence", "[]interface {}"),
        ("a map", "map[string]string"),
        ("Quantity", "quantity"),
        ("struct ", "struct"),
    ];
    TARGETS
        .iter()
        .find(|(start, _)| expected.starts_with(start))
        .map(|(_, target)| *target)
        .or_else(|| expected.starts_with(char::is_uppercase).then_some("struct"))
}

/// How Go names a value in an error: its type, and numbers with their digits.
fn go_shown(value: &Value) -> String {
    match value {
        Value::Number(number) => format!("number {number}"),
        other => go_name(other).to_owned(),
    }
}

const fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_struct(kind: Kind, names: &[&str]) -> String {
    let Some((_, parents)) = names.split_last() else {
        return kind.info().name.to_owned();
    };
    let name = match parents {
        [] => kind.info().name,
        [.., "metadata"] => "ObjectMeta",
        [.., "template", "spec"] => "PodSpec",
        [.., "jobTemplate", "spec"] => "JobSpec",
        [.., "template"] => "PodTemplateSpec",
        [.., "containers" | "initContainers"] => "Container",
        [.., "env"] => "EnvVar",
        [.., "ports"] => "ContainerPort",
        [.., "volumeMounts"] => "VolumeMount",
        [.., "volumes"] => "Volume",
        [.., "tolerations"] => "Toleration",
        [.., "resources"] => "ResourceRequirements",
        [.., "selector"] => "LabelSelector",
        [.., "podFailurePolicy"] => "PodFailurePolicy",
        [.., "podFailurePolicy", "rules"] => "PodFailurePolicyRule",
        [.., "onExitCodes"] => "PodFailurePolicyOnExitCodesRequirement",
        [.., "successPolicy"] => "SuccessPolicy",
        [.., "successPolicy", "rules"] => "SuccessPolicyRule",
        [.., "ownerReferences"] => "OwnerReference",
        [.., "conditions"] => return format!("{}Condition", kind.info().name),
        [.., "spec"] => return format!("{}Spec", kind.info().name),
        [.., "status"] => return format!("{}Status", kind.info().name),
        [.., "metadata", "labels" | "annotations"] => "ObjectMeta",
        [.., last] => last,
    };
    name.to_owned()
}

/// Takes a member out by the path it was reported under.
fn remove_path(tree: &mut Tree, path: &str) {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let pointer: String = parents
        .split('.')
        .filter(|part| !part.is_empty())
        .map(|part| format!("/{}", part.replace('[', "/").replace(']', "")))
        .collect();
    let mut root = Value::Object(std::mem::take(tree));
    if let Some(Value::Object(parent)) = root.pointer_mut(&pointer) {
        parent.remove(last);
    }
    if let Value::Object(members) = root {
        *tree = members;
    }
}

/// Brings quantities given as numbers into the text form that the API stores.
pub(crate) fn normalize(kind: Kind, tree: &mut Tree) {
    let spec = match kind {
        Kind::Pod => tree.get_mut("spec"),
        Kind::Job => tree.get_mut("spec").and_then(pod_spec),
        Kind::CronJob => tree
            .get_mut("spec")
            .and_then(|spec| spec.get_mut("jobTemplate")?.get_mut("spec"))
            .and_then(pod_spec),
        Kind::Namespace
        | Kind::Node
        | Kind::Event
        | Kind::Lease
        | Kind::ServiceAccount
        | Kind::ConfigMap
        | Kind::Secret
        | Kind::Workload
        | Kind::PodGroup => None,
        Kind::ResourceQuota => return quota::normalize(tree),
    };
    let Some(spec) = spec else { return };
    for list in ["containers", "initContainers"] {
        let Some(Value::Array(containers)) = spec.get_mut(list) else {
            continue;
        };
        for container in containers {
            for side in ["requests", "limits"] {
                let quantities = container
                    .get_mut("resources")
                    .and_then(|resources| resources.get_mut(side))
                    .and_then(Value::as_object_mut);
                for (_, quantity) in quantities.into_iter().flatten() {
                    if quantity.is_number() {
                        *quantity = quantity.to_string().into();
                    }
                }
            }
        }
    }
}

fn pod_spec(job_spec: &mut Value) -> Option<&mut Value> {
    job_spec.get_mut("template")?.get_mut("spec")
}
