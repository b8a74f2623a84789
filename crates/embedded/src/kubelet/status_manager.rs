//! Tracks the state that the API server has of a Pod, and selects the next write.
//!
//! Responsible for: at most one write in flight per Pod, always with the latest state, and retries.
//! Must not: render writes.
//!
//! Each change of a Pod's life raises a version ([`StatusManager::changed`]), and the API server has some version.
//! Changes between two writes are never reported: a container that runs for no time is never seen running.

use std::time::Duration;

use super::{
    life::{Cause, Life, Pod},
    plan::Removal,
    stages::{By, Disruption},
    world::World,
};
use crate::model::{Exponential, Time};

/// The write state of one Pod: changed, reported and in flight.
#[doc(alias = "versionedPodStatus")]
#[derive(Debug, Default)]
pub(super) struct StatusManager {
    /// Number of changes of the Pod's life.
    version: u32,
    /// Version that the API server has.
    reported: u32,
    delete_reported: bool,
    in_flight: Option<PendingWrite>,
    failures: u32,
    retry_at: Option<Time>,
    /// The Pod is in the queue of Pods to check for writes.
    pub(super) queued: bool,
}

/// A write that is due or in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingWrite {
    /// Bind to this node.
    Bind(usize),
    /// Write the status of this version.
    Status(u32),
    /// Create an Event with the reason that the Pod gets no node.
    Event,
    /// Set the condition with the same reason.
    Unschedulable,
    /// Mark as disrupted, as another component does.
    Mark(Disruption),
    /// Delete with the Pod's grace period, as another component does.
    Remove(Disruption),
    /// Delete with a grace period of zero.
    Delete,
}

impl StatusManager {
    /// Records a change of the Pod's life that its status shows.
    pub(super) fn changed(&mut self) {
        self.version = self.version.saturating_add(1);
    }

    /// Records that the API server has the current version.
    pub(super) fn mark_reported(&mut self) {
        self.reported = self.version;
    }
}

impl Pod {
    /// Returns true if [`Self::next_write`] would return a write, given an existing node.
    pub(super) fn has_write(&self) -> bool {
        self.wanted_write(|| Some(0)).is_some()
    }

    /// Returns the next write and records it as in flight.
    pub(super) fn next_write(&mut self, world: &mut World) -> Option<PendingWrite> {
        let write = self.wanted_write(|| world.scheduler.take_node())?;
        self.status.in_flight = Some(write);
        Some(write)
    }

    /// Returns the next write, unless one is in flight or waits for a retry.
    fn wanted_write(&self, next_node: impl FnOnce() -> Option<usize>) -> Option<PendingWrite> {
        let status = &self.status;
        if status.in_flight.is_some() || status.retry_at.is_some() {
            return None;
        }
        let has_news = status.reported < status.version;
        match self.life {
            Life::Starting { .. } => None,
            Life::Unscheduled if self.gated || self.deletion.is_some() => None,
            Life::Unscheduled => match self.reservation.as_deref() {
                None => next_node().map(PendingWrite::Bind),
                Some(reservation) => reservation.next_write(),
            },
            Life::Ended(_) if has_news && self.wants_event() => Some(PendingWrite::Event),
            _ if has_news => Some(PendingWrite::Status(status.version)),
            Life::Ended(_) => self.wants_delete().then_some(PendingWrite::Delete),
            Life::Running { .. } | Life::BackingOff { .. } | Life::StoppingSidecars { .. } => {
                self.removal().map(|removal| match removal.wants_mark() {
                    true => PendingWrite::Mark(removal.cause),
                    false => PendingWrite::Remove(removal.cause),
                })
            }
        }
    }

    /// Records the success of the write in flight and returns it.
    pub(super) fn write_succeeded(&mut self) -> Option<PendingWrite> {
        let status = &mut self.status;
        let write = status.in_flight.take()?;
        status.failures = 0;
        match write {
            PendingWrite::Bind(_) => {}
            PendingWrite::Status(version) => status.reported = status.reported.max(version),
            PendingWrite::Event | PendingWrite::Unschedulable => {
                self.placement_failure_written(write);
            }
            PendingWrite::Mark(_) | PendingWrite::Remove(_) => {
                let plan = self.plan.as_deref_mut();
                if let Some(removal) = plan.and_then(|plan| plan.removal.as_mut()) {
                    removal.advance();
                }
            }
            PendingWrite::Delete => status.delete_reported = true,
        }
        Some(write)
    }

    /// Records the failure of the write in flight, schedules a retry and returns the write.
    pub(super) fn write_failed(&mut self, now: Time) -> Option<PendingWrite> {
        let status = &mut self.status;
        let write = status.in_flight.take();
        if write.is_some() {
            status.failures = status.failures.saturating_add(1);
            status.retry_at = Some(now + RETRY.delay(status.failures));
        }
        write
    }

    /// Returns true if a binding is in flight.
    pub(super) fn is_binding(&self) -> bool {
        matches!(self.status.in_flight, Some(PendingWrite::Bind(_)))
    }

    /// Returns when a failed write may be retried.
    pub(super) fn retry_due(&self) -> Option<Time> {
        self.status.retry_at
    }

    /// Clears a retry delay that is over.
    pub(super) fn end_retry_wait(&mut self, now: Time) {
        if self.status.retry_at.is_some_and(|at| at <= now) {
            self.status.retry_at = None;
        }
    }

    /// Returns true if this kubelet must still delete the terminal Pod.
    pub(super) fn is_to_be_deleted(&self) -> bool {
        !self.status.delete_reported && self.is_lost()
    }

    /// Returns the pending removal of a live Pod that is not being deleted.
    fn removal(&self) -> Option<Removal> {
        let removal = self.plan.as_deref()?.removal?;
        let is_wanted = !removal.is_done() && !self.is_ended() && self.deletion.is_none();
        is_wanted.then_some(removal)
    }

    /// With a grace period of zero, the API server waits only for finalizers.
    fn wants_delete(&self) -> bool {
        !self.status.delete_reported
            && (self.is_lost() || self.deletion.is_some_and(|grace| grace > 0))
    }

    /// Returns true if the Pod's node is lost: other components set its end and delete it.
    fn is_lost(&self) -> bool {
        matches!(self.life, Life::Ended(Cause::Disrupted(cause)) if cause.by() == By::PodGc)
    }
}

/// Backoff of failed writes. The base is short, so that one lost write goes unnoticed. The maximum is long enough to
/// spare an API server that refuses all writes.
const RETRY: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(5),
};
