//! The init containers of a Pod, and how far they have come.
//!
//! Responsible for: whose turn it is. Must not: know when they run and end; `life` does. Pods without init containers
//! have nothing of this.

use super::{decode::RawPod, life::ContainerRun, shape::Shape};
use crate::model::Time;

/// The init containers of a Pod, and how far they have come.
#[derive(Debug)]
pub(super) struct Inits {
    /// Whose turn it is: all before have done their part.
    pub(super) turn: usize,
    /// In the order of the spec.
    pub(super) runs: Box<[ContainerRun]>,
    /// When the containers could start.
    pub(super) done_at: Option<Time>,
    /// When the sidecars were asked to stop.
    pub(super) stop: Option<SidecarStop>,
}

/// The sidecars of a Pod have been asked to stop.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SidecarStop {
    pub(super) at: Time,
    /// The end of the grace period, at which those that still run are killed.
    pub(super) kill_at: Time,
}

impl Inits {
    /// The init containers of a Pod seen for the first time, if it has any.
    pub(super) fn of(shape: &Shape, view: &RawPod<'_>) -> Option<Box<Self>> {
        if shape.inits.is_empty() {
            return None;
        }
        let new = ContainerRun {
            is_done: view.is_running(),
            ..ContainerRun::default()
        };
        let mut runs = vec![new; shape.inits.len()];
        let statuses = view.status.init_container_statuses.iter().flatten();
        for (run, status) in runs.iter_mut().zip(statuses) {
            run.restarts = status.restart_count;
            run.is_done |= status.has_succeeded();
        }
        Some(Box::new(Self {
            turn: 0,
            runs: runs.into(),
            done_at: None,
            stop: None,
        }))
    }

    /// Starts the sidecars that are next. If nothing else is left, the containers can start.
    pub(super) fn pass_sidecars(&mut self, shape: &Shape, at: Time) {
        let left = &shape.inits[self.turn..];
        for _ in left.iter().take_while(|init| init.sidecar) {
            self.runs[self.turn].started_at = Some(at);
            self.turn += 1;
        }
        if self.turn == self.runs.len() {
            self.done_at = Some(at);
        }
    }

    /// When something last ended.
    pub(super) fn last_end(&self) -> Option<Time> {
        let exits = self.runs.iter().filter_map(|run| run.ended);
        exits.map(|exit| exit.finished_at).max()
    }

    /// The names of those that have not done their part.
    pub(super) fn incomplete<'a>(&self, shape: &'a Shape) -> Vec<&'a str> {
        let left = shape.inits.iter().skip(self.turn);
        left.map(|init| init.name.as_str()).collect()
    }
}
