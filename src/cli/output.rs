//! Objects for programs, as text.

use serde::Serialize;

/// JSON over several lines.
pub(super) fn json(object: &impl Serialize) -> String {
    serde_json::to_string_pretty(object).expect("text, numbers and lists are JSON")
}

/// JSON on one line.
pub(super) fn json_line(object: &impl Serialize) -> String {
    serde_json::to_string(object).expect("text, numbers and lists are JSON")
}

/// YAML.
pub(super) fn yaml(object: &impl Serialize) -> String {
    let text = serde_saphyr::to_string(object).expect("text, numbers and lists are YAML");
    text.trim_end().to_owned()
}
