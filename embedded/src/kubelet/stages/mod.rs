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

use super::ranges::Ranges;

pub(super) use choose::{Chance, SelectablePod, candidates};
pub(super) use disruption::{By, Disruption};
pub use kwok::kwok_stages;
pub use read::{API_VERSION, FieldError, KIND};

/// One entry of a stage file. Of all that mean a Pod, the first that its chance picks decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    pub(super) name: String,
    pub(super) pods: Which,
    /// The share of Pods that are picked, of those that are meant.
    pub(super) probability: f64,
    pub(super) start: Option<Wait>,
    pub(super) ready: Option<Wait>,
    pub(super) inits: Vec<InitEnd>,
    pub(super) end: End,
    pub(super) disruption: Option<(Wait, Disruption)>,
    pub(super) stop: Option<Stop>,
}

/// Which Pods are meant: those of which all holds that is said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Which {
    pub(super) namespace: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) requirements: Vec<LabelSelectorRequirement>,
    /// Completion indexes.
    pub(super) indexes: Option<Ranges>,
    /// How often the container has been restarted before.
    pub(super) restarts: Option<Ranges>,
}

/// A requirement on one label, as label selectors have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelSelectorRequirement {
    pub(super) key: String,
    pub(super) operator: LabelSelectorOperator,
    pub(super) values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub(super) enum LabelSelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// Some time, and up to so much more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) delay: Duration,
    pub(super) jitter: Duration,
}

/// How the containers end by themselves. What is not said is as without the stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct End {
    pub(super) after: Option<Wait>,
    pub(super) exit_code: Option<u8>,
    pub(super) reason: Option<ExitReason>,
}

/// How an init container ends by itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InitEnd {
    /// Which one; without a name all that no other entry names.
    pub(super) name: Option<String>,
    pub(super) end: End,
    /// How many tries in a Pod end like this; later ones succeed.
    pub(super) failures: Option<u32>,
}

/// What the containers do when they are asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) after: Wait,
    pub(super) exit_code: Option<u8>,
}

/// `terminated.reason` of a container that did not end well, other than `Error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
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
