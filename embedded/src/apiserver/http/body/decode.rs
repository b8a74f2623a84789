//! Bodies: JSON or YAML text into trees, checked against the types of the API.
//!
//! Responsible for: decode errors and field validation. Must not: apply defaults or judge
//! values.
//!
//! Different from a real server: duplicate fields are reported where objects come in JSON, not in YAML
//! and patches, and Pods, Events and Leases from clients that ask for no field validation are checked for types
//! only, without a search for unknown fields.

use k8s_openapi::serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    duplicates::{self, unknown_field},
    protobuf,
};
use crate::apiserver::{
    http::{
        options::FieldValidation,
        request::{Request, Target},
    },
    kinds::quota,
    object::{
        api_type::{self, Visitor},
        error::{ApiError, Result},
        kind::{Kind, KindInfo},
        quantity::{NOT_A_QUANTITY, Quantity},
        tree::{self, Tree},
    },
};

/// Reads a body that may be JSON or YAML, without looking at its type.
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

/// How errors about bodies begin that are no objects in JSON.
const NO_JSON: &str = "couldn't get version/kind; json parse error: ";

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
    let mut tree = json_or_yaml(request).map_err(|error| unrecognized(error, request, info))?;
    check_kind(&tree, info)?;
    normalize(target.kind, &mut tree).map_err(|why| cannot_handle(info, &why))?;
    let validation = target.options.validation;
    let text = is_json(request).then_some(request.body);
    let warnings = check_types(target.kind, &mut tree, validation, text)
        .map_err(|why| cannot_handle(info, &why))?;
    target.warnings.extend(warnings);
    tree::drop_nulls(&mut tree);
    check_place(&tree, target)?;
    Ok(tree)
}

/// Tells the body, too, where it is no object in JSON: as it is if it could be one, else as hex digits.
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

/// Checks a tree against the API type. Unknown fields are dropped and returned as warnings, or
/// refused under strict validation; the error is the text after `cannot be handled as a X: `. So are
/// fields that stand twice in `text`, the JSON that the tree was read from.
pub(crate) fn check_types(
    kind: Kind,
    tree: &mut Tree,
    validation: FieldValidation,
    text: Option<&[u8]>,
) -> Result<Vec<String>, String> {
    let info = kind.info();
    tree.insert("apiVersion".into(), info.api_version.into());
    tree.insert("kind".into(), info.name.into());
    let quick = matches!(kind, Kind::Pod | Kind::Event | Kind::Lease);
    let value = Value::Object(std::mem::take(tree));
    let quick = quick && validation == FieldValidation::Unset && types_fit(kind, &value);
    let checked = if quick {
        Ok(Vec::new())
    } else {
        unknown_fields(kind, &value)
    };
    if let Value::Object(members) = value {
        *tree = members;
    }
    let unknown = checked?;
    let found = match text {
        Some(text) if !quick => duplicates::findings(text, &unknown),
        _ => unknown.iter().map(|path| unknown_field(path)).collect(),
    };
    if validation == FieldValidation::Strict && !found.is_empty() {
        return Err(format!("strict decoding error: {}", found.join(", ")));
    }
    for path in &unknown {
        remove_path(tree, path);
    }
    Ok(if validation == FieldValidation::Ignore {
        Vec::new()
    } else {
        found
    })
}

fn is_json(request: Request<'_>) -> bool {
    matches!(request.media_type(), "" | "application/json")
}

