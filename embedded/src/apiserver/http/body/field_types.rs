//! Whether the members of an object are fields of its type, and hold what these may hold.
//!
//! Responsible for: unknown fields, and the texts of Go's JSON decoder for values of the wrong type. Must not: judge
//! values that have the right type.

use k8s_openapi::{ByteString, jiff::Timestamp};
use serde::Deserialize;
use serde_json::Value;

use crate::apiserver::object::{
    Kind, NOT_A_QUANTITY, Place, Quantity, Tree,
    type_def::{self, Scalar, TypeDef},
};

/// Takes out unknown fields and gives their paths, or what is wrong with the first value of a wrong type. Quantities in
/// maps, which are the resource lists of the API, get the one text that the API stores.
pub(super) fn take_unknown_fields(kind: Kind, tree: &mut Tree) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    check_members(type_def::of(kind), tree, &Place::Root, "", &mut unknown)?;
    Ok(unknown)
}

/// Whether Go's encoder leaves a field out that holds this: empty lists and maps, and empty texts and flags that are off
/// where the field is no pointer. Of the latter the table has what people write most.
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

/// Lists that are written even if they are empty.
const ALWAYS_THERE: [(&str, &str); 6] = [
    ("PodSpec", "containers"),
    ("PodFailurePolicy", "rules"),
    ("SuccessPolicy", "rules"),
    ("NodeSelector", "nodeSelectorTerms"),
    ("PodFailurePolicyOnExitCodesRequirement", "values"),
    ("WorkloadSpec", "podGroupTemplates"),
];

/// Brings the resource lists of an object into the form in which they are stored.
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

/// Checks the members of what belongs to a field of the type `owner`.
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
                // Go reads nothing as an empty text.
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
            // What is null is not set.
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

/// The text of Go's JSON decoder for a value of the wrong type.
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
            // Go decodes four bytes at once, and names the first of those that are not complete.
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

/// Go's name of the type that the field of this name has.
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

/// How Go names the type of a value.
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
