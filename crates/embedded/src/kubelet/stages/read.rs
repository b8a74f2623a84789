//! Reads stages from manifests.
//!
//! Responsible for: the fields of the kind `Stage`, and errors that name the invalid field.
//! Must not: guess: an unknown field is an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use super::{End, InitEnd, LabelSelectorOperator, LabelSelectorRequirement, OtherEnd, Stage};
use crate::{
    kubelet::{
        output::{OUTPUT_FORM, OUTPUT_LIMIT},
        ranges::{RANGES_FORM, Ranges},
    },
    model::parse_go_duration,
};

/// `apiVersion` of stages.
pub const API_VERSION: &str = "sim.lakh.dev/v1alpha1";
/// `kind` of stages.
pub const KIND: &str = "Stage";

/// An invalid field of a stage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldError {
    /// Path of the field.
    pub field: String,
    /// Why it is invalid.
    pub problem: String,
}

impl Stage {
    /// Reads a stage from a manifest object.
    ///
    /// # Errors
    ///
    /// The first invalid field.
    pub fn read(object: &Value) -> Result<Self, FieldError> {
        for (field, value) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            if object[field] != value {
                return Err(bad(field, format!("must be {value}")));
            }
        }
        if object["spec"].is_null() {
            return Err(bad("spec", "is missing"));
        }
        let read = serde_path_to_error::deserialize::<_, StageFields>(object);
        let StageFields { metadata, spec, .. } = read.map_err(|error| FieldError {
            field: error.path().to_string(),
            problem: error.inner().to_string(),
        })?;
        let name = metadata.name;
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > NAME_LIMIT || !name.chars().all(is_plain) {
            let problem = format!("must be 1 to {NAME_LIMIT} of a-z, 0-9 and -");
            return Err(bad("metadata.name", problem));
        }
        for (nth, requirement) in spec.pods.requirements.iter().enumerate() {
            requirement.check(nth)?;
        }
        InitEnd::check_all(&spec.inits)?;
        let names = spec.containers.iter().map(|other| &other.name);
        check_names("spec.containers", names)?;
        for (nth, other) in spec.containers.iter().enumerate() {
            other.end().check(&format!("spec.containers[{nth}]"))?;
        }
        let names = spec.sidecars.iter().map(|sidecar| &sidecar.name);
        check_names("spec.sidecars", names)?;
        for (nth, sidecar) in spec.sidecars.iter().enumerate() {
            // Without an exit code in the entry, a sidecar exits with a code other than 0.
            let mut end = sidecar.end();
            end.exit_code = end.exit_code.or(Some(SIGTERM));
            end.check(&format!("spec.sidecars[{nth}]"))?;
        }
        spec.end.check("spec.end")?;
        Ok(Self { name, ..spec })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StageFields {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    metadata: StageMetadataFields,
    spec: Stage,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StageMetadataFields {
    name: String,
    #[serde(default, rename = "labels")]
    _labels: BTreeMap<String, String>,
    #[serde(default, rename = "annotations")]
    _annotations: BTreeMap<String, String>,
}

impl LabelSelectorRequirement {
    fn check(&self, nth: usize) -> Result<(), FieldError> {
        use LabelSelectorOperator::{In, NotIn};
        let problem = match (matches!(self.operator, In | NotIn), self.values.is_empty()) {
            (true, true) => "must not be empty with this operator",
            (false, false) => "must be empty with this operator",
            _ => return Ok(()),
        };
        let field = format!("spec.pods.matchExpressions[{nth}].values");
        Err(bad(&field, problem))
    }
}

impl End {
    fn fails(&self) -> bool {
        self.exit_code.is_some_and(|code| code != 0)
    }

    fn check(&self, at: &str) -> Result<(), FieldError> {
        if self.reason.is_some() && !self.fails() {
            return Err(bad(&format!("{at}.reason"), NEEDS_FAILURE));
        }
        if self.jitter.is_some() && self.delay.is_none() {
            return Err(bad(&format!("{at}.jitter"), "needs a delay"));
        }
        Ok(())
    }
}

impl OtherEnd {
    fn end(&self) -> End {
        End {
            exit_code: self.exit_code,
            reason: self.reason,
            ..End::default()
        }
    }
}

/// Rejects two entries with the same name, or two without one.
fn check_names<'a>(
    list: &str,
    names: impl Iterator<Item = &'a Option<String>>,
) -> Result<(), FieldError> {
    let mut seen = BTreeSet::new();
    for (nth, name) in names.enumerate() {
        if !seen.insert(name) {
            let problem = "selects the same containers as an earlier entry";
            return Err(bad(&format!("{list}[{nth}].name"), problem));
        }
    }
    Ok(())
}

impl InitEnd {
    fn check_all(all: &[Self]) -> Result<(), FieldError> {
        check_names("spec.initContainers", all.iter().map(|init| &init.name))?;
        for (nth, init) in all.iter().enumerate() {
            let at = format!("spec.initContainers[{nth}]");
            if init.failures.is_some() && !init.end().fails() {
                return Err(bad(&format!("{at}.failures"), NEEDS_FAILURE));
            }
            init.end().check(&at)?;
        }
        Ok(())
    }
}

fn bad(field: &str, problem: impl Into<String>) -> FieldError {
    FieldError {
        field: field.to_owned(),
        problem: problem.into(),
    }
}

pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_go_duration(&text).ok_or_else(|| {
        D::Error::custom(format!(
            "{text:?} must be a duration such as 200ms or 1m30s"
        ))
    })
}

pub(super) fn maybe_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

pub(super) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(deserializer)?;
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err(D::Error::custom(format!(
            "{share} must be a number from 0 to 1"
        ))),
    }
}

/// Reads a section that may be null.
pub(super) fn or_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

pub(super) fn output<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    match text.as_ref().map(String::len) {
        Some(length) if length > OUTPUT_LIMIT => Err(D::Error::custom(OUTPUT_FORM)),
        _ => Ok(text),
    }
}

/// Reads a list of ranges, or a single number without quotes.
pub(super) fn ranges<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Ranges>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let text = match &value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match Ranges::parse(&text) {
        Some(ranges) => Ok(Some(ranges)),
        None => Err(D::Error::custom(format!("{text:?} {RANGES_FORM}"))),
    }
}

/// The exit code of a container that exits on SIGTERM.
const SIGTERM: u8 = 143;
const NEEDS_FAILURE: &str = "needs an exitCode other than 0";

pub(super) fn always() -> f64 {
    1.0
}

/// Maximum length of a stage name; it fits in a label value and in the names of kwok's objects.
const NAME_LIMIT: usize = 40;
