//! Serializes the durations of rules in Go's notation.
//!
//! Responsible for: fields of that form, for serde. Must not: know the fields.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::model::{format_go_duration, parse_go_duration};

/// Serializes an optional field.
pub(super) fn serialize<S: Serializer>(
    value: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.map(format_go_duration).serialize(serializer)
}

/// Deserializes the field.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let read = parse_go_duration(&text).map(Some);
    read.ok_or_else(|| {
        D::Error::custom(format!(
            "{text:?} must be a duration such as 200ms or 1m30s"
        ))
    })
}
