//! Checks that an object has only fields of its type, and that values have the types of their fields.
//!
//! Responsible for: unknown fields, and the error texts of Go's JSON decoder for values of the wrong type. Must not:
//! validate values that have the right type.

use k8s_openapi::{ByteString, jiff::Timestamp};
use serde::Deserialize;
use serde_json::Value;

use crate::apiserver::object::{
    Kind, NOT_A_QUANTITY, Place, Quantity, Tree,
    type_def::{self, Scalar, TypeDef},
};

/// Removes unknown fields and returns their paths; fails at the first value of a wrong type. Quantities in maps, which
/// are the resource lists of the API, are converted to their stored form.
pub(super) fn take_unknown_fields(kind: Kind, tree: &mut Tree) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    check_members(type_def::of(kind), tree, &Place::Root, "", &mut unknown)?;
    Ok(unknown)
}

/// Returns true if Go's encoder omits a field with this value: empty lists and maps, and in non-pointer fields empty
/// strings and `false`. The tables of strings and flags cover the most common fields.
fn is_left_out(owner: &str, field: &str, shape: &TypeDef, value: &Value) -> bool {
    match (shape, value) {
        (TypeDef::List { .. }, Value::Array(items)) => {
            items.is_empty() && !ALWAYS_THERE.contains(&(owner, field))
        }
        (TypeDef::Map { .. }, Value::Object(entries)) => entries.is_empty(),
        (TypeDef::Scalar(Scalar::Text), Value::String(text)) if text.is_empty() => {
            let pointers = match owner {
                "PodSpec" => &["preemptionPolicy", "runtimeClassName", "hostnameOverride"][..],
                "Container" => &["restartPolicy", "name"],
                "ContainerPort" => &[],
                "CronJobSpec" => &["timeZone", "schedule"],
                "EnvVar" => &["name"],
                _ => return false,
            };
            !pointers.contains(&field)
        }
        (TypeDef::Scalar(Scalar::Flag), Value::Bool(false)) => {
            let flags = [
                "hostNetwork",
                "hostPID",
                "hostIPC",
                "stdin",
                "stdinOnce",
                "tty",
                "readOnly",
            ];
            ["PodSpec", "Container", "VolumeMount"].contains(&owner) && flags.contains(&field)
        }
        _ => false,
    }
}

/// Lists that are encoded even if they are empty.
const ALWAYS_THERE: [(&str, &str); 6] = [
    ("PodSpec", "containers"),
    ("PodFailurePolicy", "rules"),
    ("SuccessPolicy", "rules"),
    ("NodeSelector", "nodeSelectorTerms"),
    ("PodFailurePolicyOnExitCodesRequirement", "values"),
    ("WorkloadSpec", "podGroupTemplates"),
];

/// Converts the resource lists of an object to their stored form.
pub(super) fn store_quantities(kind: Kind, tree: &mut Tree) {
    fn walk(shape: &TypeDef, value: &mut Value) {
        match (shape, value) {
            (TypeDef::Struct(_) | TypeDef::Map { .. }, Value::Object(members)) => {
                walk_members(shape, members);
            }
            (TypeDef::List { items, .. }, Value::Array(list)) => {
                list.iter_mut().for_each(|item| walk(items, item));
            }
            _ => {}
        }
    }
    fn walk_members(shape: &TypeDef, members: &mut Tree) {
        for (name, value) in members {
            match (shape, shape.member(name)) {
                (TypeDef::Map { .. }, TypeDef::Scalar(Scalar::Quantity)) => Quantity::store(value),
                (_, below) => walk(below, value),
            }
        }
    }
    walk_members(type_def::of(kind), tree);
}

/// Checks the members of a value that belongs to a field of the type `owner`.
fn check_members(
    shape: &TypeDef,
    members: &mut Tree,
    place: &Place<'_>,
    owner: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let TypeDef::Struct(at) = shape else {
        let mut entries = members.iter_mut();
        return entries.try_for_each(|(key, value)| {
            let place = Place::Entry(place, key);
            if value.is_null()
                && matches!(
                    shape.member(key),
                    TypeDef::Scalar(Scalar::Text | Scalar::Bytes)
                )
            {
                // Go decodes null as an empty string.
                *value = "".into();
            }
            check(shape.member(key), value, &place, owner, unknown)?;
            if let TypeDef::Scalar(Scalar::Quantity) = shape.member(key) {
                Quantity::store(value);
            }
            Ok(())
        });
    };
    let own = type_def::type_at(*at);
    let known = unknown.len();
    for (name, value) in members.iter_mut() {
        let place = Place::Member(place, name);
        match own.fields.get(name) {
            // Null means unset.
            Some(_) if value.is_null() => {}
            Some(shape) => {
                check(shape, value, &place, &own.name, unknown)?;
                if let TypeDef::Scalar(Scalar::Quantity) = shape {
                    Quantity::normalize(value);
                }
                if is_left_out(&own.name, name, shape, value) {
                    *value = Value::Null;
                }
            }
            None => unknown.push(place.to_string()),
        }
    }
    if unknown.len() > known {
        members.retain(|name, _| own.fields.contains_key(name));
    }
    Ok(())
}

