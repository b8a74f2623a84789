//! Orders the deadlines of Pods.
//!
//! Responsible for: one deadline per Pod, found in order. Must not: know the action at a deadline.

use std::collections::BTreeSet;

use super::pods::PodId;
use crate::model::Time;

/// At most one deadline per Pod. The caller stores the Pod's current deadline and passes it back, so that replacing it
/// needs no search.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Time, PodId)>);

impl Timers {
    /// Replaces the deadline of a Pod.
    pub(super) fn reset(&mut self, id: PodId, old: Option<Time>, new: Option<Time>) {
        if old == new {
            return;
        }
        if let Some(at) = old {
            self.0.remove(&(at, id));
        }
        if let Some(at) = new {
            self.0.insert((at, id));
        }
    }

    /// Returns the earliest deadline and its Pod. It stays until it is reset.
    pub(super) fn first(&self) -> Option<(Time, PodId)> {
        self.0.first().copied()
    }
}
