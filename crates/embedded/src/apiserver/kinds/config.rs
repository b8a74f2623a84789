//! Implements the rules of Secrets and ConfigMaps.
//!
//! Responsible for: defaults, keys, sizes, required keys per Secret type, and immutability. Must not: parse
//! certificates.
//!
//! Different from a real server: the server does not check that the key of a `kubernetes.io/tls` Secret belongs to its
//! certificate.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::apiserver::object::{CheckedField, Tree, names, tree};

/// Largest total size of the values of a Secret or ConfigMap, in bytes.
const MAX_SIZE: usize = 1024 * 1024;

/// Moves `stringData` into `data` and sets the type.
#[doc(alias = "SetDefaults_Secret")]
pub(crate) fn default_secret(secret: &mut Tree) {
    if let Some(Value::Object(texts)) = secret.remove("stringData")
        && !texts.is_empty()
    {
        let data = tree::section_mut(secret, "data");
        for (key, text) in texts {
            let bytes = STANDARD.encode(text.as_str().unwrap_or_default());
            data.insert(key, bytes.into());
        }
    }
    if tree::text(secret, "type").is_empty() {
        secret.insert("type".into(), "Opaque".into());
    }
    drop_empty(secret);
}

/// Removes empty `data` and `binaryData`.
pub(crate) fn drop_empty(object: &mut Tree) {
    for map in ["data", "binaryData"] {
        if tree::section(object, map).is_empty() {
            object.remove(map);
        }
    }
}

/// Validates a new Secret.
#[doc(alias = "ValidateSecret")]
pub(crate) fn validate_secret(secret: &CheckedField<'_, '_>) {
    let data = secret.at("data");
    let mut size = 0;
    for (key, value) in data.tree() {
        let entry = data.entry(key);
        entry.complain_of(key, names::config_key_problems(key));
        size += decoded_len(value);
    }
    data.must_be_within(size, MAX_SIZE);
    let has = |key: &str| data.tree().contains_key(key);
    let required = |key: &str| data.entry(key).required("");
    match secret.at("type").text() {
        "kubernetes.io/service-account-token" => {
            let annotations = secret.at("metadata.annotations");
            let name = annotations.entry("kubernetes.io/service-account.name");
            name.must_be_given();
        }
        "kubernetes.io/dockercfg" => check_json(&data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => check_json(&data, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            required("username");
            required("password");
        }
        "kubernetes.io/ssh-auth" if data.entry("ssh-privatekey").text().is_empty() => {
            required("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !has(key) {
                    required(key);
                }
            }
        }
        _ => {}
    }
}

/// Requires an entry that is a JSON object.
fn check_json(data: &CheckedField<'_, '_>, key: &str) {
    let entry = data.entry(key);
    if !entry.is_set() {
        return entry.required("");
    }
    let bytes = STANDARD.decode(entry.text()).unwrap_or_default();
    let wrong = match serde_json::from_slice(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            let found = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            format!(
                "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )
        }
        Err(error) if error.is_eof() => "unexpected end of JSON input".to_owned(),
        Err(error) => error.to_string(),
    };
    entry.invalid_as(json!("<secret contents redacted>"), &wrong);
}

/// The number of bytes that a base64 string encodes.
fn decoded_len(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// Validates an update of a Secret.
#[doc(alias = "ValidateSecretUpdate")]
pub(crate) fn validate_secret_update(secret: &CheckedField<'_, '_>) {
    secret.at("type").must_not_change();
    check_immutable(secret, &["data"]);
    validate_secret(secret);
}

/// Validates a new ConfigMap.
#[doc(alias = "ValidateConfigMap")]
pub(crate) fn validate_config_map(config: &CheckedField<'_, '_>) {
    let (data, binary) = (config.at("data"), config.at("binaryData"));
    let mut size = 0;
    for (key, value) in data.tree() {
        let entry = data.entry(key);
        entry.complain_of(key, names::config_key_problems(key));
        if binary.tree().contains_key(key) {
            entry.invalid_as(json!(key), "duplicate of key present in binaryData");
        }
        size += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in binary.tree() {
        let entry = binary.entry(key);
        entry.complain_of(key, names::config_key_problems(key));
        size += decoded_len(value);
    }
    // The error has the path of the whole object.
    config.at("").must_be_within(size, MAX_SIZE);
}

/// Validates an update of a ConfigMap.
#[doc(alias = "ValidateConfigMapUpdate")]
pub(crate) fn validate_config_map_update(config: &CheckedField<'_, '_>) {
    check_immutable(config, &["data", "binaryData"]);
    validate_config_map(config);
}

/// Requires that the fields of an immutable object have not changed.
fn check_immutable(object: &CheckedField<'_, '_>, fields: &[&str]) {
    let immutable = object.at("immutable");
    if !immutable.old().flag() {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if !immutable.flag() {
        immutable.forbidden(detail);
    }
    for field in fields {
        let field = object.at(field);
        if field.has_changed() {
            field.forbidden(detail);
        }
    }
}