fn json(body: &[u8]) -> Result<Value> {
    serde_json::from_slice(body).map_err(|error| {
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

/// The letter where a key should have begun.
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

/// Reads YAML (or JSON, its subset) for apply patches.
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

/// The kind and the version that an object says it has, if that is another one.
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
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let own = info.name;
    let why = match Kind::named(api_version, name) {
        Some(_) => {
            let group = info.short_group();
            format!("converting ({version}.{name}) to ({group}.{own}): unknown conversion")
        }
        None => not_registered(name, api_version),
    };
    Err(ApiError::bad_request(format!(
        "{name} in version {version:?} cannot be handled as a {own}: {why}"
    )))
}

/// Refuses a patched object that became one of another kind.
pub(crate) fn same_kind(kind: Kind, tree: &Tree) -> Result<(), String> {
    match other_kind(tree, kind.info()) {
        Some((name, api_version)) => Err(not_registered(name, api_version)),
        None => Ok(()),
    }
}

fn cannot_handle(info: &KindInfo, why: &str) -> ApiError {
    ApiError::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: {why}",
        info.name, info.version, info.name
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

fn types_fit(kind: Kind, value: &Value) -> bool {
    struct Fits<'a>(&'a Value);
    impl Visitor for Fits<'_> {
        type Answer = bool;

        fn visit<T: DeserializeOwned>(self) -> bool {
            // Unlike `from_value` this borrows: the tree itself is what gets stored.
            T::deserialize(self.0).is_ok()
        }
    }
    api_type::visit(kind, Fits(value))
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
    api_type::visit(kind, Find(kind, value))
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
    let Some((target, found)) = go_target(error, &names).zip(found) else {
        return match found.and_then(Value::as_str) {
            Some(text) if is_time(&names) => format!(
                "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \
                 \"2006\""
            ),
            _ => error.to_owned(),
        };
    };
    let shown = match found {
        Value::Number(number) if matches!(target.as_str(), "int32" | "int64") => {
            format!("number {number}")
        }
        other => go_name(other).to_owned(),
    };
    if target == "quantity" {
        return NOT_A_QUANTITY.to_owned();
    }
    if let [
        ..,
        "labels" | "annotations" | "matchLabels" | "nodeSelector",
        _,
    ] = names.as_slice()
    {
        names.pop();
    }
    let owner = go_struct(kind, &names);
    let path = names.join(".");
    format!("json: cannot unmarshal {shown} into Go struct field {owner}.{path} of type {target}")
}

fn is_time(names: &[&str]) -> bool {
    names
        .last()
        .is_some_and(|name| name.ends_with("Time") || name.ends_with("Timestamp"))
}

/// Go's name of the type that a field should have had.
fn go_target(error: &str, names: &[&str]) -> Option<String> {
    let (_, expected) = error.rsplit_once("expected ")?;
    let last = names.last().copied().unwrap_or_default();
    let of_field = |names: &[(&str, &'static str)]| {
        let own = names.iter().find(|(field, _)| *field == last);
        own.map(|(_, name)| *name)
    };
    let plain = TARGETS
        .iter()
        .find(|(start, _)| expected.starts_with(start));
    let name = match plain {
        Some((_, "string")) => of_field(&OWN_STRINGS).unwrap_or("string"),
        Some((_, "[]string")) => of_field(&LISTS).unwrap_or("[]string"),
        Some((_, name)) => name,
        None => {
            let name = expected.strip_prefix("struct ").unwrap_or(expected);
            let is_struct = name.starts_with(char::is_uppercase);
            return is_struct.then(|| format!("v1.{name}"));
        }
    };
    Some(name.to_owned())
}

/// Go's types by how what is expected begins.
const TARGETS: [(&str, &str); 8] = [
    ("a string", "string"),
    ("a sequence", "[]string"),
    ("i32", "int32"),
    ("i64", "int64"),
    ("f64", "float64"),
    ("a boolean", "bool"),
    ("a map", "map[string]string"),
    ("Quantity", "quantity"),
];

/// Texts with a type of their own, by field.
const OWN_STRINGS: [(&str, &str); 9] = [
    ("completionMode", "v1.CompletionMode"),
    ("concurrencyPolicy", "v1.ConcurrencyPolicy"),
    ("podReplacementPolicy", "v1.PodReplacementPolicy"),
    ("restartPolicy", "v1.RestartPolicy"),
    ("dnsPolicy", "v1.DNSPolicy"),
    ("imagePullPolicy", "v1.PullPolicy"),
    ("phase", "v1.PodPhase"),
    ("qosClass", "v1.PodQOSClass"),
    ("terminationMessagePolicy", "v1.TerminationMessagePolicy"),
];

/// Lists of more than texts, by field.
const LISTS: [(&str, &str); 8] = [
    ("containers", "[]v1.Container"),
    ("initContainers", "[]v1.Container"),
    ("env", "[]v1.EnvVar"),
    ("ports", "[]v1.ContainerPort"),
    ("volumes", "[]v1.Volume"),
    ("volumeMounts", "[]v1.VolumeMount"),
    ("tolerations", "[]v1.Toleration"),
    ("ownerReferences", "[]v1.OwnerReference"),
];

/// How Go names the type of a value.
pub(crate) const fn go_name(value: &Value) -> &'static str {
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
    if pointer.is_empty() {
        tree.remove(last);
    } else if let Some(Value::Object(parent)) = tree::pointer_mut(tree, &pointer) {
        parent.remove(last);
    }
}

/// Brings quantities into the one text that the API stores; the error is that of [`check_types`].
pub(crate) fn normalize(kind: Kind, tree: &mut Tree) -> Result<(), String> {
    let pod_spec = match kind {
        Kind::Pod => "/spec",
        Kind::Job => "/spec/template/spec",
        Kind::CronJob => "/spec/jobTemplate/spec/template/spec",
        Kind::ResourceQuota => {
            quota::normalize(tree);
            return Ok(());
        }
        _ => return Ok(()),
    };
    for list in ["containers", "initContainers"] {
        let containers = tree::pointer_mut(tree, &format!("{pod_spec}/{list}"));
        let containers = containers.and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            for side in ["/resources/requests", "/resources/limits"] {
                let quantities = container.pointer_mut(side);
                let quantities = quantities.and_then(Value::as_object_mut);
                for quantity in quantities.into_iter().flat_map(Map::values_mut) {
                    let text = match &*quantity {
                        Value::Number(number) => number.to_string(),
                        Value::String(text) => text.clone(),
                        // What is no text at all is a wrong type.
                        _ => continue,
                    };
                    let parsed = Quantity::parse(&text).ok_or(NOT_A_QUANTITY)?;
                    *quantity = parsed.canonical().into();
                }
            }
        }
    }
    Ok(())
}
