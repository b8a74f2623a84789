//! Represents simulated lives as data: which Pods end, after which delay, and how.
//!
//! Responsible for: stages as values, and the choice of a Pod's stage. Must not: open files, or know the current state
//! of a Pod's life; `life` plays the chosen stage.
//! Read first: [`Stage`], then `choose`; `read` has the fields as written in files, `kwok` the same lives for kwok.

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

/// An entry of a stage file. Of the stages that select a Pod, the first that wins its draw applies.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    #[serde(skip)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) pods: Which,
    #[serde(default, rename = "initContainers")]
    pub(super) inits: Vec<InitEnd>,
    /// Share of the selected Pods to which the stage applies.
    #[serde(default = "read::always", deserialize_with = "read::share")]
    pub(super) probability: f64,
    pub(super) start: Option<Wait>,
    pub(super) ready: Option<Wait>,
    #[serde(default, deserialize_with = "read::or_default")]
    pub(super) end: End,
    #[serde(default)]
    pub(super) containers: Vec<OtherEnd>,
    #[serde(default)]
    pub(super) sidecars: Vec<SidecarEnd>,
    pub(super) disruption: Option<PlannedDisruption>,
    pub(super) stop: Option<Stop>,
    /// Output of the first container.
    #[serde(default, deserialize_with = "read::output")]
    pub(super) output: Option<String>,
}

/// Selector of Pods: all given criteria must match.
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
    /// Number of earlier restarts of the container.
    #[serde(deserialize_with = "read::ranges")]
    pub(super) restarts: Option<Ranges>,
}

/// A requirement on a label, as in label selectors.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LabelSelectorRequirement {
    pub(super) key: String,
    pub(super) operator: LabelSelectorOperator,
    #[serde(default)]
    pub(super) values: Vec<String>,
}

/// Operator of a label requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum LabelSelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// A delay, plus a random share of the jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    #[serde(deserialize_with = "read::duration")]
    pub(super) delay: Duration,
    #[serde(default, deserialize_with = "read::duration")]
    pub(super) jitter: Duration,
}

/// Exit of the containers when they end by themselves. Omitted fields are as without the stage.
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

/// Exit of an init container when it ends by itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct InitEnd {
    /// Name of the init container; without one, all that no other entry names.
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "read::maybe_duration")]
    delay: Option<Duration>,
    #[serde(default, deserialize_with = "read::maybe_duration")]
    jitter: Option<Duration>,
    exit_code: Option<u8>,
    reason: Option<ExitReason>,
    /// Number of tries in a Pod that end like this; later ones succeed.
    pub(super) failures: Option<u32>,
    #[serde(default, deserialize_with = "read::output")]
    output: Option<String>,
}

/// The exit of a container other than the first, which ends together with the first.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OtherEnd {
    /// Name of the container; without one, all that no other entry names.
    pub(super) name: Option<String>,
    pub(super) exit_code: Option<u8>,
    pub(super) reason: Option<ExitReason>,
    #[serde(default, deserialize_with = "read::output")]
    output: Option<String>,
}

/// The exit of a sidecar, after the containers of its Pod have ended.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SidecarEnd {
    /// Name of the sidecar; without one, all that no other entry names.
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "read::maybe_duration")]
    delay: Option<Duration>,
    #[serde(default, deserialize_with = "read::maybe_duration")]
    jitter: Option<Duration>,
    exit_code: Option<u8>,
    reason: Option<ExitReason>,
    #[serde(default, deserialize_with = "read::output")]
    output: Option<String>,
}

/// A disruption of a Pod, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlannedDisruption {
    #[serde(deserialize_with = "read::duration")]
    delay: Duration,
    #[serde(default, deserialize_with = "read::duration")]
    jitter: Duration,
    pub(super) cause: Disruption,
}

/// Reaction of the containers to SIGTERM.
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
    /// Returns the time until they end, if given.
    pub(super) fn after(self) -> Option<Wait> {
        let jitter = self.jitter.unwrap_or_default();
        self.delay.map(|delay| Wait { delay, jitter })
    }
}

impl InitEnd {
    /// Returns its exit.
    pub(super) fn end(&self) -> End {
        End {
            delay: self.delay,
            jitter: self.jitter,
            exit_code: self.exit_code,
            reason: self.reason,
        }
    }
}

impl SidecarEnd {
    /// Returns its exit and the time until then.
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
    /// Returns the time until it happens.
    pub(super) fn after(self) -> Wait {
        let Self { delay, jitter, .. } = self;
        Wait { delay, jitter }
    }
}

impl Stop {
    /// Returns the time until they have stopped.
    pub(super) fn after(self) -> Wait {
        let Self { delay, jitter, .. } = self;
        Wait { delay, jitter }
    }
}

/// `terminated.reason` of a container that failed, other than `Error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum ExitReason {
    #[serde(rename = "OOMKilled")]
    OomKilled,
    StartError,
    ContainerCannotRun,
}

impl ExitReason {
    /// Parses `terminated.reason`; `Completed` and `Error` follow from the exit code.
    pub(super) fn of_text(text: &str) -> Option<Self> {
        [Self::OomKilled, Self::StartError, Self::ContainerCannotRun]
            .into_iter()
            .find(|reason| reason.text() == text)
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::OomKilled => "OOMKilled",
            Self::StartError => "StartError",
            Self::ContainerCannotRun => "ContainerCannotRun",
        }
    }
}

/// Role of a container in its Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    First,
    Other,
    Init,
    Sidecar,
}

impl Stage {
    /// Returns the name, which messages and random draws use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the output of a container, if the stage defines it.
    pub(super) fn output(&self, container: &str, role: Role) -> Option<&str> {
        let text = match role {
            Role::First => &self.output,
            Role::Other => &self.other(container)?.output,
            Role::Init => &self.init(container)?.output,
            Role::Sidecar => &self.sidecar(container)?.output,
        };
        text.as_deref()
    }

    /// Returns the entry for this init container.
    pub(super) fn init(&self, name: &str) -> Option<&InitEnd> {
        entry(&self.inits, |init| init.name.as_deref(), name)
    }

    /// Returns the entry for this container, which is not the first.
    pub(super) fn other(&self, name: &str) -> Option<&OtherEnd> {
        entry(&self.containers, |other| other.name.as_deref(), name)
    }

    /// Returns the entry for this sidecar.
    pub(super) fn sidecar(&self, name: &str) -> Option<&SidecarEnd> {
        entry(&self.sidecars, |sidecar| sidecar.name.as_deref(), name)
    }
}

/// Returns the entry with this name, or the one without a name.
fn entry<'a, T>(
    entries: &'a [T],
    name_of: impl Fn(&T) -> Option<&str>,
    name: &str,
) -> Option<&'a T> {
    let find = |wanted: Option<&str>| entries.iter().find(|entry| name_of(entry) == wanted);
    find(Some(name)).or_else(|| find(None))
}
