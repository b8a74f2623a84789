//! Stages as people write them.
//!
//! Responsible for: the fields of the kind `Stage`, and naming the one that makes no sense.
//! Must not: guess: an unknown field is an error.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use super::{
    Disruption, End, ExitReason, InitEnd, LabelSelectorOperator, LabelSelectorRequirement, Stage,
    Stop, Wait, Which,
};
use crate::{
    kubelet::ranges::{RANGES_FORM, Ranges},
    model::parse_go_duration,
};

/// `apiVersion` of stages.
pub const API_VERSION: &str = "sim.lakh.dev/v1alpha1";
/// `kind` of stages.
pub const KIND: &str = "Stage";

/// A field of a stage that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldError {
    /// Path of the field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Stage {
    /// Reads a stage from the object of a manifest.
    ///
    /// # Errors
    ///
    /// The first field that makes no sense.
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
        let object = read.map_err(|error| FieldError {
            field: error.path().to_string(),
            problem: error.inner().to_string(),
        })?;
        object.into_stage()
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
    spec: StageSpecFields,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StageSpecFields {
    #[serde(default)]
    pods: PodsFields,
    #[serde(default, rename = "initContainers")]
    init_containers: Vec<InitFields>,
    #[serde(default = "always", deserialize_with = "share")]
    probability: f64,
    start: Option<WaitFields>,
    ready: Option<WaitFields>,
    end: Option<EndFields>,
    disruption: Option<DisruptionFields>,
    stop: Option<StopFields>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PodsFields {
    namespace: Option<String>,
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<RequirementFields>,
    #[serde(deserialize_with = "ranges")]
    indexes: Option<Ranges>,
    #[serde(deserialize_with = "ranges")]
    restarts: Option<Ranges>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequirementFields {
    key: String,
    operator: LabelSelectorOperator,
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitFields {
    #[serde(deserialize_with = "duration")]
    delay: Duration,
    #[serde(default, deserialize_with = "duration")]
    jitter: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EndFields {
    #[serde(default, deserialize_with = "maybe_duration")]
    delay: Option<Duration>,
    #[serde(default, deserialize_with = "maybe_duration")]
    jitter: Option<Duration>,
    exit_code: Option<u8>,
    reason: Option<ExitReason>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InitFields {
    name: Option<String>,
    #[serde(default, deserialize_with = "maybe_duration")]
    delay: Option<Duration>,
    #[serde(default, deserialize_with = "maybe_duration")]
    jitter: Option<Duration>,
    exit_code: Option<u8>,
    reason: Option<ExitReason>,
    failures: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DisruptionFields {
    #[serde(deserialize_with = "duration")]
    delay: Duration,
    #[serde(default, deserialize_with = "duration")]
    jitter: Duration,
    cause: Disruption,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StopFields {
    #[serde(default, deserialize_with = "duration")]
    delay: Duration,
    #[serde(default, deserialize_with = "duration")]
    jitter: Duration,
    exit_code: Option<u8>,
}

impl StageFields {
    fn into_stage(self) -> Result<Stage, FieldError> {
        let name = self.metadata.name;
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > NAME_LIMIT || !name.chars().all(is_plain) {
            let problem = format!("must be 1 to {NAME_LIMIT} of a-z, 0-9 and -");
            return Err(bad("metadata.name", problem));
        }
        let spec = self.spec;
        let requirements = spec.pods.match_expressions.into_iter().enumerate();
        Ok(Stage {
            name,
            pods: Which {
                namespace: spec.pods.namespace,
                labels: spec.pods.match_labels,
                requirements: requirements
                    .map(|(nth, fields)| fields.check(nth))
                    .collect::<Result<_, _>>()?,
                indexes: spec.pods.indexes,
                restarts: spec.pods.restarts,
            },
            probability: spec.probability,
            start: spec.start.map(WaitFields::wait),
            ready: spec.ready.map(WaitFields::wait),
            inits: InitFields::check_all(spec.init_containers)?,
            end: spec
                .end
                .map_or_else(|| Ok(End::default()), |end| end.check("spec.end"))?,
            disruption: spec.disruption.map(|fields| {
                let DisruptionFields {
                    delay,
                    jitter,
                    cause,
                } = fields;
                (Wait { delay, jitter }, cause)
            }),
            stop: spec.stop.map(|fields| Stop {
                after: Wait {
                    delay: fields.delay,
                    jitter: fields.jitter,
                },
                exit_code: fields.exit_code,
            }),
        })
    }
}

impl RequirementFields {
    fn check(self, nth: usize) -> Result<LabelSelectorRequirement, FieldError> {
        let Self {
            key,
            operator,
            values,
        } = self;
        let wants_values = matches!(
            operator,
            LabelSelectorOperator::In | LabelSelectorOperator::NotIn
        );
        if wants_values == values.is_empty() {
            let problem = match wants_values {
                true => "must not be empty with this operator",
                false => "must be empty with this operator",
            };
            let field = format!("spec.pods.matchExpressions[{nth}].values");
            return Err(bad(&field, problem));
        }
        Ok(LabelSelectorRequirement {
            key,
            operator,
            values,
        })
    }
}

impl WaitFields {
    fn wait(self) -> Wait {
        let Self { delay, jitter } = self;
        Wait { delay, jitter }
    }
}

impl EndFields {
    fn check(self, at: &str) -> Result<End, FieldError> {
        if self.reason.is_some() && self.exit_code.is_none_or(|code| code == 0) {
            return Err(bad(&format!("{at}.reason"), NEEDS_FAILURE));
        }
        if self.jitter.is_some() && self.delay.is_none() {
            return Err(bad(&format!("{at}.jitter"), "needs a delay"));
        }
        let jitter = self.jitter.unwrap_or_default();
        Ok(End {
            after: self.delay.map(|delay| Wait { delay, jitter }),
            exit_code: self.exit_code,
            reason: self.reason,
        })
    }
}

impl InitFields {
    fn check_all(all: Vec<Self>) -> Result<Vec<InitEnd>, FieldError> {
        let mut checked: Vec<InitEnd> = Vec::new();
        for (nth, fields) in all.into_iter().enumerate() {
            let at = format!("spec.initContainers[{nth}]");
            if checked.iter().any(|init| init.name == fields.name) {
                let problem = "means the same init containers as an earlier entry";
                return Err(bad(&format!("{at}.name"), problem));
            }
            if fields.failures.is_some() && fields.exit_code.is_none_or(|code| code == 0) {
                return Err(bad(&format!("{at}.failures"), NEEDS_FAILURE));
            }
            let end = EndFields {
                delay: fields.delay,
                jitter: fields.jitter,
                exit_code: fields.exit_code,
                reason: fields.reason,
            };
            checked.push(InitEnd {
                name: fields.name,
                end: end.check(&at)?,
                failures: fields.failures,
            });
        }
        Ok(checked)
    }
}

fn bad(field: &str, problem: impl Into<String>) -> FieldError {
    FieldError {
        field: field.to_owned(),
        problem: problem.into(),
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_go_duration(&text).ok_or_else(|| {
        D::Error::custom(format!(
            "{text:?} must be a duration such as 200ms or 1m30s"
        ))
    })
}

fn maybe_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(deserializer)?;
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err(D::Error::custom(format!(
            "{share} must be a number from 0 to 1"
        ))),
    }
}

/// A list of ranges, or a single number without quotes.
fn ranges<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ranges>, D::Error> {
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

const NEEDS_FAILURE: &str = "needs an exitCode other than 0";

fn always() -> f64 {
    1.0
}

/// What a label value may have, and kwok's names have room for.
const NAME_LIMIT: usize = 40;