fn check(
    shape: &TypeDef,
    value: &mut Value,
    place: &Place<'_>,
    owner: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match (shape, value) {
        (TypeDef::Struct(_) | TypeDef::Map { .. }, Value::Object(members)) => {
            check_members(shape, members, place, owner, unknown)
        }
        (TypeDef::List { items, .. }, Value::Array(list)) => {
            let mut list = list.iter_mut().enumerate();
            list.try_for_each(|(at, item)| {
                check(items, item, &Place::Item(place, at), owner, unknown)
            })
        }
        (TypeDef::Scalar(scalar), value) if fits(*scalar, value) => Ok(()),
        (_, value) => Err(type_error(shape, value, &place.members(), owner)),
    }
}

fn fits(scalar: Scalar, value: &Value) -> bool {
    let is_int32 = || value.as_i64().is_some_and(|it| i32::try_from(it).is_ok());
    match scalar {
        Scalar::Any => true,
        Scalar::Text => value.is_string(),
        Scalar::Time => value
            .as_str()
            .is_some_and(|it| it.parse::<Timestamp>().is_ok()),
        Scalar::Bytes => ByteString::deserialize(value).is_ok(),
        Scalar::Int32 => is_int32(),
        Scalar::Int64 => value.is_i64(),
        Scalar::Float => value.is_number(),
        Scalar::Flag => value.is_boolean(),
        Scalar::Quantity => Quantity::of_json(value).is_some(),
        Scalar::IntOrText => value.is_string() || is_int32(),
    }
}

/// The error text of Go's JSON decoder for a value of the wrong type.
fn type_error(shape: &TypeDef, value: &Value, path: &[&str], owner: &str) -> String {
    let shown = match (shape, value) {
        (TypeDef::Scalar(Scalar::Quantity), _) => return NOT_A_QUANTITY.to_owned(),
        (TypeDef::Scalar(Scalar::Time), Value::String(text)) => {
            return format!(
                "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \
                 \"2006\""
            );
        }
        (TypeDef::Scalar(Scalar::Bytes), Value::String(text)) => {
            let is_foreign = |byte: u8| !byte.is_ascii_alphanumeric() && !b"+/=".contains(&byte);
            // Go decodes groups of four bytes and reports the first byte of an incomplete group.
            let at = text
                .bytes()
                .position(is_foreign)
                .unwrap_or(text.len() / 4 * 4);
            return format!("illegal base64 data at input byte {at}");
        }
        (TypeDef::Scalar(Scalar::Int32 | Scalar::Int64), Value::Number(number)) => {
            format!("number {number}")
        }
        _ => go_name(value).to_owned(),
    };
    let target = go_type(shape, path.last().copied().unwrap_or_default());
    let path = path.join(".");
    format!("json: cannot unmarshal {shown} into Go struct field {owner}.{path} of type {target}")
}

/// The Go type of the field with this name.
fn go_type(shape: &TypeDef, field: &str) -> String {
    match shape {
        TypeDef::Struct(at) => format!("v1.{}", type_def::type_at(*at).name),
        TypeDef::List { items, .. } => format!("[]{}", go_type(items, "")),
        TypeDef::Map { values, .. } => match **values {
            TypeDef::Scalar(Scalar::Quantity) => "v1.ResourceList".to_owned(),
            _ => format!("map[string]{}", go_type(values, "")),
        },
        TypeDef::Scalar(scalar) => match scalar {
            Scalar::Text => {
                let own = OWN_STRINGS.iter().find(|(known, _)| *known == field);
                own.map_or("string", |(_, name)| name)
            }
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Float => "float64",
            Scalar::Flag => "bool",
            Scalar::Time => "v1.Time",
            Scalar::Bytes => "[]uint8",
            Scalar::Quantity => "resource.Quantity",
            Scalar::IntOrText => "intstr.IntOrString",
            Scalar::Any => "interface {}",
        }
        .to_owned(),
    }
}

/// String fields with their own Go type.
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

/// The Go name of a JSON value's type.
pub(super) const fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
