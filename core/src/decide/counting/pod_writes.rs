//! Writes of one kind to a Job's Pods: which of them wait, and how many are under way.
//!
//! Must not: know what is written.

use std::collections::VecDeque;

use crate::model::{Limits, Monotonic, Slot};

use super::super::backoff::Backoff;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub(super) struct PodWrites {
    waiting: VecDeque<Slot>,
    in_flight: u32,
    backoff: Backoff,
}

impl PodWrites {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            backoff: Backoff::new(limits.retry_backoff),
            ..Self::default()
        }
    }

    /// Inherits the wait after a refusal.
    pub(super) fn succeed_to(&mut self, before: &Self) {
        self.backoff = before.backoff.clone();
    }

    pub(super) fn queue(&mut self, slot: Slot) {
        self.waiting.push_back(slot);
    }

    /// Takes the next Pod, if one more may be written to.
    pub(super) fn next(&mut self, width: u32, now: Monotonic) -> Option<Slot> {
        if self.in_flight >= width || self.backoff.is_closed(now) {
            return None;
        }
        self.waiting.pop_front()
    }

    /// A write to the Pod that was taken last is under way.
    pub(super) fn sent(&mut self) {
        self.in_flight += 1;
    }

    /// A write is no longer under way.
    pub(super) fn done(&mut self, accepted: bool, now: Monotonic) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if accepted {
            self.backoff.succeed(now);
        } else {
            self.backoff.fail(now);
        }
    }

    /// When the next may go that waits for no more than for time to pass.
    pub(super) fn opens_at(&self, now: Monotonic) -> Option<Monotonic> {
        self.backoff
            .opens_at(now)
            .filter(|_| !self.waiting.is_empty())
    }
}
