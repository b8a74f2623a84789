//! Parses rules in command-line notation: `refuse=429,verbs=create+patch,resources=pods,probability=0.1`.
//!
//! Responsible for: that notation. Must not: know fields, except those with numbers or lists.

use std::str::FromStr;

use serde_json::{Map, Value};

use super::rule::{FaultKind, Rule, RuleError};

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let mut fields = Map::new();
        let mut pairs = text.split(',');
        let (name, value) = pair(pairs.next().unwrap_or_default());
        let kind: FaultKind = serde_json::from_value(name.into())
            .map_err(|error| RuleError::new("fault", unknown(name, &error.to_string())))?;
        fields.insert("fault".to_owned(), name.into());
        match (kind.main_field(), value) {
            (_, None) => {}
            (Some(field), Some(value)) => {
                fields.insert(field.to_owned(), read(field, value));
            }
            (None, Some(_)) => return Err(RuleError::new("fault", format!("{name} has no value"))),
        }
        for text in pairs {
            let (field, Some(value)) = pair(text) else {
                return Err(RuleError::new(text, "must be FIELD=VALUE"));
            };
            if fields
                .insert(field.to_owned(), read(field, value))
                .is_some()
            {
                return Err(RuleError::new(field, "is given twice"));
            }
        }
        let rule = Self::from_json(fields.into())?;
        rule.check()?;
        Ok(rule)
    }
}

/// The error for an unknown fault. It lists the known faults, which the deserializer names.
fn unknown(name: &str, error: &str) -> String {
    let (_, known) = error.split_once("expected one of ").unwrap_or_default();
    let known = known.replace('`', "");
    format!("unknown fault {name:?}; known are {known} (docs/faults.md)")
}

fn pair(text: &str) -> (&str, Option<&str>) {
    match text.split_once('=') {
        Some((field, value)) => (field.trim(), Some(value.trim())),
        None => (text.trim(), None),
    }
}

/// Parses a value. An invalid number stays a string, which the deserializer rejects.
fn read(field: &str, text: &str) -> Value {
    match field {
        "code" | "changes" | "times" => text
            .parse::<u64>()
            .map_or_else(|_| text.into(), Value::from),
        "probability" => text
            .parse::<f64>()
            .map_or_else(|_| text.into(), Value::from),
        "verbs" | "resources" => text.split('+').map(str::trim).collect(),
        _ => text.into(),
    }
}
