//! Queues Pod writes of one kind of a Job, and limits those in flight.
//!
//! Must not: know the content of the writes.

use std::collections::VecDeque;

use crate::model::{Limits, Monotonic, Slot};

use super::super::backoff::Backoff;

/// Pods that wait for one kind of write, the number of writes in flight, and the backoff after a refusal.
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

    /// Inherits the backoff after a refusal.
    pub(super) fn succeed_to(&mut self, before: &Self) {
        self.backoff = before.backoff.clone();
    }

    pub(super) fn queue(&mut self, slot: Slot) {
        self.waiting.push_back(slot);
    }

    /// Takes the next Pod, if another write may be sent.
    pub(super) fn next(&mut self, width: u32, now: Monotonic) -> Option<Slot> {
        if self.in_flight >= width || self.backoff.is_closed(now) {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Records that the write to the Pod taken last was sent.
    pub(super) fn sent(&mut self) {
        self.in_flight += 1;
    }

    /// Records the result of a write in flight.
    pub(super) fn done(&mut self, accepted: bool, now: Monotonic) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if accepted {
            self.backoff.succeed(now);
        } else {
            self.backoff.fail(now);
        }
    }

    /// Returns when the backoff ends, if Pods wait.
    pub(super) fn opens_at(&self, now: Monotonic) -> Option<Monotonic> {
        self.backoff
            .opens_at(now)
            .filter(|_| !self.waiting.is_empty())
    }
}
