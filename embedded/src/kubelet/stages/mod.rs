//! Lives as data: which Pods end, after which delay, and how.
//!
//! Responsible for: stages as values, and which of them a Pod lives by. Must not: open files, or
//! know where a Pod is in its life; `life` plays what is chosen here.
//! Read first: [`Stage`], then `choose`; `read` has the fields as they are written, `kwok` the same
//! lives for kwok.

mod choose;
mod disruption;
mod kwok;
mod kwok_inits;
mod read;
mod templates;

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

use super::ranges::Ranges;

pub(super) use choose::{Chance, candidates};
pub(super) use disruption::{By, Disruption};
pub use kwok::kwok_stages;
pub use read::{API_VERSION, FieldError, KIND};

/// One entry of a stage file. Of all that mean a Pod, the first that its chance picks decides.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    #[serde(skip)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) pods: Which,
    #[serde(default, rename = "initContainers")]
    pub(super) inits: Vec<InitEnd>,
    /// The share of Pods that are picked, of those that are meant.
    #[serde(default = "read::always", deserialize_with = "read::share")]
    pub(super) probability: f64,
    pub(super) start: Option<Wait>,
    pub(super) ready: Option<Wait>,
    #[serde(default, deserialize_with = "read::or_default")]
    pub(super) end: End,
    pub(super) disruption: Option<PlannedDisruption>,
    pub(super) stop: Option<Stop>,
}

/// Which Pods are meant: those of which all holds that is said.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Which {
    pub(super) namespace: Option<String>,
    #[serde(rename = "matchLabels")]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(rename = "matchExpressions")]
    pub(super) requirements: Vec<LabelSelectorRequirement>,
    /// Completion indexes.
    #[serde(deserialize_with = "read::ranges")]
    pub(super) indexes: Option<Ranges>,
    /// How often the container has been restarted before.
    #[serde(deserialize_with = "read::ranges")]
    pub(super) restarts: Option<Ranges>,
}

/// A requirement on one label, as label selectors have them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabelSelectorRequirement {
    pub(super) key: String,
    pub(super) operator: LabelSelectorOperator,
    #[serde(default)]
    pub(super) values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum LabelSelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// Some time, and up to so much more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    #[serde(deserialize_with = "read::duration")]
    pub(super) delay: Duration,
    #[serde(default, deserialize_with = "read::duration")]
    pub(super) jitter: Duration,
}

/// How the containers end by themselves. What is not said is as without the stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct End {
    #[serde(default, deserialize_with = "read::maybe_duration")]
    delay: Option<Duration>,
    #[serde(default, deserialize_with = "read::maybe_duration")]
    jitter: Option<Duration>,
    pub(super) exit_code: Option<u8>,
    pub(super) reason: Option<ExitReason>,
}

/// How an init container ends by itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct InitEnd {
    /// Which one; without a name all that no other entry names.
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "read::maybe_duration")]
    delay: Option<Duration>,
    #[serde(default, deserialize_with = "read::maybe_duration")]
    jitter: Option<Duration>,
    exit_code: Option<u8>,
    reason: Option<ExitReason>,
    /// How many tries in a Pod end like this; later ones succeed.
    pub(super) failures: Option<u32>,
}

/// What others do to a Pod, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlannedDisruption {
    #[serde(deserialize_with = "read::duration")]
    delay: Duration,
    #[serde(default, deserialize_with = "read::duration")]
    jitter: Duration,
    pub(super) cause: Disruption,
}

/// What the containers do when they are asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Stop {
    #[serde(default, deserialize_with = "read::duration")]
    delay: Duration,
    #[serde(default, deserialize_with = "read::duration")]
    jitter: Duration,
    pub(super) exit_code: Option<u8>,
}

impl End {
    /// After which time they end, if it is said.
    pub(super) fn after(self) -> Option<Wait> {
        let jitter = self.jitter.unwrap_or_default();
        self.delay.map(|delay| Wait { delay, jitter })
    }
}

impl InitEnd {
    /// How it ends.
    pub(super) fn end(&self) -> End {
        End {
            delay: self.delay,
            jitter: self.jitter,
            exit_code: self.exit_code,
            reason: self.reason,
        }
    }
}

impl PlannedDisruption {
    /// After which time it happens.
    pub(super) fn after(self) -> Wait {
        let Self { delay, jitter, .. } = self;
        Wait { delay, jitter }
    }
}

impl Stop {
    /// After which time they have stopped.
    pub(super) fn after(self) -> Wait {
        let Self { delay, jitter, .. } = self;
        Wait { delay, jitter }
    }
}

/// `terminated.reason` of a container that did not end well, other than `Error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum ExitReason {
    #[serde(rename = "OOMKilled")]
    OomKilled,
    StartError,
    ContainerCannotRun,
}

impl ExitReason {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::OomKilled => "OOMKilled",
            Self::StartError => "StartError",
            Self::ContainerCannotRun => "ContainerCannotRun",
        }
    }
}

impl Stage {
    /// The name, which messages and random draws use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is said of this init container.
    pub(super) fn init(&self, name: &str) -> Option<&InitEnd> {
        let means = |wanted: Option<&str>| {
            let mut inits = self.inits.iter();
            inits.find(|init| init.name.as_deref() == wanted)
        };
        means(Some(name)).or_else(|| means(None))
    }
}
