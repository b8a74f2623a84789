//! Formats objects for programs.

use serde::Serialize;

/// Formats an object as JSON on several lines.
pub(crate) fn json(object: &impl Serialize) -> String {
    serde_json::to_string_pretty(object).expect("text, numbers and lists are JSON")
}

/// Formats an object as JSON on one line.
pub(crate) fn json_line(object: &impl Serialize) -> String {
    serde_json::to_string(object).expect("text, numbers and lists are JSON")
}

/// Formats an object as YAML.
pub(crate) fn yaml(object: &impl Serialize) -> String {
    let text = serde_saphyr::to_string(object).expect("text, numbers and lists are YAML");
    text.trim_end().to_owned()
}
