//! How a try goes, and what a stage has in store for it.
//!
//! Responsible for: the stage's waits as moments, drawn when the try begins. Must not: let them
//! happen; that is the work of `life`. Pods without a stage have no plan.

use std::time::Duration;

use super::stages::{By, Chance, Disruption, ExitReason, Stage};
use crate::model::Time;

/// How long a try of a container takes, and what it ends with.
#[derive(Debug, Default)]
pub(super) struct Try {
    pub(super) duration: Duration,
    pub(super) exit_code: i32,
    pub(super) reason: Option<ExitReason>,
    pub(super) plan: Option<Box<Plan>>,
}

/// The stop of a sidecar: its duration and its exit code.
#[derive(Debug)]
pub(super) struct SidecarTry {
    pub(super) duration: Duration,
    pub(super) code: i32,
    pub(super) reason: Option<ExitReason>,
}

/// The plan of one try.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    /// When the containers are ready, if they are not from the start.
    pub(super) ready_at: Option<Time>,
    /// Whether they still wait for that.
    pub(super) unready: bool,
    /// What will happen to the Pod, and when.
    pub(super) disruption: Option<(Time, Disruption)>,
    /// What others are doing to the Pod.
    pub(super) removal: Option<Removal>,
}

/// The Pod is being taken away by somebody else than its kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Removal {
    pub(super) cause: Disruption,
    pub(super) since: Time,
    step: RemovalStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RemovalStep {
    Mark,
    Delete,
    Done,
}

impl Plan {
    /// The plan of a try that begins at this time.
    pub(super) fn of(stage: &Stage, chance: Chance<'_>, at: Time) -> Self {
        let disruption = stage.disruption.map(|planned| {
            let delay = stage.wait(planned.after(), "disruption", chance);
            (at + delay, planned.cause)
        });
        Self {
            unready: stage.ready.is_some(),
            ready_at: stage
                .ready
                .map(|wait| at + stage.wait(wait, "ready", chance)),
            disruption,
            removal: None,
        }
    }
}

impl Removal {
    /// Begins at this time.
    pub(super) fn new(cause: Disruption, since: Time) -> Self {
        let step = match cause.by() {
            By::Deletion | By::Kubelet => RemovalStep::Mark,
            By::EvictionApi | By::PodGc => RemovalStep::Delete,
        };
        Self { cause, since, step }
    }

    pub(super) fn wants_mark(self) -> bool {
        self.step == RemovalStep::Mark
    }

    pub(super) fn is_done(self) -> bool {
        self.step == RemovalStep::Done
    }

    /// The next step has been made.
    pub(super) fn advance(&mut self) {
        self.step = match self.step {
            RemovalStep::Mark => RemovalStep::Delete,
            RemovalStep::Delete | RemovalStep::Done => RemovalStep::Done,
        };
    }
}
