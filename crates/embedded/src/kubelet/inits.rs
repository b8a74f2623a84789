//! Tracks the progress of a Pod's init containers.
//!
//! Responsible for: the order of init containers. Must not: know when they run and end; `life` does. Pods without init
//! containers have no such record.

use super::{decode::RawPod, life::ContainerRun, shape::Shape};
use crate::model::Time;

/// Progress of a Pod's init containers.
#[derive(Debug)]
pub(super) struct Inits {
    /// Index of the current init container; all before it have succeeded or, for sidecars, started.
    pub(super) turn: usize,
    /// Runs in the order of the spec.
    pub(super) runs: Box<[ContainerRun]>,
    /// When the last init container was done, so that the containers could start.
    pub(super) done_at: Option<Time>,
    /// When the sidecars received SIGTERM.
    pub(super) stop: Option<SidecarStop>,
}

/// The stop of a Pod's sidecars.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SidecarStop {
    pub(super) at: Time,
    /// End of the grace period, when sidecars that still run are killed.
    pub(super) kill_at: Time,
}

impl Inits {
    /// Creates the record for a Pod seen for the first time, if it has init containers.
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
            run.is_done |= status.exit().is_some_and(|exit| exit.code == 0);
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

    /// Returns the time of the last exit.
    pub(super) fn last_end(&self) -> Option<Time> {
        let exits = self.runs.iter().filter_map(|run| run.ended);
        exits.map(|exit| exit.finished_at).max()
    }

    /// Returns the names of the init containers that are not done.
    pub(super) fn incomplete<'a>(&self, shape: &'a Shape) -> Vec<&'a str> {
        let left = shape.inits.iter().skip(self.turn);
        left.map(|init| init.name.as_str()).collect()
    }
}
