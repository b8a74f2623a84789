//! Plans a try from the stage of its Pod.
//!
//! Responsible for: the stage's waits as points in time, drawn when the try begins. Must not: apply them; `life` does.
//! Pods without a stage have no plan.

use std::time::Duration;

use super::stages::{By, Chance, Disruption, ExitReason, Stage};
use crate::model::Time;

/// Duration and result of a container's try.
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
    /// When the containers become ready, if not at their start.
    pub(super) ready_at: Option<Time>,
    /// The containers are not ready yet.
    pub(super) unready: bool,
    /// The planned disruption and its time.
    pub(super) disruption: Option<(Time, Disruption)>,
    /// The removal of the Pod by another component.
    pub(super) removal: Option<Removal>,
}

/// Removal of a Pod by a component other than its kubelet.
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
    /// Draws the plan of a try that begins at this time.
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
    /// Begins a removal at this time.
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

    /// Moves on to the next step.
    pub(super) fn advance(&mut self) {
        self.step = match self.step {
            RemovalStep::Mark => RemovalStep::Delete,
            RemovalStep::Delete | RemovalStep::Done => RemovalStep::Done,
        };
    }
}
